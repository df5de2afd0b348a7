//! Files as text: what hides before the first line and at the ends of lines.
//!
//! The bytes stay the truth. A text only says where the mark ends and that the rest is UTF-8;
//! nothing is converted, so whatever is not touched is written back byte for byte.

/// The byte order mark of UTF-8.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// A NUL within this many bytes from the start makes a file binary.
pub(super) const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// A UTF-8 text as a file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// The byte order mark, or nothing.
    pub mark: &'a [u8],
    /// Everything after it.
    pub body: &'a str,
}

/// Bytes that are not a text that Bridle edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// There is a NUL near the start.
    #[error("it is a binary file")]
    Binary,
    /// It begins with the mark of UTF-16.
    #[error("it is UTF-16 text; only UTF-8 is supported")]
    Utf16,
    /// Something in it is not UTF-8.
    #[error("it is not UTF-8 text (first bad byte at offset {0})")]
    NotUtf8(usize),
}

impl<'a> Text<'a> {
    /// Takes bytes as text.
    ///
    /// # Errors
    /// [`NotText`] says why they are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotText> {
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            return Err(NotText::Utf16);
        }
        if looks_binary(bytes) {
            return Err(NotText::Binary);
        }
        let (mark, body) = match bytes.strip_prefix(BOM) {
            Some(body) => (BOM, body),
            None => (&[][..], bytes),
        };
        let body = std::str::from_utf8(body)
            .map_err(|error| NotText::NotUtf8(mark.len() + error.valid_up_to()))?;
        Ok(Self { mark, body })
    }

    /// The bytes of a text with another body and the same mark.
    pub fn with_body(&self, body: &str) -> Vec<u8> {
        [self.mark, body.as_bytes()].concat()
    }
}

/// Whether bytes from the start of a file look binary: a NUL in the first 8 KiB.
pub fn looks_binary(start: &[u8]) -> bool {
    start.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0)
}

/// The bytes after the mark, if there is one.
pub(super) fn without_mark(start: &[u8]) -> &[u8] {
    start.strip_prefix(BOM).unwrap_or(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_and_body() {
        let text = Text::parse(b"\xef\xbb\xbfa\r\n").unwrap();
        assert_eq!(text.body, "a\r\n");
        assert_eq!(text.with_body("b\r\n"), b"\xef\xbb\xbfb\r\n");
        assert_eq!(Text::parse(b"").unwrap().body, "");
    }

    #[test]
    fn what_is_no_text() {
        assert_eq!(Text::parse(b"a\0b"), Err(NotText::Binary));
        assert_eq!(Text::parse(b"\xff\xfea\0"), Err(NotText::Utf16));
        assert_eq!(Text::parse(b"ab\xe9"), Err(NotText::NotUtf8(2)));
        let late = [vec![b'a'; BINARY_PROBE_BYTES], vec![0]].concat();
        assert!(Text::parse(&late).is_ok());
    }
}
