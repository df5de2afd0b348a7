//! What a server says, with all of it to be seen: a model is led on by letters that no person sees, and a
//! terminal obeys some. They are written out and not taken away, so that nobody takes what a server has read
//! from a file for the file's own bytes.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::names::acts;

/// The text with control and direction characters, other line ends, and letters that nobody sees as escapes:
/// `\u{1b}`. Line ends and tabs stay, and so do joiners, marks and selectors, which scripts and pictures are
/// made of, unless one follows another of its kind: no script has that, and words can be hidden in it.
pub fn written_out(text: &str) -> Cow<'_, str> {
    if !text.contains(|letter| is_hidden(letter) || Modifier::of(letter).is_some()) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut letters = text.chars().peekable();
    let mut before = None;
    while let Some(letter) = letters.next() {
        let ends_line = letter == '\r' && letters.peek() == Some(&'\n');
        let modifier = Modifier::of(letter);
        let is_repeated = modifier.is_some() && modifier == before;
        before = modifier;
        match is_repeated || is_hidden(letter) && !ends_line {
            false => out.push(letter),
            // Writing to a string cannot fail.
            true => write!(out, "\\u{{{:x}}}", u32::from(letter)).unwrap_or_default(),
        }
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

/// Controls but for line ends and tabs, what turns the direction of writing, blanks and operators without a
/// width, the soft hyphen, the byte order mark, marks of annotations, tags.
fn is_hidden(letter: char) -> bool {
    let is_unseen = matches!(
        letter,
        '\u{ad}'
            | '\u{180e}'
            | '\u{200b}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{e0000}'..='\u{e007f}'
    );
    is_unseen || acts(letter) && !matches!(letter, '\n' | '\t')
}

/// What has no look of its own and changes that of the letters around it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Modifier {
    Joiner,
    Mark,
    Selector,
}

impl Modifier {
    fn of(letter: char) -> Option<Self> {
        match letter {
            '\u{200c}' | '\u{200d}' | '\u{34f}' => Some(Self::Joiner),
            '\u{200e}' | '\u{200f}' | '\u{61c}' => Some(Self::Mark),
            '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}' => Some(Self::Selector),
            _ => None,
        }
    }
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
            (
                "a\u{200b}b\u{2060}c\u{feff}d\u{2063}e\u{ad}f",
                r"a\u{200b}b\u{2060}c\u{feff}d\u{2063}e\u{ad}f",
            ),
            // Bytes as selectors behind a picture, and bits as joiners or marks.
            ("🙂\u{fe0f}\u{e0158}\u{e0159}", "🙂\u{fe0f}\\u{e0158}\\u{e0159}"),
            ("a\u{200c}\u{200d}\u{200c}b", "a\u{200c}\\u{200d}\\u{200c}b"),
            ("a\u{200e}\u{200f}b", "a\u{200e}\\u{200f}b"),
        ] {
            assert_eq!(written_out(text), told);
        }
        // Joiners and marks are letters of some scripts and parts of pictures.
        let read = "größe\n\tنمی\u{200c}خواهم 👩\u{200d}🔧 \u{200f}❤\u{fe0f}\u{200d}🔥 葛\u{e0100}";
        assert!(matches!(written_out(read), Cow::Borrowed(same) if same == read));
    }
}
