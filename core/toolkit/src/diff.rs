//! What a change of a file looks like, to a client and to the model.

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bridle_agent::FileDiff;
use bridle_world::path_text;
use memchr::memchr_iter;
use similar::{ChangeTag, DiffOp, TextDiff};

/// Texts up to this size (bytes) are shown whole; of larger ones only the changes and the lines
/// around them.
const WHOLE_BYTES: usize = 64 * 1024;
/// The most bytes of old and new text that are shown of one change. Below it, every change is
/// shown completely.
const MAX_SHOWN_BYTES: usize = 2 * 1024 * 1024;
/// What one hunk counts besides its text.
const HUNK_BYTES: usize = 256;
/// Of longer unchanged text (bytes) within one line only the end next to the change is shown.
const LONG_BYTES: usize = 1024;
/// How much of it (bytes) that is.
const NEAR_BYTES: usize = 200;
/// The most bytes of unified diff that the model reads.
const UNIFIED_BYTES: usize = 8 * 1024;
/// Unchanged lines around a change.
const CONTEXT_LINES: usize = 3;
/// Bytes that are compared at once.
const SHARED_CHUNK: usize = 4 * 1024;
/// After this long a diff gets coarser instead of finer.
const DIFF_PATIENCE: Duration = Duration::from_millis(500);

/// One change, as it is shown.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    /// For clients: the whole texts, or one entry for each hunk.
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
        let (before, old_part, new_part) = differing(old, new);
        let diff = TextDiff::configure().timeout(DIFF_PATIENCE).diff_lines(old_part, new_part);
        let first_line = diff
            .ops()
            .iter()
            .find(|op| !matches!(op, DiffOp::Equal { .. }))
            .map_or(0, |op| before + op.new_range().start);
        let (diffs, note) = if old.len().max(new.len()) <= WHOLE_BYTES {
            (vec![file_diff(path, Some(old.to_owned()), new.to_owned())], None)
        } else {
            hunks(path, &diff)
        };
        let first_line = u32::try_from(first_line + 1).unwrap_or(u32::MAX);
        Self { diffs, unified: unified(&diff, before), first_line, note }
    }

    /// A new file.
    pub(crate) fn creation(path: &Path, new: &str) -> Self {
        let (shown, rest) = whole_lines(new, MAX_SHOWN_BYTES);
        let mut hidden = Hidden::default();
        hidden.added.count(rest);
        let diffs = vec![file_diff(path, None, shown.to_owned())];
        Self { diffs, unified: String::new(), first_line: 1, note: hidden.note() }
    }
}

/// The protocol's paths are UTF-8; another one is given as it is shown.
fn file_diff(path: &Path, old_text: Option<String>, new_text: String) -> FileDiff {
    let path = path.to_str().map_or_else(|| path_text(path).into(), PathBuf::from);
    FileDiff { path, old_text, new_text }
}

/// The lines of two texts between those that both begin and end with, some of which stay as context,
/// and how many lines stand before. Of a large text a diff would look at all lines.
fn differing<'a>(old: &'a str, new: &'a str) -> (usize, &'a str, &'a str) {
    let (a, b) = (old.as_bytes(), new.as_bytes());
    let head = shared(a.chunks(SHARED_CHUNK), b.chunks(SHARED_CHUNK), |a, b| {
        a.iter().zip(b).take_while(|(a, b)| a == b).count()
    });
    let (a, b) = (a.get(head..).unwrap_or_default(), b.get(head..).unwrap_or_default());
    let tail = shared(a.rchunks(SHARED_CHUNK), b.rchunks(SHARED_CHUNK), |a, b| {
        a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
    });
    let start = old.as_bytes().get(..head).unwrap_or_default().iter().rev();
    let start = start.enumerate().filter(|(_, byte)| **byte == b'\n').nth(CONTEXT_LINES);
    let start = start.map_or(0, |(back, _)| head - back);
    let rest = old.as_bytes().get(old.len() - tail..).unwrap_or_default().iter();
    let more = rest.enumerate().filter(|(_, byte)| **byte == b'\n').nth(CONTEXT_LINES);
    let cut = more.map_or(0, |(at, _)| tail - at - 1);
    let part = |text: &'a str| text.get(start..text.len() - cut).unwrap_or(text);
    let before = memchr_iter(b'\n', old.as_bytes().get(..start).unwrap_or_default()).count();
    (before, part(old), part(new))
}

