//! Files as text: the mark before the first line, and the encoding of what follows.
//!
//! The bytes stay the truth. Whatever is not UTF-8 is only taken as text when the bytes that its
//! characters encode to are exactly those that were read; then every character that an edit does
//! not touch is written back byte for byte.

use std::borrow::Cow;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{ISO_8859_4, ISO_8859_13, WINDOWS_1252, WINDOWS_1257, WINDOWS_1258};

/// The byte order marks.
const UTF_8_MARK: &[u8] = b"\xef\xbb\xbf";
const UTF_16_LE_MARK: &[u8] = b"\xff\xfe";
const UTF_16_BE_MARK: &[u8] = b"\xfe\xff";
/// So many letters in a row that are not ASCII are not from a western word.
const ODD_RUN: usize = 3;
/// With more of them in the text than these, every guess is good.
const FEW_ACCENTS: usize = 2;
/// Encodings with accents that are rarer than a western text that looks like them. Multi-byte ones are,
/// too.
const FAR_FETCHED: [&encoding_rs::Encoding; 4] =
    [ISO_8859_4, ISO_8859_13, WINDOWS_1257, WINDOWS_1258];
/// A NUL within this many bytes from the start makes a file binary.
pub(super) const BINARY_PROBE_BYTES: usize = 8 * 1024;

/// A text as a file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    /// The byte order mark, or nothing.
    pub mark: &'a [u8],
    /// Everything after it, decoded.
    pub body: Cow<'a, str>,
    encoding: Encoding,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Utf8,
    Utf16Le,
    Utf16Be,
    /// One that has no mark and was told from the bytes.
    Legacy(&'static encoding_rs::Encoding),
}

/// Bytes that are not a text that Bridle edits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotText {
    /// There is a NUL near the start.
    #[error("it is a binary file")]
    Binary,
    /// It begins with the mark of UTF-16 and goes on with something else.
    #[error("it begins like UTF-16 text but is none")]
    Utf16,
    /// Something in it is not UTF-8, and no other encoding fits.
    #[error("it is not UTF-8 text (first bad byte at offset {0}), nor surely in another encoding")]
    NotUtf8(usize),
}

/// A character that the encoding of the file does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is encoded as {encoding}, which cannot hold {character:?}")]
pub struct Unencodable {
    /// The name of the encoding.
    pub encoding: &'static str,
    /// The first such character.
    pub character: char,
}

impl<'a> Text<'a> {
    /// Takes bytes as text. An encoding other than UTF-8 is told by its mark, or guessed from all
    /// of the bytes.
    ///
    /// # Errors
    /// [`NotText`] says why they are none.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, NotText> {
        for (mark, encoding) in
            [(UTF_16_LE_MARK, Encoding::Utf16Le), (UTF_16_BE_MARK, Encoding::Utf16Be)]
        {
            if let Some(rest) = bytes.strip_prefix(mark) {
                let body = decode_utf16(rest, encoding).ok_or(NotText::Utf16)?;
                return Ok(Self { mark, body: body.into(), encoding });
            }
        }
        if looks_binary(bytes) {
            return Err(NotText::Binary);
        }
        let (mark, body) = match bytes.strip_prefix(UTF_8_MARK) {
            Some(body) => (UTF_8_MARK, body),
            None => (&[][..], bytes),
        };
        match std::str::from_utf8(body) {
            Ok(body) => Ok(Self { mark, body: body.into(), encoding: Encoding::Utf8 }),
            Err(error) => {
                let not_text = NotText::NotUtf8(mark.len() + error.valid_up_to());
                if !mark.is_empty() {
                    return Err(not_text);
                }
                let (encoding, body) = guess(body).ok_or(not_text)?;
                Ok(Self { mark, body: body.into(), encoding: Encoding::Legacy(encoding) })
            }
        }
    }

    /// A text to be read and not written back, and whether marks (U+FFFD) stand for some of its bytes
    /// because they fit no encoding.
    ///
    /// # Errors
    /// As [`Text::parse`], except that no byte alone makes a text none.
    pub fn readable(bytes: &'a [u8]) -> Result<(Cow<'a, str>, bool), NotText> {
        match Self::parse(bytes) {
            Ok(text) => Ok((text.body, false)),
            Err(NotText::NotUtf8(_)) => {
                let body = bytes.strip_prefix(UTF_8_MARK).unwrap_or(bytes);
                Ok((String::from_utf8_lossy(body), true))
            }
            Err(why) => Err(why),
        }
    }

    /// The name of the encoding where it is not UTF-8.
    pub fn encoding(&self) -> Option<&'static str> {
        match self.encoding {
            Encoding::Utf8 => None,
            Encoding::Utf16Le => Some("UTF-16LE"),
            Encoding::Utf16Be => Some("UTF-16BE"),
            Encoding::Legacy(encoding) => Some(encoding.name()),
        }
    }

    /// The bytes of a text with another body and the same mark and encoding.
    ///
    /// # Errors
    /// [`Unencodable`] for a character that the encoding does not have.
    pub fn with_body(&self, body: impl Into<String>) -> Result<Vec<u8>, Unencodable> {
        let body = body.into();
        let encoded = match self.encoding {
            Encoding::Utf8 => body.into_bytes(),
            Encoding::Utf16Le => body.encode_utf16().flat_map(u16::to_le_bytes).collect(),
            Encoding::Utf16Be => body.encode_utf16().flat_map(u16::to_be_bytes).collect(),
            Encoding::Legacy(encoding) => encode(encoding, &body)
                .map_err(|character| Unencodable { encoding: encoding.name(), character })?,
        };
        if self.mark.is_empty() {
            return Ok(encoded);
        }
        Ok([self.mark, &encoded].concat())
    }
}

