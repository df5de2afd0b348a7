//! A window of lines out of a file of any size, in bounded memory.

use std::io::{self, BufRead, BufReader, Read};

use memchr::memchr;

use super::hash::HashingReader;
use super::text::{BINARY_PROBE_BYTES, has_utf16_mark, looks_binary, without_mark};
use super::{ContentHash, NotText};

/// The most bytes of a file that are gone through, to find a window or to count lines.
const MAX_SCAN_BYTES: u64 = 256 * 1024 * 1024;

/// Which lines of a file to read: from `first` to `last`, as far as the limits allow.
#[derive(Clone, Copy, Debug)]
pub struct LineWindow {
    /// The first line, from 1.
    pub first: u64,
    /// The last line, inclusive; `None` for the end of the file.
    pub last: Option<u64>,
    /// How much is read at most.
    pub limits: LineLimits,
}

/// How much of a file is read at most.
#[derive(Clone, Copy, Debug)]
pub struct LineLimits {
    /// At most this many lines.
    pub lines: usize,
    /// At most this many bytes of text in all; at least one line is returned.
    pub bytes: usize,
    /// At most this many bytes of one line; the rest of it is left out.
    pub line_bytes: usize,
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Its text without its end; bytes that are not UTF-8 are U+FFFD.
    pub text: String,
    /// How many bytes at its end were left out.
    pub omitted: u64,
}

/// A window of lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// The lines, from the first that was asked for.
    pub lines: Vec<Line>,
    /// How many lines the file has; where `more` is set, how many were counted.
    pub total: u64,
    /// Whether the file goes on beyond the part that was gone through.
    pub more: bool,
    /// Whether a line of the window ends with CR LF.
    pub crlf: bool,
    /// Whether something in the window could not be decoded.
    pub lossy: bool,
    /// The name of the encoding where it is not UTF-8.
    pub encoding: Option<&'static str>,
    /// The hash of the whole content, unless `more` is set.
    pub hash: Option<ContentHash>,
}

impl Lines {
    /// Reads a window out of a whole text, as UTF-8. A byte order mark is not part of the first
    /// line. Stops early when `cancelled` says so.
    ///
    /// # Errors
    /// The outer error when `text` cannot be read, the inner [`NotText`] when it is binary.
    pub fn read(
        text: impl Read,
        window: &LineWindow,
        cancelled: &dyn Fn() -> bool,
    ) -> io::Result<Result<Self, NotText>> {
        let mut reader = BufReader::with_capacity(64 * 1024, HashingReader::new(text));
        if let Some(not_text) = skip_mark(&mut reader)? {
            return Ok(Err(not_text));
        }
        let mut lines = Self::default();
        let (mut scanned, mut bytes) = (0, 0);
        let mut line = RawLine::default();
        loop {
            let wanted = lines.wants_next(window);
            let keep = if wanted { window.limits.line_bytes } else { 0 };
            if !line.read(&mut reader, keep, &mut scanned)? {
                break;
            }
            lines.total += 1;
            if wanted {
                lines.take(&line, window, &mut bytes);
            }
            if scanned > MAX_SCAN_BYTES || cancelled() {
                lines.more = true;
                break;
            }
        }
        lines.hash = (!lines.more).then(|| reader.get_ref().hash());
        Ok(Ok(lines))
    }

    /// Whether the next line belongs to the window. A line is only taken next to the one before it,
    /// so that the window has no gaps.
    fn wants_next(&self, window: &LineWindow) -> bool {
        let number = self.total + 1;
        number == window.first + self.lines.len() as u64
            && window.last.is_none_or(|last| number <= last)
            && self.lines.len() < window.limits.lines
    }

    /// Keeps a line if there is room for it. `bytes` is the size of what is kept.
    fn take(&mut self, line: &RawLine, window: &LineWindow, bytes: &mut usize) {
        let (text, omitted, crlf) = line.text();
        if *bytes > 0 && *bytes + text.len() > window.limits.bytes {
            return;
        }
        *bytes += text.len() + 1;
        self.crlf |= crlf;
        self.lossy |= text.contains('\u{fffd}');
        self.lines.push(Line { text, omitted });
    }
}

/// Leaves the reader after the mark, or says why the file is no text.
fn skip_mark(reader: &mut BufReader<impl Read>) -> io::Result<Option<NotText>> {
    debug_assert!(reader.capacity() >= BINARY_PROBE_BYTES);
    let start = reader.fill_buf()?;
    if has_utf16_mark(start) {
        return Ok(Some(NotText::Utf16));
    }
    if looks_binary(start) {
        return Ok(Some(NotText::Binary));
    }
    let mark = start.len() - without_mark(start).len();
    reader.consume(mark);
    Ok(None)
}

