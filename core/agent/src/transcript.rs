//! A stored session as the updates a client would have seen.

use bridle_session::Session;

use crate::update::AgentUpdate;

/// Everything a person saw, in order, from the log's events (never from the surface: compaction
/// must not erase what was shown). Tool calls come with their final status.
pub fn transcript(session: &Session) -> Vec<AgentUpdate> {
    let _ = session;
    todo!()
}
