//! Lines by content.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkMatch};
use tokio_util::sync::CancellationToken;

use super::walk::{Collector, PathGlobs, walk};
use super::{MAX_FILE_BYTES, MAX_TIME, SearchError};
use crate::files::open_listed;

/// The most memory (bytes) that a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 10 * 1024 * 1024;
/// The most characters of a line that are returned.
const MAX_LINE_CHARS: usize = 300;
/// How many characters before a match are kept when a line is cut.
const LEAD_CHARS: usize = 60;
/// Files up to this size (bytes) are read at once. A searcher looks for a NUL in so many bytes of
/// what it is given in one piece.
const SMALL_BYTES: usize = 64 * 1024;

/// What to look for.
#[derive(Clone, Debug)]
pub struct ContentQuery<'a> {
    /// The folder or file, resolved.
    pub place: &'a Path,
    /// Folders that are passed over, resolved.
    pub excluded: &'a [PathBuf],
    /// What is sought, within one line.
    pub pattern: Pattern<'a>,
    /// Only files that match one of these globs, if there are any; one that begins with `!` leaves
    /// out what matches it instead. Without a `/` they are matched against file names.
    pub globs: &'a [String],
    /// How many lines before and after each matching one are returned.
    pub context: usize,
    /// The most hits to return.
    pub limit: usize,
}

/// What a line must hold.
#[derive(Clone, Copy, Debug)]
pub enum Pattern<'a> {
    /// A match of a regular expression.
    Regex(&'a str),
    /// This text.
    Literal(&'a str),
}

/// One line: a matching one, or one beside it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hit {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, from 1.
    pub line: u64,
    /// Whether it matches.
    pub matches: bool,
    /// The line without its end; a long one is cut around the match, with `…` where it was cut.
    pub text: String,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct ContentFound {
    /// Sorted by path and line.
    pub hits: Vec<Hit>,
    /// How many of them match.
    pub shown: usize,
    /// How many matching lines there are.
    pub total: usize,
    /// Whether the search stopped early, so that there may be more than `total`.
    pub at_least: bool,
    /// Files that were not searched because they are too large.
    pub too_large: usize,
}

/// Finds lines. Binary files are passed over from their first NUL on. Blocks.
///
/// # Errors
/// [`SearchError`].
pub fn search_content(
    query: &ContentQuery<'_>,
    token: &CancellationToken,
) -> Result<ContentFound, SearchError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.line_terminator(Some(b'\n')).size_limit(MAX_PATTERN_BYTES);
    let matcher = match query.pattern {
        Pattern::Regex(pattern) => builder.build(pattern),
        Pattern::Literal(text) => builder.fixed_strings(true).build(text),
    }
    .map_err(|error| SearchError::Pattern(error.to_string()))?;
    let readers = Readers { context: query.context, idle: Mutex::default() };
    let globs = PathGlobs::new(query.globs)?;
    let too_large = AtomicUsize::new(0);
    let found = walk(query.place, query.excluded, token, MAX_TIME, |entry, collector| {
        let path = entry.path();
        let regular = entry.file_type().is_some_and(|kind| kind.is_file());
        if !regular || !globs.matches(query.place, path) {
            return;
        }
        match search_file(path, &matcher, &readers, collector, token) {
            Ok(Searched::Whole) => {}
            Ok(Searched::TooLarge) => {
                too_large.fetch_add(1, Ordering::Relaxed);
            }
            // Like an unreadable entry of the walk: passed over.
            Err(error) => tracing::debug!(path = %path.display(), %error, "not searched"),
        }
    })?;
    let mut hits = found.items;
    hits.sort();
    let total = hits.iter().filter(|hit| hit.matches).count();
    cut(&mut hits, query.limit);
    let shown = total.min(query.limit);
    let too_large = too_large.into_inner();
    Ok(ContentFound { hits, shown, total, at_least: found.stopped, too_large })
}

/// Readers that are used again, because of their buffers; one for each thread is ever made.
struct Readers {
    context: usize,
    idle: Mutex<Vec<Reader>>,
}

impl Readers {
    fn take(&self) -> Reader {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        idle.unwrap_or_else(|| Reader {
            searcher: SearcherBuilder::new()
                .binary_detection(BinaryDetection::quit(0))
                .line_number(true)
                .before_context(self.context)
                .after_context(self.context)
                .build(),
            small: vec![0; SMALL_BYTES],
        })
    }

    fn give_back(&self, reader: Reader) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(reader);
    }
}

/// Searches one file after the other.
struct Reader {
    searcher: Searcher,
    small: Vec<u8>,
}

impl Reader {
    /// A small file is read at once: most files are, and each call into the kernel counts.
    fn search(
        &mut self,
        mut file: File,
        size: u64,
        matcher: &RegexMatcher,
        sink: HitSink<'_>,
    ) -> io::Result<()> {
        let small = usize::try_from(size).ok().and_then(|size| self.small.get_mut(..size));
        // Some file systems call every file empty.
        let Some(bytes) = small.filter(|bytes| !bytes.is_empty()) else {
            return self.searcher.search_file(matcher, &file, sink);
        };
        let filled = read_full(&mut file, bytes)?;
        self.searcher.search_slice(matcher, bytes.get(..filled).unwrap_or_default(), sink)
    }
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

/// Keeps so many matching lines and those beside them.
fn cut(hits: &mut Vec<Hit>, limit: usize) {
    let mut matching = hits.iter().enumerate().filter(|(_, hit)| hit.matches);
    let Some((first, _)) = matching.nth(limit) else { return };
    hits.truncate(first);
}

enum Searched {
    Whole,
    TooLarge,
}

fn search_file(
    path: &Path,
    matcher: &RegexMatcher,
    readers: &Readers,
    collector: &Collector<Hit>,
    token: &CancellationToken,
) -> io::Result<Searched> {
    let (file, stat) = open_listed(path).map_err(io::Error::other)?;
    let size = u64::try_from(stat.st_size).unwrap_or_default();
    if size > MAX_FILE_BYTES {
        return Ok(Searched::TooLarge);
    }
    let sink = HitSink { path, matcher, collector, token };
    let mut reader = readers.take();
    let searched = reader.search(file, size, matcher, sink);
    readers.give_back(reader);
    searched.map(|()| Searched::Whole)
}

struct HitSink<'a> {
    path: &'a Path,
    matcher: &'a RegexMatcher,
    collector: &'a Collector<Hit>,
    token: &'a CancellationToken,
}

impl HitSink<'_> {
    /// Whether the search should go on.
    fn add(&self, line: Option<u64>, matches: bool, text: String) -> bool {
        let (path, line) = (self.path.to_owned(), line.unwrap_or_default());
        self.collector.add(Hit { path, line, matches, text }) && !self.token.is_cancelled()
    }
}

impl Sink for HitSink<'_> {
    type Error = io::Error;

    fn matched(&mut self, _: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        use grep_matcher::Matcher as _;

        let bytes = found.bytes();
        let start = self.matcher.find(bytes).ok().flatten().map_or(0, |at| at.start());
        Ok(self.add(found.line_number(), true, excerpt(bytes, start)))
    }

    fn context(&mut self, _: &Searcher, beside: &SinkContext<'_>) -> io::Result<bool> {
        Ok(self.add(beside.line_number(), false, excerpt(beside.bytes(), 0)))
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
