//! File names as text that a model can read and write back.
//!
//! A name that is UTF-8 and all to be seen is its own text. In any other name every byte that is not
//! UTF-8, or part of a character that would end a line or change what is beside it, stands as `\xff`,
//! and so does the backslash, so that no two such names share a text. [`Roots::resolve`] takes these
//! texts back to the names. Nothing else can be written this way: not `/`, not `..`.
//!
//! [`Roots::resolve`]: crate::Roots::resolve

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path};

/// A name as text.
pub fn name_text(name: &OsStr) -> String {
    if let Some(text) = plain(name) {
        return text.to_owned();
    }
    let mut text = String::new();
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            let _infallible = write!(text, r"\x{byte:02x}");
        }
    };
    for chunk in name.as_bytes().utf8_chunks() {
        for character in chunk.valid().chars() {
            match character == '\\' || acts(character) {
                true => escape(&mut text, character.encode_utf8(&mut [0; 4]).as_bytes()),
                false => text.push(character),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

/// The text of a name that is its own.
fn plain(name: &OsStr) -> Option<&str> {
    name.to_str().filter(|text| !text.contains(acts))
}

/// Whether a character does something to a text instead of being seen in it: controls, other line
/// ends, and what turns the direction of writing.
pub(crate) fn acts(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A path as text, name by name.
pub fn path_text(path: &Path) -> String {
    if let Some(text) = plain(path.as_os_str()) {
        return text.to_owned();
    }
    let mut text = String::new();
    for part in path.components() {
        if !text.is_empty() && !text.ends_with('/') {
            text.push('/');
        }
        match part {
            Component::RootDir => text.push('/'),
            part => text.push_str(&name_text(part.as_os_str())),
        }
    }
    text
}

/// The name that is not plain and has this text, if it is the text of one.
pub(crate) fn name_of(text: &OsStr) -> Option<OsString> {
    let text = text.to_str().filter(|text| text.contains(r"\x"))?;
    let mut pieces = text.split(r"\x");
    let mut bytes = pieces.next()?.as_bytes().to_vec();
    for piece in pieces {
        let (digits, rest) = piece.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        bytes.extend_from_slice(rest.as_bytes());
    }
    let name = OsString::from_vec(bytes);
    // Only the one way in which the name is shown is accepted.
    (plain(&name).is_none() && name_text(&name) == text).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_lead_back_to_their_names_and_to_nothing_else() {
        for name in [
            &b"bad\xffname"[..],
            b"\xff",
            b"\xc3\xa4\xe4\\xff",
            b"a\\\xf0\x9f",
            b"x]\n[exit code 0]\n[",
            b"\x1b[2J\\",
            "a\u{202e}b\u{85}".as_bytes(),
        ] {
            let name = OsStr::from_bytes(name);
            let text = name_text(name);
            assert_eq!(name_of(text.as_ref()).as_deref(), Some(name));
            assert!(!text.contains(acts), "{text:?}");
        }
        for text in ["a", r"\x2e\x2e", r"\x2f\xff", r"a\xFF", r"\x5cx", r"\x", r"\xzz", r"\xc3\xa4"]
        {
            assert_eq!(name_of(text.as_ref()), None, "{text}");
        }
        let path = Path::new(OsStr::from_bytes(b"/a/\xff/b"));
        assert_eq!(path_text(path), r"/a/\xff/b");
        assert_eq!(path_text(Path::new("/a\n/b")), r"/a\x0a/b");
        assert_eq!(path_text(Path::new("/ä\\x/b")), r"/ä\x/b");
    }

    /// Random names: the text of each one that is not UTF-8 leads back to it.
    #[test]
    fn random_names_come_back() {
        const NAMES: usize = 20_000;
        let seed = fastrand::u64(..);
        println!("seed {seed}, {NAMES} names");
        let mut random = fastrand::Rng::with_seed(seed);
        for _ in 0..NAMES {
            let alphabet = b"\\xf5c\xff\xc3\xa4.";
            let length = random.usize(1..8);
            let bytes = (0..length).filter_map(|_| random.choice(alphabet).copied()).collect();
            let name = OsString::from_vec(bytes);
            if name.to_str().is_none() {
                let back = name_of(name_text(&name).as_ref());
                assert_eq!(back, Some(name), "seed {seed}");
            }
        }
    }
}