/// The kept start of a line and how long the line really is.
#[derive(Default)]
struct RawLine {
    kept: Vec<u8>,
    /// Bytes without the line feed.
    len: u64,
    ends_with_cr: bool,
    ends_with_lf: bool,
}

impl RawLine {
    /// Reads the next line; `false` at the end of the file.
    fn read(
        &mut self,
        reader: &mut impl BufRead,
        keep: usize,
        scanned: &mut u64,
    ) -> io::Result<bool> {
        *self = Self { kept: std::mem::take(&mut self.kept), ..Self::default() };
        self.kept.clear();
        let mut any = false;
        while !self.ends_with_lf && *scanned <= MAX_SCAN_BYTES {
            let chunk = reader.fill_buf()?;
            if chunk.is_empty() {
                break;
            }
            any = true;
            let end = memchr(b'\n', chunk);
            let piece = end.and_then(|end| chunk.get(..end)).unwrap_or(chunk);
            self.ends_with_lf = end.is_some();
            let room = keep.saturating_sub(self.kept.len()).min(piece.len());
            self.kept.extend_from_slice(piece.get(..room).unwrap_or_default());
            self.len += piece.len() as u64;
            if let Some(byte) = piece.last() {
                self.ends_with_cr = *byte == b'\r';
            }
            let used = piece.len() + usize::from(self.ends_with_lf);
            *scanned += used as u64;
            reader.consume(used);
        }
        Ok(any)
    }

    /// The text, how many of its bytes are left out, and whether it ended with CR LF.
    fn text(&self) -> (String, u64, bool) {
        let crlf = self.ends_with_lf && self.ends_with_cr;
        let len = self.len - u64::from(crlf);
        let mut kept = self.kept.as_slice();
        if kept.len() as u64 > len {
            kept = kept.strip_suffix(b"\r").unwrap_or(kept);
        }
        if (kept.len() as u64) < len {
            kept = whole_characters(kept);
        }
        let omitted = len - kept.len() as u64;
        (String::from_utf8_lossy(kept).into_owned(), omitted, crlf)
    }
}

/// Takes a character that was cut in the middle off the end.
fn whole_characters(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => {
            bytes.get(..error.valid_up_to()).unwrap_or(bytes)
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LineLimits = LineLimits { lines: 100, bytes: 1000, line_bytes: 10 };

    fn read(bytes: &[u8], first: u64, last: Option<u64>, limits: LineLimits) -> Lines {
        Lines::read(bytes, &LineWindow { first, last, limits }, &|| false).unwrap().unwrap()
    }

    fn texts(lines: &Lines) -> Vec<&str> {
        lines.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn windows_and_totals() {
        let all = read(b"\xef\xbb\xbfa\r\nb\n\nd", 1, None, LIMITS);
        assert_eq!(texts(&all), ["a", "b", "", "d"]);
        assert_eq!((all.total, all.more, all.crlf, all.lossy), (4, false, true, false));
        let middle = read(b"a\nb\nc\nd\n", 2, Some(3), LIMITS);
        assert_eq!((texts(&middle), middle.total), (vec!["b", "c"], 4));
        let hash = |bytes| Some(ContentHash::of(bytes));
        let beyond = Lines { total: 1, hash: hash(b"a\n"), ..Lines::default() };
        assert_eq!(read(b"a\n", 5, None, LIMITS), beyond);
        assert_eq!(read(b"", 1, None, LIMITS), Lines { hash: hash(b""), ..Lines::default() });
    }

    #[test]
    fn a_line_is_cut_between_characters_at_every_alignment() {
        for padding in 0..4 {
            let line = format!("{}{}", "x".repeat(padding), "😀".repeat(5));
            let lines = read(format!("{line}\r\nend").as_bytes(), 1, None, LIMITS);
            let cut = &lines.lines[0];
            assert!(line.starts_with(&cut.text) && cut.text.len() <= 10);
            assert_eq!(cut.text.len() as u64 + cut.omitted, line.len() as u64);
            assert!(!lines.lossy);
            assert_eq!(lines.lines[1].text, "end");
        }
    }

    #[test]
    fn a_window_that_is_full_has_no_gaps() {
        let limits = LineLimits { lines: 100, bytes: 5, line_bytes: 10 };
        let lines = read(b"aa\nbbbbbb\nc\n", 1, None, limits);
        assert_eq!((texts(&lines), lines.total), (vec!["aa"], 3));
        let one = read(b"aaaaaaaaaa\nb\n", 1, None, limits);
        assert_eq!(texts(&one), ["aaaaaaaaaa"]);
    }
}
