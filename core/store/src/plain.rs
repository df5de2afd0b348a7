//! Plain lines: the form without compression.
//!
//! A line has no checksum. What tells a whole one is its end and that it is an event, so a place
//! in which a text was changed into another text cannot be told from what was written.

use std::str;

/// How every event line begins. Inside a line it can only stand in raw JSON, and what follows it
/// there is no event, because it ends with brackets that were opened before.
pub(crate) const MARK: &[u8] = br#"{"seq":"#;

/// The first line with its end; `None` when it has none or is no text.
pub(crate) fn line(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes.get(..extent(bytes)?)?).ok()
}

/// The length of the first line with its end.
pub(crate) fn extent(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte == b'\n').map(|end| end + 1)
}
