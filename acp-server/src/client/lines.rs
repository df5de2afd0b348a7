//! Lines of a byte stream, with a limit, and safe to drop between two polls.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncRead, BufReader};

/// The longest line taken; well above what a server may send in one message.
const MAX_LINE_BYTES: usize = 64 << 20;

/// Reads one line after the other.
pub(super) struct Lines<R> {
    reader: BufReader<R>,
    partial: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), partial: Vec::new() }
    }

    /// The next line without its end; `None` at the end of the stream.
    ///
    /// # Errors
    /// When reading fails, and when a line has no end within the limit.
    ///
    /// # Cancel safety
    /// Cancel safe: a line that has come in part is kept for the next call.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            let available = self.reader.fill_buf().await?;
            if available.is_empty() {
                let rest = std::mem::take(&mut self.partial);
                return Ok((!rest.is_empty()).then_some(rest));
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let taken = end.map_or(available.len(), |end| end + 1);
            self.partial.extend(available.iter().take(end.unwrap_or(taken)));
            self.reader.consume(taken);
            if end.is_some() {
                return Ok(Some(std::mem::take(&mut self.partial)));
            }
            if self.partial.len() > MAX_LINE_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a line without an end"));
            }
        }
    }
}
