//! The bytes of a log as a header and events, and nothing else: no path, no lock, no repair.

use std::str;

use bridle_session::{Event, Header, Session, SessionId};

use crate::StoreError;
use crate::frame::Frames;

/// What the bytes of a log say.
#[derive(Debug)]
pub(crate) struct DecodedLog {
    pub(crate) header: Header,
    pub(crate) events: Vec<Event>,
    /// How many complete frames there are, the header's included.
    pub(crate) frames: u64,
    /// Where the last complete frame ends; what is behind it is torn.
    pub(crate) valid_len: usize,
}

impl DecodedLog {
    /// Reads every complete frame. An incomplete end is left out and shows in `valid_len`.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when there is no header, when complete frames follow a damaged
    /// place (they must not be lost, and nothing may be written behind them), or when a complete
    /// frame holds something that is not an event this build may read.
    pub(crate) fn decode(id: &SessionId, bytes: &[u8]) -> Result<Self, StoreError> {
        let mut frames = Frames::new(bytes)?;
        let first = frames.next().ok_or_else(|| unreadable(id, "its header is damaged"))?;
        let header = decode_header(id, &first.content)?;
        let mut log = Self { header, events: Vec::new(), frames: 1, valid_len: 0 };
        while let Some(frame) = frames.next() {
            log.frames += 1;
            decode_events(&frame.content, &mut log.events).map_err(|reason| {
                unreadable(id, format!("the frame at byte {}: {reason}", frame.offset))
            })?;
        }
        log.valid_len = frames.offset();
        match frames.find_later() {
            None => Ok(log),
            Some(later) => Err(unreadable(
                id,
                format!(
                    "damaged at byte {} behind event count {}; sound data goes on at byte {later}",
                    log.valid_len,
                    log.events.len(),
                ),
            )),
        }
    }

    /// Folds the events.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] names the first event that does not fit.
    pub(crate) fn fold(self) -> Result<Session, StoreError> {
        let id = self.header.id.clone();
        Session::replay(self.header, self.events).map_err(|error| unreadable(&id, error))
    }
}

/// Reads event lines, each with its line end.
pub(crate) fn decode_events(content: &[u8], events: &mut Vec<Event>) -> Result<(), String> {
    let text = str::from_utf8(content).map_err(|error| error.to_string())?;
    for line in text.split_inclusive('\n') {
        let line = line.strip_suffix('\n').ok_or("the last line has no end")?;
        events.push(Event::from_line(line).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// The header as its line, with the line end.
pub(crate) fn encode_header(header: &Header) -> Result<Vec<u8>, StoreError> {
    let mut line = serde_json::to_vec(header).map_err(std::io::Error::from)?;
    line.push(b'\n');
    Ok(line)
}

fn decode_header(id: &SessionId, content: &[u8]) -> Result<Header, StoreError> {
    let format = serde_json::from_slice::<FormatOnly>(content)
        .map_err(|error| unreadable(id, format!("its header: {error}")))?
        .format;
    if format > Header::FORMAT {
        return Err(StoreError::Newer { id: id.clone(), version: format });
    }
    let header: Header = serde_json::from_slice(content)
        .map_err(|error| unreadable(id, format!("its header: {error}")))?;
    if header.id != *id {
        return Err(unreadable(id, format!("it holds session {}", header.id)));
    }
    Ok(header)
}

/// Read first, because the rest of a newer header may look different.
#[derive(serde::Deserialize)]
struct FormatOnly {
    format: u32,
}

pub(crate) fn unreadable(id: &SessionId, reason: impl ToString) -> StoreError {
    StoreError::Unreadable { id: id.clone(), reason: reason.to_string() }
}