/// How many bytes two texts share from one end on, whose pieces come in order from there.
fn shared<'a>(
    old: impl Iterator<Item = &'a [u8]>,
    new: impl Iterator<Item = &'a [u8]>,
    within: impl Fn(&[u8], &[u8]) -> usize,
) -> usize {
    let mut total = 0;
    for (old, new) in old.zip(new) {
        let same = if old == new { old.len() } else { within(old, new) };
        total += same;
        if same < SHARED_CHUNK {
            break;
        }
    }
    total
}

fn hunks(path: &Path, diff: &TextDiff<'_, '_, str>) -> (Vec<FileDiff>, Option<String>) {
    let mut shown = Vec::new();
    let mut hidden = Hidden::default();
    let mut room = MAX_SHOWN_BYTES;
    for group in diff.grouped_ops(CONTEXT_LINES) {
        room = room.saturating_sub(path.as_os_str().len() + HUNK_BYTES);
        let mut hunk = Hunk::default();
        for op in &group {
            hunk.add(diff, op, &mut room, &mut hidden);
        }
        if !hunk.old.is_empty() || !hunk.new.is_empty() {
            shown.push(file_diff(path, Some(hunk.old), hunk.new));
        }
    }
    (shown, hidden.note())
}

/// One place of a change with the lines around it.
#[derive(Default)]
struct Hunk {
    old: String,
    new: String,
}

impl Hunk {
    /// Adds a piece as far as there is room. Once something did not fit there is no room any more,
    /// so that what is shown has no gaps.
    fn add(
        &mut self,
        diff: &TextDiff<'_, '_, str>,
        op: &DiffOp,
        room: &mut usize,
        hidden: &mut Hidden,
    ) {
        let old: String = op.old_range().filter_map(|line| diff.old_slice(line)).collect();
        let new: String = op.new_range().filter_map(|line| diff.new_slice(line)).collect();
        let is_context = matches!(op, DiffOp::Equal { .. });
        let (old, new) = if is_context {
            let context: String = old.split_inclusive('\n').map(short_line).collect();
            (Cow::Owned(context.clone()), Cow::Owned(context))
        } else {
            around_the_change(&old, &new)
        };
        if old.len() + new.len() <= *room {
            *room -= old.len() + new.len();
            self.old.push_str(&old);
            self.new.push_str(&new);
            return;
        }
        if !is_context {
            let (kept, rest) = whole_lines(&old, *room / 2);
            self.old.push_str(kept);
            hidden.removed.count(rest);
            let (kept, rest) = whole_lines(&new, *room / 2);
            self.new.push_str(kept);
            hidden.added.count(rest);
        }
        *room = 0;
    }
}

/// An unchanged line, its end left out when it is long.
fn short_line(line: &str) -> Cow<'_, str> {
    if line.len() <= LONG_BYTES {
        return Cow::Borrowed(line);
    }
    let kept = line.get(..line.floor_char_boundary(NEAR_BYTES)).unwrap_or_default();
    let end = if line.ends_with('\n') { "\n" } else { "" };
    Cow::Owned(format!("{kept}…{end}"))
}

/// Two texts that differ, without the long beginning and end that they share: a long line is shown
/// around what changes in it. Nothing that differs is left out.
fn around_the_change<'a>(old: &'a str, new: &'a str) -> (Cow<'a, str>, Cow<'a, str>) {
    let shared = |pairs: &mut dyn Iterator<Item = (char, char)>| -> usize {
        pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
    };
    let head = shared(&mut old.chars().zip(new.chars()));
    let rest = |text: &'a str| text.get(head..).unwrap_or_default();
    let tail = shared(&mut rest(old).chars().rev().zip(rest(new).chars().rev()));
    let cut = |text: &'a str| -> Cow<'a, str> {
        let (start, before) = match head {
            long if long > LONG_BYTES => (text.ceil_char_boundary(long - NEAR_BYTES), "…"),
            _ => (0, ""),
        };
        let (end, after) = match tail {
            long if long > LONG_BYTES => {
                (text.floor_char_boundary(text.len() - long + NEAR_BYTES), "…")
            }
            _ => (text.len(), ""),
        };
        if before.is_empty() && after.is_empty() {
            return Cow::Borrowed(text);
        }
        Cow::Owned(format!("{before}{}{after}", text.get(start..end).unwrap_or_default()))
    };
    (cut(old), cut(new))
}

