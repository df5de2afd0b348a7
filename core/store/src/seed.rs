//! Whole sessions into new logs: what a fork copies from its parent.

use std::io;

use bridle_session::Session;

use crate::StoreError;
use crate::draft::Draft;
use crate::log::encode_header;
use crate::log_folder::LogFolder;
use crate::sink::{CommitError, LogFile};
use crate::version::Generation;

/// How many bytes of lines one batch holds at most, unless a single event has more.
const BATCH: usize = 256 * 1024;

/// Writes a session that is in memory as a log. The folder's lock is held.
pub(crate) fn seed(
    folder: &LogFolder,
    generation: Generation,
    session: &Session,
) -> Result<LogFile, StoreError> {
    let mut draft = Draft::begin(folder, generation)?;
    for batch in batches(session) {
        draft.write(&batch?)?;
    }
    draft.sync()?;
    draft.verify(batches(session))?;
    draft.publish().map_err(|error| match error {
        CommitError::NotWritten(error) | CommitError::Lost(error) => error.into(),
    })
}

/// The header's line, then the lines of the events in batches.
fn batches(session: &Session) -> impl Iterator<Item = Result<Vec<u8>, StoreError>> {
    let mut events = session.events().iter().peekable();
    let batch = std::iter::from_fn(move || {
        let mut lines = Vec::new();
        while let Some(event) = events.peek() {
            let line = match event.to_line().map_err(io::Error::from) {
                Ok(line) => line,
                Err(error) => return Some(Err(error.into())),
            };
            if !lines.is_empty() && lines.len() + line.len() >= BATCH {
                break;
            }
            lines.extend_from_slice(line.as_bytes());
            lines.push(b'\n');
            events.next();
        }
        (!lines.is_empty()).then_some(Ok(lines))
    });
    std::iter::once(encode_header(session.header())).chain(batch)
}
