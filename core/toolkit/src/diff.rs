//! What a change of a file looks like, to a client and to the model.

use std::path::Path;
use std::time::Duration;

use bridle_agent::FileDiff;
use similar::{ChangeTag, DiffOp, TextDiff};

/// Texts up to this size (bytes) are shown whole; of larger ones only the changed regions.
const WHOLE_BYTES: usize = 64 * 1024;
/// The most regions, and bytes of them, that are shown of one change.
const MAX_REGIONS: usize = 50;
const MAX_REGION_BYTES: usize = 256 * 1024;
/// The most bytes of unified diff that the model reads.
const UNIFIED_BYTES: usize = 8 * 1024;
/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// After this long a diff gets coarser instead of finer.
const DIFF_PATIENCE: Duration = Duration::from_millis(500);

/// One change, as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// For clients: the whole texts, or one entry for each changed region.
    pub(crate) diffs: Vec<FileDiff>,
    /// For the model: hunks of a unified diff, cut at a limit.
    pub(crate) unified: String,
    /// The first line that is different afterwards, from 1.
    pub(crate) first_line: u32,
    /// What `diffs` leaves out.
    pub(crate) note: Option<String>,
}

impl Change {
    /// The change of an existing text.
    pub(crate) fn between(path: &Path, old: &str, new: &str) -> Self {
        let diff = TextDiff::configure().timeout(DIFF_PATIENCE).diff_lines(old, new);
        let first_line = diff
            .ops()
            .iter()
            .find(|op| !matches!(op, DiffOp::Equal { .. }))
            .map_or(0, |op| op.new_range().start);
        let (diffs, note) = if old.len().max(new.len()) <= WHOLE_BYTES {
            (vec![file_diff(path, Some(old.to_owned()), new.to_owned())], None)
        } else {
            regions(path, &diff)
        };
        let first_line = u32::try_from(first_line + 1).unwrap_or(u32::MAX);
        Self { diffs, unified: unified(&diff), first_line, note }
    }

    /// A new file.
    pub(crate) fn creation(path: &Path, new: &str) -> Self {
        let (shown, cut) = whole_lines(new, WHOLE_BYTES);
        let note = (cut > 0).then(|| format!("{cut} more bytes of the new file are not shown."));
        let diffs = vec![file_diff(path, None, shown.to_owned())];
        Self { diffs, unified: String::new(), first_line: 1, note }
    }
}

fn file_diff(path: &Path, old_text: Option<String>, new_text: String) -> FileDiff {
    FileDiff { path: path.to_owned(), old_text, new_text }
}

fn regions(path: &Path, diff: &TextDiff<'_, '_, str>) -> (Vec<FileDiff>, Option<String>) {
    let mut shown = Vec::new();
    let mut omitted = 0;
    let mut bytes = 0;
    for group in diff.grouped_ops(CONTEXT_LINES) {
        let old: String = group
            .iter()
            .flat_map(DiffOp::old_range)
            .filter_map(|line| diff.old_slice(line))
            .collect();
        let new: String = group
            .iter()
            .flat_map(DiffOp::new_range)
            .filter_map(|line| diff.new_slice(line))
            .collect();
        let size = old.len() + new.len();
        if shown.len() < MAX_REGIONS && bytes + size <= MAX_REGION_BYTES {
            bytes += size;
            shown.push(file_diff(path, Some(old), new));
        } else {
            omitted += 1;
        }
    }
    let note = (omitted > 0).then(|| format!("{omitted} more changed regions are not shown."));
    (shown, note)
}

fn unified(diff: &TextDiff<'_, '_, str>) -> String {
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        text.push_str(&format!("{}\n", hunk.header()));
        for change in hunk.iter_changes() {
            let sign = match change.tag() {
                ChangeTag::Equal => ' ',
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
            };
            text.push(sign);
            text.push_str(change.value().trim_end_matches(['\r', '\n']));
            text.push('\n');
        }
        if text.len() > UNIFIED_BYTES {
            let (kept, cut) = whole_lines(&text, UNIFIED_BYTES);
            return format!("{kept}[cut; {cut} more bytes in this hunk, later hunks left out]\n");
        }
    }
    text
}

/// The whole lines of a text that fit into `limit` bytes, and how many bytes that leaves out.
/// A first line that alone is too long is cut between characters.
fn whole_lines(text: &str, limit: usize) -> (&str, usize) {
    if text.len() <= limit {
        return (text, 0);
    }
    let fits = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    let kept = match fits.rfind('\n') {
        Some(end) => fits.get(..=end).unwrap_or(fits),
        None => fits,
    };
    (kept, text.len() - kept.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_texts_are_whole_and_large_ones_are_regions() {
        let path = Path::new("/ws/f");
        let small = Change::between(path, "a\nb\n", "a\nc\n");
        assert_eq!(small.diffs, [file_diff(path, Some("a\nb\n".into()), "a\nc\n".into())]);
        assert_eq!(
            (small.first_line, small.unified.as_str()),
            (2, "@@ -1,2 +1,2 @@\n a\n-b\n+c\n")
        );
        let lines: Vec<String> = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let old = lines.concat();
        let new = old.replace("line 100\n", "LINE 100\n").replace("line 9000\n", "");
        let large = Change::between(path, &old, &new);
        assert_eq!(large.diffs.len(), 2);
        assert_eq!(large.diffs[0].old_text.as_deref(), Some(lines[97..104].concat().as_str()));
        assert_eq!(
            large.diffs[1].new_text,
            [&lines[8997..9000], &lines[9001..9004]].concat().concat()
        );
        assert_eq!((large.first_line, large.note), (101, None));
    }

    #[test]
    fn cuts_fall_between_characters_and_are_named() {
        for padding in 0..4 {
            let text = "x".repeat(padding) + &"😀".repeat(WHOLE_BYTES);
            let change = Change::creation(Path::new("/f"), &text);
            assert!(text.starts_with(&change.diffs[0].new_text) && change.note.is_some());
            let change = Change::between(Path::new("/f"), &text, "");
            assert!(change.unified.len() < UNIFIED_BYTES + 100);
            assert!(change.diffs.is_empty() == change.note.is_some());
        }
    }
}