/// What changes and is not shown.
#[derive(Default)]
struct Hidden {
    removed: Size,
    added: Size,
}

#[derive(Default)]
struct Size {
    lines: usize,
    bytes: usize,
}

impl Size {
    fn count(&mut self, text: &str) {
        self.lines += text.lines().count();
        self.bytes += text.len();
    }
}

impl Hidden {
    fn note(&self) -> Option<String> {
        let side = |name: &str, size: &Size| {
            (size.bytes > 0).then(|| format!("{} {name} lines ({} bytes)", size.lines, size.bytes))
        };
        let sides: Vec<String> = [side("removed", &self.removed), side("added", &self.added)]
            .into_iter()
            .flatten()
            .collect();
        (!sides.is_empty()).then(|| format!("Not shown: {}.", sides.join(" and ")))
    }
}

fn unified(diff: &TextDiff<'_, '_, str>, before: usize) -> String {
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
        let (first, last) = (hunk.ops().first(), hunk.ops().last());
        let (Some(first), Some(last)) = (first, last) else { continue };
        let old = lines(before, first.old_range().start..last.old_range().end);
        let new = lines(before, first.new_range().start..last.new_range().end);
        text.push_str(&format!("@@ -{old} +{new} @@\n"));
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
            let cut = cut.len();
            return format!("{kept}[cut; {cut} more bytes in this hunk, later hunks left out]\n");
        }
    }
    text
}

/// A range of lines as the head of a hunk has it.
fn lines(before: usize, range: std::ops::Range<usize>) -> String {
    let start = before + range.start;
    match range.len() {
        0 => format!("{start},0"),
        1 => format!("{}", start + 1),
        count => format!("{},{count}", start + 1),
    }
}

