//! What is kept of a command's output: its beginning, its end, and exact counts of the whole.

use std::collections::VecDeque;

/// How many bytes of the beginning are kept.
pub const HEAD_LIMIT: usize = 16 * 1024;

/// How many bytes of the end are kept, besides the beginning.
pub const TAIL_LIMIT: usize = 44 * 1024;

/// Output of which the middle may be missing. Reading never stops, whatever the size.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total_bytes: u64,
    total_lines: u64,
}

/// The later part of an output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Since {
    /// How many bytes before it are not kept any more.
    pub omitted: u64,
    /// The text.
    pub text: String,
    /// Where to go on.
    pub next: u64,
}

impl Capture {
    /// How many bytes were written.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// How many line ends were written.
    pub fn total_lines(&self) -> u64 {
        self.total_lines
    }

    /// How many bytes are missing between the beginning and the end.
    pub fn omitted_bytes(&self) -> u64 {
        let (head, tail) = self.kept();
        self.total_bytes.saturating_sub((head.len() + tail.len()) as u64)
    }

    /// The output as text. Each kept part goes through `clean`; where something is missing a
    /// line says how much.
    pub fn text(&self, clean: impl Fn(&str) -> String) -> String {
        let (head, tail) = self.kept();
        let omitted = self.omitted_bytes();
        if omitted == 0 {
            let all: Vec<u8> = head.iter().chain(&tail).copied().collect();
            return clean(&String::from_utf8_lossy(&all));
        }
        let lines = self.total_lines.saturating_sub(line_ends(head) + line_ends(&tail));
        let (head, tail) = (String::from_utf8_lossy(head), String::from_utf8_lossy(&tail));
        let (head, tail) = (clean(&head), clean(&tail));
        format!("{head}\n[... {omitted} bytes, {lines} lines omitted ...]\n{tail}")
    }

    /// The last of it, at most `limit` bytes before decoding.
    pub fn recent(&self, limit: usize) -> String {
        let newest_first = self.tail.iter().rev().chain(self.head.iter().rev());
        let mut bytes: Vec<u8> = newest_first.take(limit).copied().collect();
        bytes.reverse();
        let cut = (bytes.len() as u64) < self.total_bytes;
        let from = if cut { first_border(&bytes) } else { 0 };
        String::from_utf8_lossy(bytes.get(from..).unwrap_or_default()).into_owned()
    }

    /// What was written from byte `from` on, as far as it is kept, up to the last complete
    /// character.
    pub fn since(&self, from: u64) -> Since {
        let all = if self.omitted_bytes() == 0 { self.head.as_slice() } else { &[] };
        let kept: Vec<u8> = all.iter().chain(&self.tail).copied().collect();
        let begins = self.total_bytes.saturating_sub(kept.len() as u64);
        let cut = usize::try_from(from.saturating_sub(begins)).unwrap_or(usize::MAX);
        let bytes = kept.get(cut..).unwrap_or_default();
        let skip = if from < begins { first_border(bytes) } else { 0 };
        let bytes = bytes.get(skip..last_border(bytes).max(skip)).unwrap_or_default();
        let begins = begins.max(from) + skip as u64;
        Since {
            omitted: begins.saturating_sub(from),
            text: String::from_utf8_lossy(bytes).into_owned(),
            next: begins + bytes.len() as u64,
        }
    }

    /// The bytes of the beginning and of the end that are kept.
    pub(crate) fn ends(&self) -> (&[u8], Vec<u8>) {
        (&self.head, self.tail.iter().copied().collect())
    }

    /// Adds what was just read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.total_bytes += bytes.len() as u64;
        self.total_lines += line_ends(bytes);
        let room = HEAD_LIMIT.saturating_sub(self.head.len()).min(bytes.len());
        let (head, rest) = bytes.split_at(room);
        self.head.extend_from_slice(head);
        let rest = rest.get(rest.len().saturating_sub(TAIL_LIMIT)..).unwrap_or_default();
        let excess = (self.tail.len() + rest.len()).saturating_sub(TAIL_LIMIT);
        self.tail.drain(..excess);
        self.tail.extend(rest);
    }

    /// The beginning and the end, cut at character borders where something is missing between.
    fn kept(&self) -> (&[u8], Vec<u8>) {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if (self.head.len() + tail.len()) as u64 == self.total_bytes {
            return (&self.head, tail);
        }
        let head = self.head.get(..last_border(&self.head)).unwrap_or_default();
        let tail = tail.get(first_border(&tail)..).unwrap_or_default().to_vec();
        (head, tail)
    }
}

