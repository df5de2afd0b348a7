//! The forms that a log can have on the disk. Both are read by the same walk: a unit (a frame, or
//! a line) is either whole or not there, and behind a damaged place the next whole one is found.

use std::borrow::Cow;
use std::io;
use std::ops::Range;

use zstd::bulk::Decompressor;

use crate::{frame, plain};

/// How the lines of a log are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Zstandard frames with checksums, in `events.v1.jsonl.zst`.
    #[default]
    Zstd,
    /// The lines as they are, in `events.v1.jsonl`. A changed byte inside a line may go unnoticed.
    None,
}

impl Compression {
    /// What goes to the disk for `lines`.
    pub(crate) fn encode(self, lines: &[u8]) -> io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Zstd => Ok(Cow::Owned(frame::encode(lines)?)),
            Self::None => Ok(Cow::Borrowed(lines)),
        }
    }
}

/// Whether a line is an event of the log's version, as far as its form tells.
pub(crate) type IsEvent<'a> = &'a dyn Fn(&str) -> bool;

enum Form<'a> {
    Zstd(Decompressor<'static>),
    Plain(IsEvent<'a>),
}

/// Reads the units of a log one after the other.
pub(crate) struct Units<'a> {
    bytes: &'a [u8],
    offset: usize,
    form: Form<'a>,
}

impl<'a> Units<'a> {
    pub(crate) fn new(
        compression: Compression,
        bytes: &'a [u8],
        is_event: IsEvent<'a>,
    ) -> io::Result<Self> {
        let form = match compression {
            Compression::Zstd => Form::Zstd(Decompressor::new()?),
            Compression::None => Form::Plain(is_event),
        };
        Ok(Self { bytes, offset: 0, form })
    }

    /// Where the units read so far end.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    /// Goes on from there.
    pub(crate) fn seek(&mut self, offset: usize) {
        self.offset = offset;
    }

    /// The lines of the next unit; `None` when no whole unit begins here.
    pub(crate) fn next(&mut self) -> Option<Cow<'a, [u8]>> {
        let (content, len) = self.decode(self.offset)?;
        self.offset += len;
        Some(content)
    }

    /// The lines of all units; `None` when the bytes are anything else.
    pub(crate) fn whole(mut self) -> Option<Vec<u8>> {
        let mut lines = Vec::new();
        while self.offset < self.bytes.len() {
            lines.extend_from_slice(&self.next()?);
        }
        Some(lines)
    }

    /// Moves to the first whole unit behind the present offset and returns the bytes that it
    /// passes; `None` when there is no such unit.
    pub(crate) fn skip_damage(&mut self) -> Option<&'a [u8]> {
        let mut from = self.offset.saturating_add(1);
        let later = loop {
            let candidate = self.candidate(from)?;
            if self.decode(candidate).is_some() {
                break candidate;
            }
            from = candidate.saturating_add(1);
        };
        let damaged = self.bytes.get(self.offset..later);
        self.offset = later;
        damaged
    }

    /// Where units seem to be from the present offset on, told from their form without unpacking
    /// any. A damaged one may seem to reach over whole ones.
    pub(crate) fn seeming(&self) -> Vec<Range<usize>> {
        let mut seeming = Vec::new();
        let mut next = Some(self.offset);
        while let Some(at) = next {
            let Some(len) = self.bytes.get(at..).and_then(|bytes| self.extent(bytes)) else {
                next = self.candidate(at.saturating_add(1));
                continue;
            };
            seeming.push(at..at + len);
            next = Some(at + len).filter(|end| *end < self.bytes.len());
        }
        seeming
    }

    fn decode(&mut self, at: usize) -> Option<(Cow<'a, [u8]>, usize)> {
        let bytes = self.bytes.get(at..)?;
        match &mut self.form {
            Form::Zstd(decompressor) => {
                let (content, len) = frame::decode(decompressor, bytes)?;
                Some((content.into(), len))
            }
            Form::Plain(is_event) => {
                let line = plain::line(bytes)?;
                let is_whole = at == 0 || is_event(line);
                is_whole.then(|| (line.as_bytes().into(), line.len()))
            }
        }
    }

    fn extent(&self, bytes: &[u8]) -> Option<usize> {
        match self.form {
            Form::Zstd(_) => frame::extent(bytes),
            Form::Plain(_) => plain::extent(bytes),
        }
    }

    /// The first place from `from` on where a unit may begin.
    fn candidate(&self, from: usize) -> Option<usize> {
        let mark: &[u8] = match self.form {
            Form::Zstd(_) => &frame::MAGIC,
            Form::Plain(_) => plain::MARK,
        };
        let found = self.bytes.get(from..)?.windows(mark.len()).position(|window| window == mark);
        found.map(|index| from + index)
    }
}

/// For the fuzz target: unpacks every frame in `bytes`, damage skipped, and counts them.
#[cfg(fuzzing)]
pub fn fuzz_frames(bytes: &[u8]) -> usize {
    let Ok(mut units) = Units::new(Compression::Zstd, bytes, &|_| true) else { return 0 };
    let mut count = 0;
    loop {
        while units.next().is_some() {
            count += 1;
        }
        let before = units.offset();
        if units.skip_damage().is_none() {
            return count;
        }
        assert!(before < units.offset() && units.offset() < bytes.len(), "the search goes forward");
    }
}
