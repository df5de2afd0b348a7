//! Lines by content.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use grep_regex::RegexMatcherBuilder;
use tokio_util::sync::CancellationToken;

use super::file::{FileSearch, Searched};
use super::walk::{PassedOver, PathGlobs, walk};
use super::{MAX_TIME, SearchError};
use crate::files::{FileError, open_regular};

/// The most memory (bytes) that a compiled pattern may take.
const MAX_PATTERN_BYTES: usize = 10 * 1024 * 1024;
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
    /// Files that were not searched because they are binary.
    pub binary: usize,
    /// Files that are neither UTF-8 nor surely in another encoding: what of a match is beyond ASCII
    /// was not found in them.
    pub undecoded: usize,
    /// What could not be looked into.
    pub unreadable: PassedOver,
}

/// Finds lines. Binary files are passed over from their first NUL on; of a text in another encoding
/// than UTF-8 its characters are searched. Blocks.
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
    let globs = PathGlobs::new(query.globs)?;
    // What is asked for by name is a folder, or must be a file that can be read.
    match open_regular(query.place) {
        Ok(_) | Err(FileError::Folder(_)) => {}
        Err(error) => return Err(SearchError::Place(error)),
    }
    let search = FileSearch::new(matcher, query.context);
    let [too_large, binary, undecoded] = [const { AtomicUsize::new(0) }; 3];
    let found = walk(query.place, query.excluded, token, MAX_TIME, |entry, collector| {
        let path = entry.path();
        let regular = entry.file_type().is_some_and(|kind| kind.is_file());
        if !regular || !globs.matches(query.place, path) {
            return;
        }
        let counter = match search.search(path, collector, token) {
            Ok(Searched::Whole) => return,
            Ok(Searched::TooLarge) => &too_large,
            Ok(Searched::Binary) => &binary,
            Ok(Searched::Undecoded) => &undecoded,
            // What is not there any more, or is another thing now, was no part of the search.
            Err(FileError::Io { source, .. }) => return collector.pass_over(path, &source),
            Err(_) => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    })?;
    let mut hits = found.items;
    hits.sort();
    // A file is gone through once more when it turns out not to be UTF-8.
    hits.dedup();
    let total = hits.iter().filter(|hit| hit.matches).count();
    cut(&mut hits, query.limit);
    Ok(ContentFound {
        hits,
        shown: total.min(query.limit),
        total,
        at_least: found.stopped,
        too_large: too_large.into_inner(),
        binary: binary.into_inner(),
        undecoded: undecoded.into_inner(),
        unreadable: found.unreadable,
    })
}

/// Keeps so many matching lines and those beside them.
fn cut(hits: &mut Vec<Hit>, limit: usize) {
    let mut matching = hits.iter().enumerate().filter(|(_, hit)| hit.matches);
    let Some((first, _)) = matching.nth(limit) else { return };
    hits.truncate(first);
}
