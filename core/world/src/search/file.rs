//! The lines of one file.
//!
//! A file is searched as the bytes that it holds, which for nearly every file are UTF-8. Only where
//! that can change what is found or shown is it decoded first: when the pattern can match something
//! beyond ASCII, and when a line that was found is not UTF-8. UTF-16 with a mark the searcher reads.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use grep_matcher::Matcher as _;
use grep_regex::RegexMatcher;
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkFinish, SinkMatch,
};
use tokio_util::sync::CancellationToken;

use super::MAX_FILE_BYTES;
use super::content::Hit;
use super::walk::Collector;
use crate::files::{self, FileError, Text, open_listed};

/// The most characters of a line that are returned.
const MAX_LINE_CHARS: usize = 300;
/// How many characters before a match are kept when a line is cut.
const LEAD_CHARS: usize = 60;
/// Files up to this size (bytes) are read at once. A searcher looks for a NUL in so many bytes of
/// what it is given in one piece.
const SMALL_BYTES: usize = 64 * 1024;

/// How much of a file was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Searched {
    /// All of it.
    Whole,
    /// Nothing.
    TooLarge,
    /// What stands before its first NUL.
    Binary,
    /// Its ASCII and what in it is UTF-8.
    Undecoded,
}

/// Searches files for one pattern, on several threads.
pub(super) struct FileSearch {
    matcher: RegexMatcher,
    /// Whether the pattern can match something that is not the same in every encoding.
    beyond_ascii: bool,
    context: usize,
    /// Readers that are used again, because of their buffers; one for each thread is ever made.
    idle: Mutex<Vec<Reader>>,
}

impl FileSearch {
    pub(super) fn new(matcher: RegexMatcher, context: usize) -> Self {
        let never = matcher.non_matching_bytes();
        let beyond_ascii = (0x80..=0xff).any(|byte| !never.is_some_and(|set| set.contains(byte)));
        Self { matcher, beyond_ascii, context, idle: Mutex::default() }
    }

    pub(super) fn search(
        &self,
        path: &Path,
        collector: &Collector<Hit>,
        token: &CancellationToken,
    ) -> Result<Searched, FileError> {
        let (file, stat) = open_listed(path)?;
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size > MAX_FILE_BYTES {
            return Ok(Searched::TooLarge);
        }
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut reader = idle.unwrap_or_else(|| Reader::new(self.context));
        let sink = |decoded| HitSink {
            path,
            matcher: &self.matcher,
            collector,
            token,
            decoded,
            met: Met::Text,
        };
        let searched = match reader.search(file, size, self.beyond_ascii, sink(false)) {
            Ok(Met::Other) => reader.search_decoded(path, sink(true)),
            Ok(Met::Binary) => Ok(Searched::Binary),
            Ok(Met::Text) => Ok(Searched::Whole),
            Err(error) => Err(FileError::io(path, error)),
        };
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
        searched
    }
}

/// What a file turned out to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    Text,
    Binary,
    /// Something that is not UTF-8 and makes a difference.
    Other,
}

/// Searches one file after the other.
struct Reader {
    searcher: Searcher,
    small: Vec<u8>,
}

impl Reader {
    fn new(context: usize) -> Self {
        Self {
            searcher: SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .line_number(true)
                .before_context(context)
                .after_context(context)
                .build(),
            small: vec![0; SMALL_BYTES],
        }
    }

