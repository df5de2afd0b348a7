//! The pieces of the message that is being given, on their way out: the first goes at once, later
//! ones wait for each other for a moment, so that a fast model does not become a flood of lines.

use std::sync::Arc;
use std::time::Duration;

use bridle_agent::AgentUpdate;
use bridle_compose::{Clock, Sleep};
use bridle_session::MessageId;

/// How long a piece may wait for the next.
pub(super) const PATIENCE: Duration = Duration::from_millis(25);

/// How many bytes may wait; what exceeds it goes out whole.
const LIMIT: usize = 4 * 1024;

/// See the module.
pub(super) struct Pieces {
    clock: Arc<dyn Clock>,
    /// The message whose first piece was the last update to pass here, and whether it is a thought.
    message: Option<(MessageId, bool)>,
    held: Option<AgentUpdate>,
    due: Option<Sleep>,
}

impl Pieces {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, message: None, held: None, due: None }
    }

    /// Takes an update, and gives what is to be sent now, in order.
    pub(super) fn push(
        &mut self,
        update: AgentUpdate,
    ) -> impl Iterator<Item = AgentUpdate> + use<> {
        let Some(update) = self.join(update) else {
            let full = self.held.as_ref().is_some_and(|held| text(held).len() >= LIMIT);
            return full.then(|| self.flush()).flatten().into_iter().chain(None);
        };
        let before = self.flush();
        self.message = message(&update);
        before.into_iter().chain(Some(update))
    }

    /// Keeps a later piece of the same message; gives back everything else.
    fn join(&mut self, update: AgentUpdate) -> Option<AgentUpdate> {
        if self.message.is_none() || self.message != message(&update) {
            return Some(update);
        }
        match &mut self.held {
            Some(
                AgentUpdate::MessageChunk { text: held, .. }
                | AgentUpdate::ThoughtChunk { text: held, .. },
            ) => held.push_str(text(&update)),
            _ => {
                self.held = Some(update);
                self.due = Some(self.clock.sleep(PATIENCE));
            }
        }
        None
    }

    /// Gives what waits.
    pub(super) fn flush(&mut self) -> Option<AgentUpdate> {
        self.due = None;
        self.held.take()
    }

    /// Completes when what waits has waited long enough; never when nothing does.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn due(&mut self) {
        match &mut self.due {
            Some(due) => due.await,
            None => std::future::pending().await,
        }
    }
}

/// The message that a piece belongs to.
fn message(update: &AgentUpdate) -> Option<(MessageId, bool)> {
    match update {
        AgentUpdate::MessageChunk { id, .. } => Some((id.clone(), false)),
        AgentUpdate::ThoughtChunk { id, .. } => Some((id.clone(), true)),
        _ => None,
    }
}

fn text(update: &AgentUpdate) -> &str {
    match update {
        AgentUpdate::MessageChunk { text, .. } | AgentUpdate::ThoughtChunk { text, .. } => text,
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use bridle_compose::SystemClock;

    use super::*;

    fn piece(id: &str, text: &str) -> AgentUpdate {
        AgentUpdate::MessageChunk { id: MessageId::new(id), text: text.into() }
    }

    fn thought(id: &str, text: &str) -> AgentUpdate {
        AgentUpdate::ThoughtChunk { id: MessageId::new(id), text: text.into() }
    }

    fn sent(pieces: &mut Pieces, update: AgentUpdate) -> Vec<String> {
        pieces.push(update).map(|update| text(&update).to_owned()).collect()
    }

    #[tokio::test]
    async fn the_first_piece_goes_at_once_and_everything_else_flushes_what_waits() {
        let mut pieces = Pieces::new(Arc::new(SystemClock));
        assert_eq!(sent(&mut pieces, thought("a", "t")), ["t"]);
        assert_eq!(sent(&mut pieces, piece("a", "1")), ["1"]);
        assert!(sent(&mut pieces, piece("a", "2")).is_empty());
        assert!(sent(&mut pieces, piece("a", "3")).is_empty());
        assert_eq!(sent(&mut pieces, piece("b", "4")), ["23", "4"]);
        assert!(sent(&mut pieces, piece("b", "5")).is_empty());
        assert_eq!(sent(&mut pieces, AgentUpdate::BlockEnded), ["5", ""]);
        assert_eq!(sent(&mut pieces, piece("b", "6")), ["6"], "a new block begins at once");
        assert!(pieces.flush().is_none());
    }

    #[tokio::test]
    async fn what_waits_is_bounded() {
        let mut pieces = Pieces::new(Arc::new(SystemClock));
        let all: Vec<_> =
            (0..32).flat_map(|_| sent(&mut pieces, piece("a", &"x".repeat(1_000)))).collect();
        let lengths: Vec<_> = all.iter().map(String::len).collect();
        assert_eq!(lengths, [&[1_000][..], &[5_000; 6]].concat());
    }
}
