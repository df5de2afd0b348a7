//! Finding each `old_text` in a file and putting `new_text` there, all or nothing.
//!
//! All edits are matched against the file as it is, not one after the other. What is not there is
//! looked for again in looser steps ([`Step`]), each of which must find exactly one place; nothing
//! is ever matched by similarity. An edit keeps the line ends that are there, line by line; every
//! byte outside the matched regions, and every line within one that the edit repeats unchanged,
//! stays as it was.

use std::cell::OnceCell;
use std::ops::Range;

use memchr::memmem;

use super::view::{Step, View, sought};

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
    /// How each replacement matched.
    pub(super) steps: Vec<Step>,
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
    let views = Views::new(body);
    let mut regions: Vec<Region> = Vec::new();
    let mut steps = Vec::new();
    for (index, replacement) in replacements.iter().enumerate() {
        let (step, found) = locate(&views, index, replacement)?;
        steps.push(step);
        regions.extend(found);
    }
    regions.sort_by_key(|region| region.range.start);
    for pair in regions.windows(2) {
        if let [a, b] = pair
            && b.range.start < a.range.end
        {
            return Err(Problem::Overlap(a.edit.min(b.edit), a.edit.max(b.edit)));
        }
    }
    let from = regions.first().map_or(0, |region| region.range.start);
    let (mut changed, mut done) = (String::new(), from);
    for region in &regions {
        changed.push_str(body.get(done..region.range.start).unwrap_or_default());
        changed.push_str(&region.text);
        done = region.range.end;
    }
    if body.get(from..done) == Some(changed.as_str()) {
        return Err(Problem::NoChange);
    }
    let part = |range| body.get(range).unwrap_or_default();
    let body = [part(0..from), &changed, part(done..body.len())].concat();
    Ok(Applied { body, regions: regions.len(), steps })
}

/// A text and the ways to look at it, each made when it is needed first.
struct Views<'a> {
    body: &'a str,
    line_ends: View<'a>,
    trailing_space: OnceCell<View<'a>>,
    look_alikes: OnceCell<View<'a>>,
}

impl<'a> Views<'a> {
    fn new(body: &'a str) -> Self {
        let line_ends = View::of(body, Step::LineEnds);
        Self { body, line_ends, trailing_space: OnceCell::new(), look_alikes: OnceCell::new() }
    }

    fn at(&self, step: Step) -> &View<'a> {
        let cell = match step {
            Step::Exact | Step::LineEnds => return &self.line_ends,
            Step::TrailingSpace => &self.trailing_space,
            Step::LookAlikes => &self.look_alikes,
        };
        cell.get_or_init(|| View::of(self.body, step))
    }
}

/// One place to be replaced.
struct Region {
    edit: usize,
    range: Range<usize>,
    text: String,
}

fn locate(
    views: &Views<'_>,
    edit: usize,
    replacement: &Replacement<'_>,
) -> Result<(Step, Vec<Region>), Problem> {
    let Replacement { old_text, new_text, all } = *replacement;
    if old_text.is_empty() {
        return Err(Problem::Empty(edit));
    }
    if old_text == new_text {
        return Err(Problem::Same(edit));
    }
    // Whoever writes CR means the bytes, if they are there.
    if old_text.contains('\r') {
        let found = occurrences(views.body, old_text, all);
        if !found.is_empty() {
            let starts = unique(edit, views.body, found, all)?;
            let region = |start: usize| Region {
                edit,
                range: start..start + old_text.len(),
                text: new_text.to_owned(),
            };
            return Ok((Step::Exact, starts.into_iter().map(region).collect()));
        }
    }
    for step in [Step::LineEnds, Step::TrailingSpace, Step::LookAlikes] {
        let wanted = sought(old_text, step);
        let view = views.at(step);
        let found = occurrences(&view.text, &wanted, all);
        // White space alone is nowhere in particular when it does not count.
        if found.is_empty() || (step > Step::LineEnds && wanted.trim().is_empty()) {
            continue;
        }
        let starts = unique(edit, &view.text, found, all)?;
        let mut loosest = Step::Exact;
        let region = |start: usize| {
            let range = view.original(start)..view.original(start + wanted.len());
            let matched = views.body.get(range.clone()).unwrap_or_default();
            if matched != old_text {
                loosest = step;
            }
            let text = keep_lines(views.body, &range, old_text, new_text);
            Region { edit, range, text }
        };
        let regions = starts.into_iter().map(region).collect();
        return Ok((loosest, regions));
    }
    Err(Problem::NotFound(edit))
}

/// Where `wanted` begins. For one replacement overlapping places count, because each is a place
/// that could be meant; for all of them they cannot be replaced together.
fn occurrences(text: &str, wanted: &str, all: bool) -> Vec<usize> {
    let finder = memmem::Finder::new(wanted);
    let text = text.as_bytes();
    if all {
        return finder.find_iter(text).collect();
    }
    let step = wanted.chars().next().map_or(1, char::len_utf8);
    let mut found = Vec::new();
    let mut from = 0;
    while found.len() <= MAX_PLACES
        && let Some(at) = text.get(from..).and_then(|rest| finder.find(rest))
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

/// A line or the piece of one, with its end: nothing, LF or CR LF.
#[derive(Clone, Copy)]
struct Line<'a> {
    content: &'a str,
    end: &'a str,
}

impl Line<'_> {
    /// Whether a new line repeats the line that was asked for and is in the file as `old`. LF
    /// stands for whatever end is there.
    fn repeats(&self, asked: &Line<'_>, old: &Line<'_>) -> bool {
        self.content == asked.content
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

/// The new text for a region. Lines that it repeats stay as they are in the file; the others get
/// the line ends of the lines that they replace or, if they are added, of their neighbours. CR LF
/// in the new text is meant as it is.
fn keep_lines(body: &str, region: &Range<usize>, old_text: &str, new_text: &str) -> String {
    let old = lines(body.get(region.clone()).unwrap_or_default());
    let (asked, new) = (lines(old_text), lines(new_text));
    let repeats =
        |(new, (asked, old)): &(&Line<'_>, (&Line<'_>, &Line<'_>))| new.repeats(asked, old);
    let head = new.iter().zip(asked.iter().zip(&old)).take_while(repeats).count();
    let most = new.len().min(old.len()) - head;
    let backwards = new.iter().rev().zip(asked.iter().rev().zip(old.iter().rev()));
    let tail = backwards.take(most).take_while(repeats).count();
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
        out.push_str(same.unwrap_or(line).content);
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