    /// A small file is read at once: most files are, and each call into the kernel counts.
    fn search(
        &mut self,
        mut file: File,
        size: u64,
        all_must_be_utf8: bool,
        mut sink: HitSink<'_>,
    ) -> io::Result<Met> {
        let small = usize::try_from(size).ok().and_then(|size| self.small.get_mut(..size));
        // Some file systems call every file empty.
        if let Some(bytes) = small.filter(|bytes| !bytes.is_empty()) {
            let filled = read_full(&mut file, bytes)?;
            let bytes = bytes.get(..filled).unwrap_or_default();
            if all_must_be_utf8 && !is_utf8(bytes) && !is_binary(bytes) {
                return Ok(Met::Other);
            }
            self.searcher.search_slice(sink.matcher, bytes, &mut sink)?;
            return Ok(sink.met);
        }
        if !all_must_be_utf8 {
            self.searcher.search_file(sink.matcher, &file, &mut sink)?;
            return Ok(sink.met);
        }
        let filled = read_full(&mut file, &mut self.small)?;
        let start = self.small.get(..filled).unwrap_or_default();
        if is_binary(start) {
            // Its end is not even read.
            self.searcher.search_reader(sink.matcher, start.chain(file), &mut sink)?;
            return Ok(sink.met);
        }
        let mut bytes = start.to_vec();
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        if !is_utf8(&bytes) {
            return Ok(Met::Other);
        }
        self.searcher.search_reader(sink.matcher, bytes.as_slice(), &mut sink)?;
        Ok(sink.met)
    }

    /// Searches the characters of a file; where they cannot be told, its bytes.
    fn search_decoded(
        &mut self,
        path: &Path,
        mut sink: HitSink<'_>,
    ) -> Result<Searched, FileError> {
        let bytes = files::read(path, MAX_FILE_BYTES)?;
        let text = Text::parse(&bytes).ok();
        let body = text.as_ref().map_or(bytes.as_slice(), |text| text.body.as_bytes());
        let searched = self.searcher.search_reader(sink.matcher, body, &mut sink);
        searched.map_err(|error| FileError::io(path, error))?;
        Ok(match (text, sink.met) {
            (_, Met::Binary) => Searched::Binary,
            (None, _) => Searched::Undecoded,
            (Some(_), _) => Searched::Whole,
        })
    }
}

/// Whether bytes are UTF-8. Told much faster than by `std`, which matters when all files are asked.
fn is_utf8(bytes: &[u8]) -> bool {
    encoding_rs::Encoding::utf8_valid_up_to(bytes) == bytes.len()
}

/// Whether the searcher leaves off in these bytes, or reads them as UTF-16.
fn is_binary(bytes: &[u8]) -> bool {
    memchr::memchr(0, bytes).is_some()
}

/// Fills the bytes from a file, as far as it goes.
fn read_full(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read(rest) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

struct HitSink<'a> {
    path: &'a Path,
    matcher: &'a RegexMatcher,
    collector: &'a Collector<Hit>,
    token: &'a CancellationToken,
    /// Whether what is searched is as good as it gets.
    decoded: bool,
    met: Met,
}

impl HitSink<'_> {
    /// Whether the search should go on.
    fn add(&mut self, line: Option<u64>, matches: bool, bytes: &[u8], start: usize) -> bool {
        if !self.decoded && std::str::from_utf8(bytes).is_err() {
            self.met = Met::Other;
            return false;
        }
        let (path, line) = (self.path.to_owned(), line.unwrap_or_default());
        let text = excerpt(bytes, start);
        self.collector.add(Hit { path, line, matches, text }) && !self.token.is_cancelled()
    }
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        let bytes = found.bytes();
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |at| at.start());
        Ok(self.add(found.line_number(), true, bytes, start))
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.add(beside.line_number(), false, beside.bytes(), 0))
    }

    fn finish(&mut self, _: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        if finish.binary_byte_offset().is_some() {
            self.met = Met::Binary;
        }
        Ok(())
    }
}

/// At most [`MAX_LINE_CHARS`] characters of a line, with the match in view.
fn excerpt(line: &[u8], match_start: usize) -> String {
    let before = line.get(..match_start).unwrap_or_default();
    let lead = String::from_utf8_lossy(before).chars().count();
    let line = String::from_utf8_lossy(line);
    let line = line.trim_end_matches(['\n', '\r']);
    let length = line.chars().count();
    if length <= MAX_LINE_CHARS {
        return line.to_owned();
    }
    let skip = lead.saturating_sub(LEAD_CHARS).min(length - MAX_LINE_CHARS);
    let kept: String = line.chars().skip(skip).take(MAX_LINE_CHARS).collect();
    let head = if skip > 0 { "…" } else { "" };
    let tail = if skip + MAX_LINE_CHARS < length { "…" } else { "" };
    format!("{head}{kept}{tail}")
}
