//! The bytes of a log as a header and events, and nothing else: no path, no lock, no repair.

use std::str;

use bridle_session::{Event, EventCount, Header, LogGap, Record, Seq, Session, SessionId};
use sha2::{Digest as _, Sha256};

use crate::frame::Frames;
use crate::{Damage, StoreError};

/// What the bytes of a log say.
#[derive(Debug)]
pub(crate) struct DecodedLog {
    pub(crate) header: Header,
    /// The events, and the damaged places between them.
    pub(crate) records: Vec<Record>,
    /// How many events there are.
    pub(crate) events: EventCount,
    /// The position behind the last of them.
    next: Seq,
    /// How many complete frames there are, the header's included.
    pub(crate) frames: u64,
    /// Where the last complete frame ends; what is behind it is torn.
    pub(crate) valid_len: usize,
    /// The damaged places.
    pub(crate) damage: Vec<Damage>,
}

impl DecodedLog {
    /// Reads every complete frame, also behind a damaged place. An incomplete end is left out and
    /// shows in `valid_len`.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when there is no header, or when a complete frame holds
    /// something that is not an event this build may read.
    pub(crate) fn decode(id: &SessionId, bytes: &[u8]) -> Result<Self, StoreError> {
        let mut frames = Frames::new(bytes)?;
        let first = frames.next().ok_or_else(|| unreadable(id, "its header is damaged"))?;
        let header = decode_header(id, &first)?;
        let mut log = Self {
            header,
            records: Vec::new(),
            events: EventCount(0),
            next: Seq(0),
            frames: 1,
            valid_len: 0,
            damage: Vec::new(),
        };
        loop {
            let offset = frames.offset();
            if let Some(content) = frames.next() {
                log.take(offset, &content).map_err(|reason| {
                    unreadable(id, format!("the frame at byte {offset}: {reason}"))
                })?;
            } else if let Some(damaged) = frames.skip_damage() {
                log.skip(offset, damaged);
            } else {
                break;
            }
        }
        log.valid_len = frames.offset();
        Ok(log)
    }

    /// Takes in the events of the frame at `offset`.
    fn take(&mut self, offset: usize, content: &[u8]) -> Result<(), String> {
        let mut events = Vec::new();
        decode_events(content, &mut events)?;
        self.frames = self.frames.saturating_add(1);
        self.events.0 = self.events.0.saturating_add(events.len() as u64);
        for event in events {
            if event.seq > self.next {
                self.miss(offset, event.seq);
            }
            self.next = event.seq.next();
            self.records.push(Record::Event(event));
        }
        Ok(())
    }

    /// Events before `found` are missing: the damaged place before it held them, or nothing is
    /// there at all.
    fn miss(&mut self, offset: usize, found: Seq) {
        let (first, last) = (self.next, Seq(found.0.saturating_sub(1)));
        match (self.records.last(), self.damage.last_mut()) {
            (Some(Record::Damage { hash }), Some(damage)) => {
                damage.lost = Some(LogGap { first, last, hash: hash.clone() });
            }
            _ => {
                let lost = Some(LogGap { first, last, hash: String::new() });
                self.damage.push(Damage { offset: offset as u64, bytes: 0, lost });
            }
        }
    }

    fn skip(&mut self, offset: usize, damaged: &[u8]) {
        let hash = Sha256::digest(damaged).iter().map(|byte| format!("{byte:02x}")).collect();
        self.records.push(Record::Damage { hash });
        self.damage.push(Damage { offset: offset as u64, bytes: damaged.len() as u64, lost: None });
    }

    /// Folds the events.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] names the first event that does not fit.
    pub(crate) fn fold(self) -> Result<Session, StoreError> {
        let id = self.header.id.clone();
        Session::replay(self.header, self.records).map_err(|error| unreadable(&id, error))
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
