//! The bytes of a log as a header and events, and nothing else: no path, no lock, no repair.

use std::collections::VecDeque;
use std::ops::Range;
use std::str;

use bridle_session::{
    DecodeError, Event, EventCount, Header, LogGap, Record, ReplayError, Seq, Session, SessionId,
};
use sha2::{Digest as _, Sha256};

use crate::codec::{Compression, Units};
use crate::parallel::on_all_cores;
use crate::version::{Generation, Step, Versions, rewrite};
use crate::{Damage, StoreError};

/// From how many bytes on a log is worth several threads. The logs of tests are small.
const LARGE: usize = if cfg!(test) { 1024 } else { 256 * 1024 };

/// How many units one thread takes at a time.
const PART: usize = 16;

/// The bytes of a log file and what is known of them from outside.
pub(crate) struct LogText<'a> {
    id: &'a SessionId,
    bytes: &'a [u8],
    generation: Generation,
    /// What leads to the current version.
    steps: Vec<Step>,
}

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
    /// How many whole units there are, the header's included.
    pub(crate) units: u64,
    /// Where the last whole unit ends; what is behind it is torn.
    pub(crate) valid_len: usize,
    /// The damaged places.
    pub(crate) damage: Vec<Damage>,
    /// Where the units with events are.
    places: Vec<Place>,
}

/// Where a unit is, and which events it says it holds.
#[derive(Debug)]
struct Place {
    offset: usize,
    first: Seq,
    last: Seq,
}

/// Where the lines of a log end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct End {
    /// Behind the last whole unit.
    pub(crate) offset: usize,
    /// Whether something is damaged before that.
    pub(crate) damaged: bool,
}

/// The two ends of a log.
#[derive(Debug)]
pub(crate) struct DecodedEnds {
    pub(crate) header: Header,
    pub(crate) head: Vec<Event>,
    /// What of the last events is not in the head.
    pub(crate) tail: VecDeque<Event>,
    /// How many units were unpacked or tried to be.
    pub(crate) unpacked: usize,
}

impl<'a> LogText<'a> {
    /// # Errors
    /// [`StoreError::Unreadable`] when nothing leads from its version to the current one.
    pub(crate) fn new(
        id: &'a SessionId,
        bytes: &'a [u8],
        generation: Generation,
        versions: &Versions,
    ) -> Result<Self, StoreError> {
        let steps = versions.steps_from(generation.version);
        Ok(Self { id, bytes, generation, steps: steps.map_err(|reason| unreadable(id, reason))? })
    }

    /// Reads every whole unit, also behind a damaged place. An incomplete end is left out and
    /// shows in `valid_len`.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when there is no header, or when a whole unit holds something
    /// that is not an event this build may read.
    pub(crate) fn decode(&self) -> Result<DecodedLog, StoreError> {
        let is_event = |line: &str| self.is_event(line);
        let mut units = Units::new(self.generation.compression, self.bytes, &is_event)?;
        let mut log = DecodedLog::new(self.header(&mut units)?);
        if self.generation.compression == Compression::Zstd && self.bytes.len() >= LARGE {
            self.decode_ahead(&mut units, &mut log)?;
        }
        loop {
            let offset = units.offset();
            if let Some(content) = units.next() {
                log.take(offset, self.events(offset, &content)?);
            } else if let Some(damaged) = units.skip_damage() {
                log.skip(offset, damaged);
            } else {
                break;
            }
        }
        log.valid_len = units.offset();
        Ok(log)
    }

    /// Takes in the units up to the first damaged place, on several threads: unpacking and parsing
    /// is most of what opening a session costs.
    fn decode_ahead(&self, units: &mut Units<'a>, log: &mut DecodedLog) -> Result<(), StoreError> {
        let seeming = units.seeming();
        let parts: Vec<_> = seeming.chunks(PART).collect();
        let decoded = on_all_cores(&parts, |part| self.decode_part(part));
        for (range, events) in seeming.into_iter().zip(decoded.into_iter().flatten()) {
            let Some(events) = events.filter(|_| range.start == units.offset()) else { break };
            log.take(range.start, events?);
            units.seek(range.end);
        }
        Ok(())
    }