/// Whether bytes from the start of a file look binary: a NUL in the first 8 KiB.
pub fn looks_binary(start: &[u8]) -> bool {
    start.iter().take(BINARY_PROBE_BYTES).any(|byte| *byte == 0)
}

/// The bytes after the mark of UTF-8, if there is one.
pub(super) fn without_mark(start: &[u8]) -> &[u8] {
    start.strip_prefix(UTF_8_MARK).unwrap_or(start)
}

pub(super) fn has_utf16_mark(start: &[u8]) -> bool {
    start.starts_with(UTF_16_LE_MARK) || start.starts_with(UTF_16_BE_MARK)
}

/// Only what is encoded back to the same bytes, and holds no NUL.
fn decode_utf16(bytes: &[u8], encoding: Encoding) -> Option<String> {
    let (pairs, []) = bytes.as_chunks::<2>() else { return None };
    let unit = match encoding {
        Encoding::Utf16Be => u16::from_be_bytes,
        _ => u16::from_le_bytes,
    };
    let body = char::decode_utf16(pairs.iter().copied().map(unit)).collect::<Result<String, _>>();
    body.ok().filter(|body| !body.contains('\0'))
}

/// The encoding that the bytes most likely have, if they come back from it unchanged. Text that is
/// UTF-8 but for a few damaged places is not taken for another encoding.
fn guess(bytes: &[u8]) -> Option<(&'static encoding_rs::Encoding, String)> {
    let (mut characters, mut damaged) = (0_usize, 0_usize);
    for chunk in bytes.utf8_chunks() {
        characters += chunk.valid().chars().filter(|c| !c.is_ascii()).count();
        damaged += usize::from(!chunk.invalid().is_empty());
    }
    if characters > damaged {
        return None;
    }
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Deny);
    detector.feed(bytes, true);
    let mut encoding = detector.guess(None, Utf8Detection::Deny);
    if (FAR_FETCHED.contains(&encoding) || !encoding.is_single_byte()) && !says_enough(bytes) {
        encoding = WINDOWS_1252;
    }
    let body = encoding.decode_without_bom_handling_and_without_replacement(bytes)?.into_owned();
    let same = encode(encoding, &body).is_ok_and(|encoded| encoded == bytes);
    same.then_some((encoding, body))
}

/// Whether bytes speak against western text with an accent or two. The detector goes by how frequent
/// pairs of letters are: with so few it takes `naïve` and `château` for Baltic words.
fn says_enough(bytes: &[u8]) -> bool {
    let (western, _) = WINDOWS_1252.decode_without_bom_handling(bytes);
    let mut run = 0_usize;
    let (mut accents, mut before, mut symbol_in_word) = (0_usize, ' ', false);
    for c in western.chars() {
        run = if c.is_ascii() { 0 } else { run + 1 };
        accents += usize::from(!c.is_ascii());
        // A word of other letters, or a byte that is none there.
        if run >= ODD_RUN || ('\u{80}'..='\u{9f}').contains(&c) {
            return true;
        }
        if symbol_in_word && c.is_alphabetic() {
            return true;
        }
        // The first half of what western text uses lies above Latin-1: quotes, dashes, the euro.
        symbol_in_word =
            ('\u{a1}'..='\u{bf}').contains(&c) && !c.is_alphabetic() && before.is_alphabetic();
        before = c;
    }
    accents > FEW_ACCENTS
}