/// The whole lines of a text that fit into `limit` bytes, and the rest of it. A first line that
/// alone is too long is cut between characters.
fn whole_lines(text: &str, limit: usize) -> (&str, &str) {
    if text.len() <= limit {
        return (text, "");
    }
    let fits = text.get(..text.floor_char_boundary(limit)).unwrap_or_default();
    let kept = match fits.rfind('\n') {
        Some(end) => fits.get(..=end).unwrap_or(fits),
        None => fits,
    };
    (kept, text.get(kept.len()..).unwrap_or_default())
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

    /// Looking only at the lines that differ shows the same as looking at all of them.
    #[test]
    fn what_both_texts_share_is_left_out_of_the_diff_and_counts_in_it() {
        const CASES: usize = 5_000;
        let seed = fastrand::u64(..);
        let mut random = fastrand::Rng::with_seed(seed);
        for case in 0..CASES {
            let mut text = |most: usize| -> String {
                let lines = ["a\n", "bä\n", "\n", "😀"];
                (0..random.usize(0..most)).flat_map(|_| random.choice(lines)).collect()
            };
            let (head, old, new, tail) = (text(12), text(4), text(4), text(12));
            let (old, new) = (format!("{head}{old}{tail}"), format!("{head}{new}{tail}"));
            let (before, old_part, new_part) = differing(&old, &new);
            let cut: String = old.split_inclusive('\n').take(before).collect();
            let at = format!("seed {seed}, case {case}: {old:?} -> {new:?}");
            let rest = old.strip_prefix(&format!("{cut}{old_part}")).expect(&at);
            assert_eq!(new, format!("{cut}{new_part}{rest}"), "{at}");
            let shown = unified(&TextDiff::from_lines(old_part, new_part), before);
            assert_eq!(shown.contains("@@"), old != new, "{at}: {shown}");
        }
        println!("seed {seed}, {CASES} pairs of texts");
    }

    #[test]
    fn every_change_is_shown_up_to_the_limit() {
        let path = Path::new("/ws/f");
        let text = |word: &str, lines: usize| -> String {
            (0..lines).map(|n| format!("{word} {n} of a file\n")).collect()
        };
        // A whole file of 200 kB, a new one of 1 MiB, and 199 places in one file.
        let (old, new) = (text("old", 10_000), text("new", 10_000));
        let whole = Change::between(path, &old, &new);
        assert_eq!(whole.diffs, [file_diff(path, Some(old), new)]);
        assert_eq!(whole.note, None);
        let file = "x\n".repeat(512 * 1024);
        let created = Change::creation(path, &file);
        assert_eq!((created.diffs[0].new_text.len(), created.note), (file.len(), None));
        let old = text("line", 20_000);
        let mut lines: Vec<&str> = old.split_inclusive('\n').collect();
        (0..199).for_each(|n| lines[n * 100] = "edited\n");
        let new = lines.concat();
        let edits = Change::between(path, &old, &new);
        assert_eq!((edits.diffs.len(), edits.note), (199, None));
    }

    #[test]
    fn a_huge_line_is_shown_around_what_changes_in_it() {
        let line = |word: &str| format!("{}{word}{}\n", "ä".repeat(500_000), "😀".repeat(300_000));
        let (old, new) = (line("old"), line("new"));
        let change = Change::between(Path::new("/f"), &old, &new);
        assert_eq!((change.diffs.len(), change.note), (1, None));
        let shown = &change.diffs[0];
        assert!(shown.old_text.as_ref().unwrap().contains("äold😀"));
        assert!(shown.new_text.contains("änew😀") && shown.new_text.len() < 1_000);
        assert!(shown.new_text.starts_with('…') && shown.new_text.ends_with('…'));
        // As a neighbour of the change its beginning is enough.
        let (old, new) = (format!("{old}a\n"), format!("{old}b\n"));
        let shown = Change::between(Path::new("/f"), &old, &new).diffs.remove(0);
        assert!(shown.new_text.ends_with("…\nb\n") && shown.new_text.len() < 1_000);
    }

    #[test]
    fn what_is_beyond_the_limit_is_counted() {
        let path = Path::new("/ws/f");
        // Pairs of changed lines, three unchanged ones between them.
        let text = |word: &str| -> String {
            (0..90_000).map(|n| format!("{word} {n:05}\n{word}\na\nb\nc\n")).collect()
        };
        let (old, new) = (text("old"), text("new!"));
        let change = Change::between(path, &old, &new);
        let shown = |texts: Vec<&str>, word: &str| -> (usize, usize) {
            let lines = texts.iter().flat_map(|text| text.split_inclusive('\n'));
            let changed: Vec<&str> = lines.filter(|line| line.starts_with(word)).collect();
            (changed.len(), changed.concat().len())
        };
        let olds = change.diffs.iter().filter_map(|diff| diff.old_text.as_deref()).collect();
        let news = change.diffs.iter().map(|diff| diff.new_text.as_str()).collect();
        let ((old_lines, old_bytes), (new_lines, new_bytes)) =
            (shown(olds, "old"), shown(news, "new!"));
        assert!(old_bytes + new_bytes > MAX_SHOWN_BYTES / 2);
        let note = format!(
            "Not shown: {} removed lines ({} bytes) and {} added lines ({} bytes).",
            180_000 - old_lines,
            90_000 * 14 - old_bytes,
            180_000 - new_lines,
            90_000 * 16 - new_bytes
        );
        assert_eq!(change.note, Some(note));
        let new = "line\n".repeat(MAX_SHOWN_BYTES / 5 + 101);
        let created = Change::creation(path, &new);
        assert_eq!(created.note.unwrap(), "Not shown: 101 added lines (505 bytes).");
    }

    #[test]
    fn cuts_fall_between_characters_and_are_named() {
        for padding in 0..4 {
            let text = "x".repeat(padding) + &"😀".repeat(MAX_SHOWN_BYTES / 3);
            let change = Change::creation(Path::new("/f"), &text);
            assert!(text.starts_with(&change.diffs[0].new_text) && change.note.is_some());
            let change = Change::between(Path::new("/f"), &text, "");
            assert!(change.unified.len() < UNIFIED_BYTES + 100);
            assert!(text.starts_with(change.diffs[0].old_text.as_ref().unwrap()));
            assert!(change.note.is_some());
        }
    }
}
