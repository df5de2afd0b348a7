//! Finding each `old_text` in a file and putting `new_text` there, all or nothing.
//!
//! All edits are matched against the file as it is, not one after the other. Line ends are the
//! only thing matched loosely: a model writes LF, files have what they have. An edit then keeps
//! the line ends that are there, line by line; every byte outside the matched regions, and every
//! line within one that the edit repeats unchanged, stays as it was.

use std::borrow::Cow;
use std::ops::Range;

/// The most places of an ambiguous text that are named.
const MAX_PLACES: usize = 10;

/// One replacement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replacement<'a> {
    pub(super) old_text: &'a str,
    pub(super) new_text: &'a str,
    pub(super) all: bool,
}

/// The result of all replacements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Applied {
    pub(super) body: String,
    /// How many regions were replaced.
    pub(super) regions: usize,
    /// Whether some `old_text` only matched because line ends were taken as equal.
    pub(super) line_ends: bool,
}

/// Why nothing was replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The old text at this index is empty.
    Empty(usize),
    /// The old and new text at this index are the same.
    Same(usize),
    /// The old text at this index is not there.
    NotFound(usize),
    /// The old text at this index is there more than once: some of the lines it begins at.
    Ambiguous(usize, Vec<usize>),
    /// Two edits touch the same text.
    Overlap(usize, usize),
    /// All edits together change nothing.
    NoChange,
}

/// For the fuzz target: the body after one replacement, or `None` when it is refused.
#[cfg(fuzzing)]
pub fn fuzz_edit(body: &str, old_text: &str, new_text: &str) -> Option<String> {
    let replacement = Replacement { old_text, new_text, all: false };
    apply(body, &[replacement]).ok().map(|applied| applied.body)
}

/// Applies all replacements to the body of a text.
pub(super) fn apply(body: &str, replacements: &[Replacement<'_>]) -> Result<Applied, Problem> {
    let view = LineEndView::of(body);
    let mut regions: Vec<Region> = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        regions.extend(locate(body, &view, index, replacement)?);
    }
    regions.sort_by_key(|region| region.range.start);
    for pair in regions.windows(2) {
        if let [a, b] = pair
            && b.range.start < a.range.end
        {
            return Err(Problem::Overlap(a.edit.min(b.edit), a.edit.max(b.edit)));
        }
    }
    let mut out = String::with_capacity(body.len());
    let mut done = 0;
    for region in &regions {
        out.push_str(body.get(done..region.range.start).unwrap_or_default());
        out.push_str(&region.text);
        done = region.range.end;
    }
    out.push_str(body.get(done..).unwrap_or_default());
    if out == body {
        return Err(Problem::NoChange);
    }
    let line_ends = regions.iter().any(|region| region.line_ends);
    Ok(Applied { body: out, regions: regions.len(), line_ends })
}

/// One place to be replaced.
struct Region {
    edit: usize,
    range: Range<usize>,
    text: String,
    line_ends: bool,
}

fn locate(
    body: &str,
    view: &LineEndView<'_>,
    edit: usize,
    replacement: &Replacement<'_>,
) -> Result<Vec<Region>, Problem> {
    let Replacement { old_text, new_text, all } = *replacement;
    if old_text.is_empty() {
        return Err(Problem::Empty(edit));
    }
    if old_text == new_text {
        return Err(Problem::Same(edit));
    }
    // Whoever writes CR means the bytes, if they are there.
    if old_text.contains('\r') {
        let found = occurrences(body, old_text, all);
        if !found.is_empty() {
            let starts = unique(edit, body, found, all)?;
            let region = |start: usize| Region {
                edit,
                range: start..start + old_text.len(),
                text: new_text.to_owned(),
                line_ends: false,
            };
            return Ok(starts.into_iter().map(region).collect());
        }
    }
    let wanted = with_line_feeds(old_text);
    let found = occurrences(&view.text, &wanted, all);
    let starts = unique(edit, &view.text, found, all)?;
    let region = |start: usize| {
        let range = view.original(start)..view.original(start + wanted.len());
        let matched = body.get(range.clone()).unwrap_or_default();
        let text = keep_line_ends(body, &range, new_text);
        Region { edit, line_ends: matched != old_text, range, text }
    };
    Ok(starts.into_iter().map(region).collect())
}

/// Where `wanted` begins. For one replacement overlapping places count, because each is a place
/// that could be meant; for all of them they cannot be replaced together.
fn occurrences(text: &str, wanted: &str, all: bool) -> Vec<usize> {
    if all {
        return text.match_indices(wanted).map(|(start, _)| start).collect();
    }
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() <= MAX_PLACES
        && let Some(at) = text.get(from..).and_then(|rest| rest.find(wanted))
    {
        found.push(from + at);
        from += at + step;
    }
    found
}