/// Where the last complete character ends: a character that was cut off is left out.
fn last_border(bytes: &[u8]) -> usize {
    let Some(back) = bytes.iter().rev().take(4).position(|byte| !continues(*byte)) else {
        return bytes.len();
    };
    let start = bytes.len() - 1 - back;
    let width = match bytes.get(start) {
        Some(0xC0..=0xDF) => 2,
        Some(0xE0..=0xEF) => 3,
        Some(0xF0..=0xF7) => 4,
        _ => 1,
    };
    if width > back + 1 { start } else { bytes.len() }
}

/// Where the first complete character begins.
fn first_border(bytes: &[u8]) -> usize {
    bytes.iter().take(3).take_while(|byte| continues(**byte)).count()
}

/// Whether this byte is the second or a later one of a UTF-8 character.
fn continues(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

fn line_ends(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|byte| **byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(chunks: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Capture {
        let mut capture = Capture::default();
        for chunk in chunks {
            capture.push(chunk.as_ref());
        }
        capture
    }

    fn plain(capture: &Capture) -> String {
        capture.text(str::to_owned)
    }

    #[test]
    fn output_within_the_limits_is_kept_whole_however_it_is_cut_into_reads() {
        let text = "añ€😀\n".repeat((HEAD_LIMIT + TAIL_LIMIT) / 11);
        for size in [1, 7, 4096, HEAD_LIMIT, text.len()] {
            let capture = captured(text.as_bytes().chunks(size));
            assert_eq!(plain(&capture), text, "reads of {size} bytes");
            assert_eq!(capture.omitted_bytes(), 0);
        }
    }

    #[test]
    fn a_cut_never_splits_a_character_and_every_byte_is_counted() {
        const LINES: usize = 2 * (HEAD_LIMIT + TAIL_LIMIT) / "😀\n".len();
        for shift in 0..4 {
            let text = format!("{}{}", "x".repeat(shift), "😀\n".repeat(LINES));
            let capture = captured(text.as_bytes().chunks(1000));
            let shown = plain(&capture);
            assert!(!shown.contains('\u{FFFD}'), "shift {shift}");
            let (head, rest) = shown.split_once("\n[... ").unwrap();
            let (marker, tail) = rest.split_once(" omitted ...]\n").unwrap();
            let (bytes, lines) = marker.split_once(" bytes, ").unwrap();
            let bytes: usize = bytes.parse().unwrap();
            let lines: usize = lines.strip_suffix(" lines").unwrap().parse().unwrap();
            assert_eq!(head.len() + bytes + tail.len(), text.len());
            let kept = head.matches('\n').count() + tail.matches('\n').count();
            assert_eq!(kept + lines, LINES);
            assert!(text.starts_with(head) && text.ends_with(tail));
        }
    }

    #[test]
    fn one_read_larger_than_everything_that_is_kept() {
        let bytes = vec![b'a'; 10 * (HEAD_LIMIT + TAIL_LIMIT)];
        let capture = captured([&bytes]);
        assert_eq!(capture.omitted_bytes(), (bytes.len() - HEAD_LIMIT - TAIL_LIMIT) as u64);
        assert_eq!(capture.total_bytes(), bytes.len() as u64);
    }

    #[test]
    fn looks_one_after_the_other_give_every_byte_once() {
        let text = "añ€😀\n".repeat(40_000);
        for size in [7, 1000, 50_000, 100_000] {
            let (mut capture, mut seen, mut next) = (Capture::default(), String::new(), 0);
            for piece in text.as_bytes().chunks(size) {
                capture.push(piece);
                let since = capture.since(next);
                assert_eq!(since.next, next + since.omitted + since.text.len() as u64);
                assert!(!since.text.contains('\u{FFFD}'));
                if size <= TAIL_LIMIT {
                    assert_eq!(since.omitted, 0, "pieces of {size} bytes");
                    seen += &since.text;
                }
                next = since.next;
            }
            assert_eq!(next, text.len() as u64);
            assert!(size > TAIL_LIMIT || seen == text);
        }
    }

    #[test]
    fn invalid_bytes_are_shown_as_such() {
        assert_eq!(plain(&captured([b"a\xFF\x80b"])), "a\u{FFFD}\u{FFFD}b");
    }

    #[test]
    fn recent_output_begins_at_a_character() {
        let capture = captured(["añ€😀".repeat(10_000)]);
        for limit in 0..20 {
            let recent = capture.recent(limit);
            assert!(recent.len() <= limit && !recent.contains('\u{FFFD}'), "{limit}: {recent}");
        }
        assert_eq!(captured(["€"]).recent(100), "€");
    }
}
