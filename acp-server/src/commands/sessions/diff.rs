//! The lines of a stored file change.

use std::time::Duration;

use bridle_agent::FileDiff;
use similar::{Change, ChangeTag, DiffOp, TextDiff};

/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;

/// After this long a diff gets coarser instead of finer.
const PATIENCE: Duration = Duration::from_millis(500);

/// One line of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) sign: Sign,
    /// Its text, without the line end.
    pub(super) text: String,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sign {
    Kept,
    Removed,
    Added,
}

impl Sign {
    /// As a unified diff spells it.
    pub(super) fn mark(self) -> char {
        match self {
            Self::Kept => ' ',
            Self::Removed => '-',
            Self::Added => '+',
        }
    }
}

/// A group of changed lines and what is around them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Hunk {
    /// `@@ -1,3 +1,4 @@`.
    pub(super) head: String,
    pub(super) lines: Vec<Line>,
}

/// The change as a unified diff shows it.
pub(super) fn hunks(change: &FileDiff) -> Vec<Hunk> {
    let diff = diff(change);
    let groups = diff.grouped_ops(CONTEXT_LINES);
    groups.iter().map(|group| hunk(&diff, group)).collect()
}

/// How many lines it adds and how many it removes.
pub(super) fn changed_lines(change: &FileDiff) -> (usize, usize) {
    let diff = diff(change);
    let changed = diff.ops().iter().filter(|op| !matches!(op, DiffOp::Equal { .. }));
    changed.fold((0, 0), |(added, removed), op| {
        (added + op.new_range().len(), removed + op.old_range().len())
    })
}

fn diff(change: &FileDiff) -> TextDiff<'_, '_, str> {
    let old = change.old_text.as_deref().unwrap_or_default();
    TextDiff::configure().timeout(PATIENCE).diff_lines(old, &change.new_text)
}

fn hunk(diff: &TextDiff<'_, '_, str>, group: &[DiffOp]) -> Hunk {
    let range = |of: fn(&DiffOp) -> std::ops::Range<usize>| {
        let start = group.first().map_or(0, |op| of(op).start);
        let end = group.last().map_or(0, |op| of(op).end);
        // Lines count from 1, except that nothing begins at 0.
        format!("{},{}", if end > start { start + 1 } else { start }, end - start)
    };
    let head = format!("@@ -{} +{} @@", range(DiffOp::old_range), range(DiffOp::new_range));
    let lines = group.iter().flat_map(|op| diff.iter_changes(op)).map(line).collect();
    Hunk { head, lines }
}

fn line(change: Change<&str>) -> Line {
    let sign = match change.tag() {
        ChangeTag::Equal => Sign::Kept,
        ChangeTag::Delete => Sign::Removed,
        ChangeTag::Insert => Sign::Added,
    };
    let text = change.value();
    Line { sign, text: text.strip_suffix('\n').unwrap_or(text).to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: Option<&str>, new: &str) -> String {
        let change = FileDiff {
            path: "/w/a".into(),
            old_text: old.map(str::to_owned),
            new_text: new.to_owned(),
        };
        let mut text = String::new();
        for hunk in hunks(&change) {
            text.push_str(&format!("{}\n", hunk.head));
            for Line { sign, text: line } in hunk.lines {
                text.push_str(&format!("{}{line}\n", sign.mark()));
            }
        }
        let (added, removed) = changed_lines(&change);
        format!("{text}+{added} -{removed}")
    }

    #[test]
    fn a_change_reads_like_a_unified_diff() {
        assert_eq!(shown(Some("a\nb\n"), "a\nc\n"), "@@ -1,2 +1,2 @@\n a\n-b\n+c\n+1 -1");
        assert_eq!(shown(None, "x\ny"), "@@ -0,0 +1,2 @@\n+x\n+y\n+2 -0");
        assert_eq!(shown(Some("x\n"), ""), "@@ -1,1 +0,0 @@\n-x\n+0 -1");
        assert_eq!(shown(Some("x\n"), "x\n"), "+0 -0");
    }
}
