//! What a server says, with all of it to be seen: a model is led on by letters that no person sees, and a
//! terminal obeys some. They are written out and not taken away, so that nobody takes what a server has read
//! from a file for the file's own bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::names::acts;

/// The text with control and direction characters, other line ends, and tag characters as escapes:
/// `\u{1b}`. Line ends and tabs stay.
pub fn written_out(text: &str) -> Cow<'_, str> {
    if !text.contains(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends_line = letter == '\r' && letters.peek() == Some(&'\n');
        match letter {
            _ if ends_line || !is_hidden(letter) => out.push(letter),
            // Writing to a string cannot fail.
            _ => write!(out, "\\u{{{:x}}}", u32::from(letter)).unwrap_or_default(),
        }
    }
    Cow::Owned(out)
}

fn is_hidden(letter: char) -> bool {
    let is_tag = matches!(letter, '\u{e0000}'..='\u{e007f}');
    is_tag || acts(letter) && !matches!(letter, '\n' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_acts_is_written_out_and_what_is_read_stays() {
        for (text, told) in [
            (
                "\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}",
                r"\u{1b}[31mred\u{1b}[0m \u{1b}]0;title\u{7}",
            ),
            ("a\0b\u{9b}c\u{7f}", r"a\u{0}b\u{9b}c\u{7f}"),
            ("cod\u{202e}exe \u{2066}x\u{2069}", r"cod\u{202e}exe \u{2066}x\u{2069}"),
            ("\u{e0041}\u{e0042}", r"\u{e0041}\u{e0042}"),
            ("one\r\ntwo\rthree\u{2028}", "one\r\ntwo\\u{d}three\\u{2028}"),
        ] {
            assert_eq!(written_out(text), told);
        }
        // Joiners and marks are letters of some scripts and parts of pictures.
        let read = "größe\n\tنمی\u{200c}خواهم 👩\u{200d}🔧 \u{200f}";
        assert!(matches!(written_out(read), Cow::Borrowed(same) if same == read));
    }
}