    /// The events of each unit; `None` for one that is not whole.
    fn decode_part(&self, part: &[Range<usize>]) -> Vec<Option<Result<Vec<Event>, StoreError>>> {
        let is_event = |line: &str| self.is_event(line);
        let Ok(mut units) = Units::new(self.generation.compression, self.bytes, &is_event) else {
            return part.iter().map(|_| None).collect();
        };
        let decode = |range: &Range<usize>| {
            units.seek(range.start);
            let content = units.next().filter(|_| units.offset() == range.end)?;
            Some(self.events(range.start, &content))
        };
        part.iter().map(decode).collect()
    }

    /// What the whole units hold, one after the other.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] when there is none.
    pub(crate) fn stored_lines(&self) -> Result<Vec<u8>, StoreError> {
        let is_event = |line: &str| self.is_event(line);
        let mut units = Units::new(self.generation.compression, self.bytes, &is_event)?;
        let mut lines = Vec::new();
        loop {
            match units.next() {
                Some(content) => lines.extend_from_slice(&content),
                None if units.skip_damage().is_some() => (),
                None if lines.is_empty() => {
                    return Err(unreadable(self.id, "nothing of it is whole"));
                }
                None => return Ok(lines),
            }
        }
    }

    /// Hands out every line of the whole units from `start` on, which is the end of a unit; from
    /// the beginning of the log also returns its header.
    ///
    /// # Errors
    /// As for [`LogText::decode`]; [`StoreError::Unreadable`] with the error of `take`.
    pub(crate) fn each_line(
        &self,
        start: Option<usize>,
        mut take: impl FnMut(&str) -> Result<(), String>,
    ) -> Result<(Option<Header>, End), StoreError> {
        let is_event = |line: &str| self.is_event(line);
        let mut units = Units::new(self.generation.compression, self.bytes, &is_event)?;
        let header = match start {
            None => Some(self.header(&mut units)?),
            Some(start) => {
                units.seek(start);
                None
            }
        };
        let mut damaged = false;
        loop {
            let offset = units.offset();
            if let Some(content) = units.next() {
                let mut take = |line| take(&rewrite(line, &self.steps, |step| step.event)?);
                let taken =
                    lines(&content).and_then(|lines| lines.into_iter().try_for_each(&mut take));
                taken.map_err(|reason| self.unreadable_at(offset, &reason))?;
            } else if units.skip_damage().is_some() {
                damaged = true;
            } else {
                return Ok((header, End { offset: units.offset(), damaged }));
            }
        }
    }

    /// The bytes of the file.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Reads the first `head` and the last `tail` events and unpacks no more than it takes.
    ///
    /// # Errors
    /// As for [`LogText::decode`], for the units that are looked at.
    pub(crate) fn decode_ends(&self, head: usize, tail: usize) -> Result<DecodedEnds, StoreError> {
        let is_event = |line: &str| self.is_event(line);
        let mut units = Units::new(self.generation.compression, self.bytes, &is_event)?;
        let header = self.header(&mut units)?;
        let (first, last) = (Vec::new(), VecDeque::new());
        let mut ends = DecodedEnds { header, head: first, tail: last, unpacked: 1 };
        while ends.head.len() < head && self.unit(&mut units, &mut ends.head, &mut ends.unpacked)? {
        }
        for seeming in units.seeming().into_iter().rev() {
            if ends.tail.len() >= tail {
                break;
            }
            let mut found = Vec::new();
            units.seek(seeming.start);
            // One that is damaged may seem to reach over whole ones.
            while units.offset() < seeming.end
                && self.unit(&mut units, &mut found, &mut ends.unpacked)?
            {}
            found.into_iter().rev().for_each(|event| ends.tail.push_front(event));
        }
        // The head's last unit may hold more than the head.
        let more = ends.head.split_off(head.min(ends.head.len()));
        more.into_iter().rev().for_each(|event| ends.tail.push_front(event));
        let surplus = ends.tail.len().saturating_sub(tail);
        ends.tail.drain(..surplus);
        Ok(ends)
    }