/// The character that cannot be encoded on failure.
fn encode(encoding: &'static encoding_rs::Encoding, body: &str) -> Result<Vec<u8>, char> {
    let (encoded, _, unmappable) = encoding.encode(body);
    if !unmappable {
        return Ok(encoded.into_owned());
    }
    let missing = |c: &char| encoding.encode(c.encode_utf8(&mut [0; 4])).2;
    Err(body.chars().find(missing).unwrap_or(char::REPLACEMENT_CHARACTER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_and_body() {
        let text = Text::parse(b"\xef\xbb\xbfa\r\n").unwrap();
        assert_eq!((text.body.as_ref(), text.encoding()), ("a\r\n", None));
        assert_eq!(text.with_body("b\r\n").unwrap(), b"\xef\xbb\xbfb\r\n");
        assert_eq!(Text::parse(b"").unwrap().body, "");
    }

    #[test]
    fn what_is_no_text() {
        assert_eq!(Text::parse(b"a\0b"), Err(NotText::Binary));
        assert_eq!(Text::parse(b"\xff\xfea"), Err(NotText::Utf16));
        assert_eq!(Text::parse(b"\xff\xfe\x00\xd8"), Err(NotText::Utf16), "half a character");
        assert_eq!(Text::parse(b"\xff\xfe\0\0a\0\0\0"), Err(NotText::Utf16), "UTF-32");
        assert_eq!(Text::parse(b"\xef\xbb\xbfab\xe9"), Err(NotText::NotUtf8(5)));
        let late = [vec![b'a'; BINARY_PROBE_BYTES], vec![0]].concat();
        assert!(Text::parse(&late).is_ok());
    }

    #[test]
    fn utf_16_is_known_by_its_mark() {
        for (bytes, name) in [
            (&b"\xff\xfea\0\r\0\n\0=\xd8\0\xde"[..], "UTF-16LE"),
            (b"\xfe\xff\0a\0\r\0\n\xd8=\xde\0", "UTF-16BE"),
        ] {
            let text = Text::parse(bytes).unwrap();
            assert_eq!((text.body.as_ref(), text.encoding()), ("a\r\n😀", Some(name)));
            assert_eq!(text.with_body(text.body.clone()).unwrap(), bytes);
        }
    }

    #[test]
    fn other_encodings_are_told_from_their_bytes() {
        for (label, body) in [
            ("windows-1252", "Die Straße führt über die Brücke, größer wäre schöner.\r\n"),
            ("Shift_JIS", "吾輩は猫である。名前はまだ無い。どこで生れたかとんと見当がつかぬ。\n"),
            ("GBK", "学而时习之,不亦说乎?有朋自远方来,不亦乐乎?\n"),
            ("windows-1251", "Все счастливые семьи похожи друг на друга.\n"),
        ] {
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let bytes = encoding.encode(body).0.into_owned();
            let text = Text::parse(&bytes).unwrap();
            assert_eq!((text.body.as_ref(), text.encoding()), (body, Some(label)));
            assert_eq!(text.with_body(body).unwrap(), bytes);
            let error = text.with_body("a😀").unwrap_err();
            assert_eq!((error.encoding, error.character), (label, '😀').clone());
        }
    }

    /// A short text is what its words are, and western rather than something rare.
    #[test]
    fn a_short_text_is_western_rather_than_something_rare() {
        for (label, body) in [
            ("windows-1252", "naïve"),
            ("windows-1252", "x = \"château\"\n"),
            ("windows-1252", "maïs, ça\n"),
            ("windows-1252", "größer"),
            ("windows-1252", "grün"),
            ("windows-1252", "élève"),
            ("windows-1252", "# Café crème\n"),
            ("windows-1252", "name = \"Müller\"\n"),
            ("windows-1252", "Größe: 3 µm ± 5 %\n"),
            ("windows-1252", "¿Qué tal, señor? «Bien»\n"),
            ("windows-1252", "l’été à la plage – 5 €\n"),
            ("windows-1252", "smörgåsbord på ön\n"),
            ("windows-1251", "Привет, мир\n"),
            ("windows-1253", "Καλημέρα κόσμε\n"),
            ("Shift_JIS", "これはテストです\n"),
            ("Big5", "你好，世界\n"),
            ("GBK", "你好，世界\n"),
            ("EUC-KR", "안녕하세요 세계\n"),
            ("ISO-8859-2", "zażółć gęślą jaźń\n"),
            ("windows-1250", "Příliš žluťoučký kůň\n"),
            ("windows-1250", "erdőben\n"),
            ("windows-1254", "çalışıyor\n"),
            ("windows-1257", "Įlinkdama fechtuotojo špaga sublykčiojusi pragręžė apvalų arbūzą\n"),
        ] {
            let encoding = encoding_rs::Encoding::for_label(label.as_bytes()).unwrap();
            let (bytes, _, lost) = encoding.encode(body);
            assert!(!lost, "{body}");
            let text = Text::parse(&bytes).unwrap();
            assert_eq!((text.body.as_ref(), text.encoding()), (body, Some(label)));
            assert_eq!(text.with_body(body).unwrap(), *bytes);
        }
    }

    #[test]
    fn damaged_utf_8_is_not_taken_for_another_encoding() {
        let bytes = ["grün, blau, weiß".as_bytes(), b"\xe9", "größer".as_bytes()].concat();
        assert_eq!(Text::parse(&bytes), Err(NotText::NotUtf8(18)));
    }
}