fn unique(edit: usize, text: &str, found: Vec<usize>, all: bool) -> Result<Vec<usize>, Problem> {
    if found.is_empty() {
        return Err(Problem::NotFound(edit));
    }
    if found.len() > 1 && !all {
        let line = |start: &usize| 1 + text.bytes().take(*start).filter(|b| *b == b'\n').count();
        return Err(Problem::Ambiguous(edit, found.iter().map(line).collect()));
    }
    Ok(found)
}

/// A text with every CR LF as LF, and the way back.
struct LineEndView<'a> {
    text: Cow<'a, str>,
    /// Offsets in `text` of the line feeds that lost a CR, ascending.
    returns: Vec<usize>,
}

impl<'a> LineEndView<'a> {
    fn of(body: &'a str) -> Self {
        let returns =
            body.match_indices("\r\n").enumerate().map(|(before, (at, _))| at - before).collect();
        Self { text: with_line_feeds(body), returns }
    }

    /// The offset in the original. Before a line feed that lost its CR it is before the CR, so a
    /// region never splits a line end.
    fn original(&self, offset: usize) -> usize {
        offset + self.returns.partition_point(|line_feed| *line_feed < offset)
    }
}

fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

/// A line or the piece of one, with its end: nothing, LF or CR LF.
#[derive(Clone, Copy)]
struct Line<'a> {
    content: &'a str,
    end: &'a str,
}

impl Line<'_> {
    /// Whether a new line repeats an old one. LF stands for whatever end is there.
    fn repeats(&self, old: &Line<'_>) -> bool {
        self.content == old.content
            && (self.end == old.end || (self.end == "\n" && old.end == "\r\n"))
    }
}

fn lines(text: &str) -> Vec<Line<'_>> {
    let split = |line| {
        let content = str::strip_suffix(line, "\n").unwrap_or(line);
        let content = if content.len() < line.len() {
            content.strip_suffix('\r').unwrap_or(content)
        } else {
            content
        };
        Line { content, end: line.get(content.len()..).unwrap_or_default() }
    };
    text.split_inclusive('\n').map(split).collect()
}

/// The new text for a region, with the line ends of the lines that it replaces or, for lines that
/// are added, of their neighbours. CR LF in the new text is meant as it is.
fn keep_line_ends(body: &str, region: &Range<usize>, new_text: &str) -> String {
    let old = lines(body.get(region.clone()).unwrap_or_default());
    let new = lines(new_text);
    let head = new.iter().zip(&old).take_while(|(new, old)| new.repeats(old)).count();
    let most = new.len().min(old.len()) - head;
    let backwards = new.iter().rev().zip(old.iter().rev());
    let tail = backwards.take(most).take_while(|(new, old)| new.repeats(old)).count();
    let mut out = String::with_capacity(new_text.len());
    for (index, line) in new.iter().enumerate() {
        let from_end = new.len() - index;
        let same = if index < head {
            old.get(index)
        } else if from_end <= tail {
            old.len().checked_sub(from_end).and_then(|index| old.get(index))
        } else {
            None
        };
        out.push_str(line.content);
        out.push_str(match same {
            Some(old) => old.end,
            None if line.end != "\n" => line.end,
            None => {
                // Only lines that are replaced stand for new ones, not those that follow.
                let (before, after) = old.split_at(index.min(old.len() - tail));
                let replaced = after.get(..after.len() - tail).unwrap_or_default();
                end_near(before, replaced, after, body, region)
            }
        });
    }
    out
}

/// The line end for a new line between old ones: of the line it replaces, else of the nearest one
/// before it in the region, after it in the region, after the region, before the region.
fn end_near<'a>(
    before: &[Line<'a>],
    replaced: &[Line<'a>],
    after: &[Line<'a>],
    body: &'a str,
    region: &Range<usize>,
) -> &'a str {
    let here = replaced.iter().take(1);
    let mut in_region = here.chain(before.iter().rev()).chain(after).map(|line| line.end);
    in_region
        .find(|end| !end.is_empty())
        .or_else(|| {
            let rest = body.get(region.end..)?;
            rest.find('\n').map(|at| end_at(rest, at))
        })
        .or_else(|| {
            let rest = body.get(..region.start)?;
            rest.rfind('\n').map(|at| end_at(rest, at))
        })
        .unwrap_or("\n")
}

fn end_at(text: &str, line_feed: usize) -> &'static str {
    let before = text.get(..line_feed).unwrap_or_default();
    if before.ends_with('\r') { "\r\n" } else { "\n" }
}

#[cfg(test)]
mod tests;