    /// Reads the events of the next unit, or passes what is damaged there; `false` at the end.
    fn unit(
        &self,
        units: &mut Units<'a>,
        found: &mut Vec<Event>,
        unpacked: &mut usize,
    ) -> Result<bool, StoreError> {
        let offset = units.offset();
        if offset >= self.bytes.len() {
            return Ok(false);
        }
        *unpacked = unpacked.saturating_add(1);
        match units.next() {
            Some(content) => found.extend(self.events(offset, &content)?),
            None => return Ok(units.skip_damage().is_some()),
        }
        Ok(true)
    }

    /// The successor's text: every whole unit, rewritten by the first of the steps. Calls `write`
    /// with the header's line, then with the lines of each unit.
    ///
    /// # Errors
    /// Those of `write`; [`StoreError::Unreadable`] when a line cannot be rewritten.
    pub(crate) fn succeed(
        &self,
        mut write: impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let step = self.steps.get(..1).unwrap_or_default();
        let is_event = |line: &str| self.is_event(line);
        let mut units = Units::new(self.generation.compression, self.bytes, &is_event)?;
        let header = self.header_line(&mut units)?;
        let lines = |content: &[u8], of: fn(&Step) -> _| -> Result<Vec<u8>, String> {
            let mut rewritten = Vec::new();
            for line in lines(content)? {
                rewritten.extend_from_slice(rewrite(line, step, of)?.as_bytes());
                rewritten.push(b'\n');
            }
            Ok(rewritten)
        };
        write(&lines(&header, |step| step.header).map_err(|why| unreadable(self.id, why))?)?;
        loop {
            let offset = units.offset();
            if let Some(content) = units.next() {
                let lines = lines(&content, |step| step.event);
                write(&lines.map_err(|reason| self.unreadable_at(offset, &reason))?)?;
            } else if units.skip_damage().is_none() {
                return Ok(());
            }
        }
    }

    fn header_line(&self, units: &mut Units<'a>) -> Result<Vec<u8>, StoreError> {
        if let Some(content) = units.next() {
            return Ok(content.into_owned());
        }
        let end = if units.skip_damage().is_some() { units.offset() } else { self.bytes.len() };
        Err(unreadable(self.id, format!("its header is damaged: bytes 0 to {end} are not whole")))
    }

    fn header(&self, units: &mut Units<'a>) -> Result<Header, StoreError> {
        let content = self.header_line(units)?;
        let wrong = |reason: String| unreadable(self.id, format!("its header: {reason}"));
        let text = str::from_utf8(&content).map_err(|error| wrong(error.to_string()))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let format = serde_json::from_str::<FormatOnly>(text)
            .map_err(|error| wrong(error.to_string()))?
            .format;
        let named = self.generation.version;
        match format {
            format if format == named => (),
            format if format > named => {
                return Err(StoreError::Newer { id: self.id.clone(), version: format });
            }
            _ => return Err(wrong(format!("it says version {format}, its name says {named}"))),
        }
        let line = rewrite(text, &self.steps, |step| step.header).map_err(wrong)?;
        let header: Header =
            serde_json::from_str(&line).map_err(|error| wrong(error.to_string()))?;
        if header.id != *self.id {
            return Err(unreadable(self.id, format!("it holds session {}", header.id)));
        }
        Ok(header)
    }

    /// The events of the unit at `offset`.
    fn events(&self, offset: usize, content: &[u8]) -> Result<Vec<Event>, StoreError> {
        let event = |line| {
            let line = rewrite(line, &self.steps, |step| step.event)?;
            Event::from_line(&line).map_err(|error| error.to_string())
        };
        let events = lines(content).and_then(|lines| lines.into_iter().map(event).collect());
        events.map_err(|reason| self.unreadable_at(offset, &reason))
    }

