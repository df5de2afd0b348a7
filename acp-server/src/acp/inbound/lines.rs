//! Lines out of bytes, with a limit on what one line may hold in memory.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The longest line that is taken, in bytes without its end. A longer one is skipped.
pub(super) const MAX_LINE: usize = 32 * 1024 * 1024;

/// How many bytes of a longer line are kept: enough for its id, which clients write first.
const KEPT: usize = 4 * 1024;

/// What some programs write before the first line of a stream.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// One line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A line without its end and without blanks around it; never empty.
    Line(Vec<u8>),
    /// The first bytes of a line over [`MAX_LINE`]; the rest is gone.
    TooLong(Vec<u8>),
}

/// Reads frames. Blank lines are dropped, and a carriage return before the line end goes with the
/// blanks; so does a byte order mark before the first line. The last line may lack its end.
pub(super) struct LineReader<R> {
    input: BufReader<R>,
    at_start: bool,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input: BufReader::with_capacity(64 * 1024, input), at_start: true }
    }

    /// The next frame; `None` at the end of the input.
    ///
    /// # Errors
    /// When reading fails.
    pub(super) async fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            let mut line = Vec::new();
            let mut too_long = false;
            let ended = loop {
                let available = self.input.fill_buf().await?;
                if available.is_empty() {
                    break true;
                }
                let end = available.iter().position(|byte| *byte == b'\n');
                let (part, used) = match end {
                    Some(end) => (available.get(..end), end + 1),
                    None => (Some(available), available.len()),
                };
                let part = part.unwrap_or_default();
                too_long = too_long || line.len() + part.len() > MAX_LINE;
                if too_long {
                    line.truncate(KEPT);
                    line.extend(part.iter().take(KEPT - line.len()));
                    line.shrink_to_fit();
                } else {
                    line.extend_from_slice(part);
                }
                self.input.consume(used);
                if end.is_some() {
                    break false;
                }
            };
            let mut trimmed = line.as_slice();
            if std::mem::take(&mut self.at_start) {
                trimmed = trimmed.strip_prefix(BYTE_ORDER_MARK).unwrap_or(trimmed);
            }
            trimmed = trimmed.trim_ascii();
            if too_long || !trimmed.is_empty() {
                let line = if trimmed.len() == line.len() { line } else { trimmed.to_vec() };
                return Ok(Some(if too_long { Frame::TooLong(line) } else { Frame::Line(line) }));
            }
            if ended {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn frames(input: &[u8]) -> Vec<Frame> {
        let mut reader = LineReader::new(input);
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await.unwrap() {
            frames.push(frame);
        }
        frames
    }

    #[tokio::test]
    async fn blank_lines_and_carriage_returns_are_dropped() {
        let read = frames(b"\n\r\n  \na\r\n\n b \nlast").await;
        let line = |text: &str| Frame::Line(text.into());
        assert_eq!(read, [line("a"), line("b"), line("last")]);
    }

    #[tokio::test]
    async fn a_byte_order_mark_is_dropped_before_the_first_line_only() {
        let read = frames("\u{feff}a\n\u{feff}b\n".as_bytes()).await;
        assert_eq!(read, [Frame::Line("a".into()), Frame::Line("\u{feff}b".into())]);
        assert_eq!(frames("\u{feff}\nc".as_bytes()).await, [Frame::Line("c".into())]);
    }

    #[tokio::test]
    async fn a_line_at_the_limit_is_taken_and_one_byte_more_is_skipped() {
        let mut input = vec![b'x'; MAX_LINE];
        input.push(b'\n');
        input.extend(vec![b'y'; MAX_LINE + 1]);
        input.extend(b"\nz\n");
        let read = frames(&input).await;
        assert!(matches!(&read[0], Frame::Line(line) if line.len() == MAX_LINE));
        assert_eq!(read[1], Frame::TooLong(vec![b'y'; KEPT]));
        assert_eq!(read[2], Frame::Line(b"z".to_vec()));
    }
}