    /// Whether a plain line is whole. One of a type that this build does not know is.
    fn is_event(&self, line: &str) -> bool {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let event = rewrite(line, &self.steps, |step| step.event);
        event.is_ok_and(|line| !matches!(Event::from_line(&line), Err(DecodeError::Malformed(_))))
    }

    fn unreadable_at(&self, offset: usize, reason: &str) -> StoreError {
        unreadable(self.id, format!("what begins at byte {offset}: {reason}"))
    }
}

impl DecodedLog {
    fn new(header: Header) -> Self {
        Self {
            header,
            records: Vec::new(),
            events: EventCount(0),
            next: Seq(0),
            units: 1,
            valid_len: 0,
            damage: Vec::new(),
            places: Vec::new(),
        }
    }

    /// Takes in the events of the unit at `offset`.
    fn take(&mut self, offset: usize, events: Vec<Event>) {
        self.units = self.units.saturating_add(1);
        self.events.0 = self.events.0.saturating_add(events.len() as u64);
        if let (Some(first), Some(last)) = (events.first(), events.last()) {
            self.places.push(Place { offset, first: first.seq, last: last.seq });
        }
        for event in events {
            if event.seq > self.next {
                self.miss(offset, event.seq);
            }
            self.next = event.seq.next();
            self.records.push(Record::Event(event));
        }
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
        let hash = hex(&Sha256::digest(damaged));
        self.records.push(Record::Damage { hash });
        self.damage.push(Damage { offset: offset as u64, bytes: damaged.len() as u64, lost: None });
    }

    /// Folds the events.
    ///
    /// # Errors
    /// [`StoreError::Unreadable`] names the first event that does not fit, and where it is.
    pub(crate) fn fold(self) -> Result<Session, StoreError> {
        let Self { header, records, places, .. } = self;
        let id = header.id.clone();
        Session::replay(header, records).map_err(|error| match place_of(&error, &places) {
            Some(offset) => unreadable(&id, format!("what begins at byte {offset}: {error}")),
            None => unreadable(&id, error),
        })
    }
}

/// Where the event is that does not fit.
fn place_of(error: &ReplayError, places: &[Place]) -> Option<usize> {
    let place = match error {
        ReplayError::Sequence { .. } => {
            let mut next = Seq(0);
            places.iter().find(|place| {
                let passed = place.first < next;
                next = place.last.next();
                passed
            })
        }
        ReplayError::Inadmissible { seq, .. } => {
            places.iter().find(|place| (place.first..=place.last).contains(seq))
        }
        ReplayError::Boundary { .. } => None,
    };
    place.map(|place| place.offset)
}

/// What a check says of a fold.
pub(crate) fn missing_ends(folded: Result<Session, StoreError>) -> Result<usize, String> {
    folded.map(|session| session.repair().len()).map_err(|error| error.to_string())
}

/// Lines, each of which must have its end.
fn lines(content: &[u8]) -> Result<Vec<&str>, String> {
    let text = str::from_utf8(content).map_err(|error| error.to_string())?;
    let ended = text.split_inclusive('\n').map(|line| line.strip_suffix('\n'));
    ended.collect::<Option<_>>().ok_or_else(|| "the last line has no end".to_owned())
}

/// Reads event lines, each with its line end.
pub(crate) fn decode_events(content: &[u8]) -> Result<Vec<Event>, String> {
    let event = |line| Event::from_line(line).map_err(|error| error.to_string());
    lines(content)?.into_iter().map(event).collect()
}

/// The header as its line, with the line end.
pub(crate) fn encode_header(header: &Header) -> Result<Vec<u8>, StoreError> {
    let mut line = serde_json::to_vec(header).map_err(std::io::Error::from)?;
    line.push(b'\n');
    Ok(line)
}

/// Read first, because the rest of a newer header may look different.
#[derive(serde::Deserialize)]
#[serde(expecting = "a session header")]
struct FormatOnly {
    format: u32,
}

pub(crate) fn unreadable(id: &SessionId, reason: impl ToString) -> StoreError {
    StoreError::Unreadable { id: id.clone(), reason: reason.to_string() }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
