//! Text on its way to a person: what cannot be seen is written out, what is too long is cut.
//!
//! A title with a terminal sequence, a reversed file name or an invisible letter in it would show
//! a person something other than what runs.

use std::borrow::Cow;
use std::fmt::Write as _;

/// A single line in which control, direction and invisible characters are written as escapes;
/// also line ends and tabs.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    escape(text, |_| false)
}

/// As [`visible`], but line ends and tabs stay: for Markdown below a title.
pub(crate) fn visible_block(text: &str) -> Cow<'_, str> {
    escape(text, |c| c == '\n' || c == '\t')
}

/// As [`visible_block`], with spaces for line ends and tabs: prose on one line.
pub(crate) fn unbroken(text: &str) -> String {
    visible_block(text).replace(['\n', '\t'], " ")
}

/// A line of JSON in which those characters are JSON escapes: the same value, and a terminal shows
/// all of it.
pub(crate) fn visible_json(line: &str) -> Cow<'_, str> {
    if !line.chars().any(is_hidden) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len() + 16);
    for c in line.chars() {
        if !is_hidden(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a string cannot fail.
            write!(out, "\\u{unit:04x}").unwrap_or_default();
        }
    }
    Cow::Owned(out)
}

fn escape(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    let hidden = |c: char| is_hidden(c) && !keep(c);
    if !text.chars().any(hidden) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !hidden(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // Writing to a string cannot fail.
            c => write!(out, "\\u{{{:x}}}", u32::from(c)).unwrap_or_default(),
        }
    }
    Cow::Owned(out)
}

/// C0, C1 and DEL; soft hyphen; direction marks, embeddings and isolates; zero-width characters;
/// line and paragraph separators; the byte order mark; tag characters.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

/// At most `limit` characters; a cut is shown by an ellipsis that counts as one of them.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    if text.chars().nth(limit).is_none() {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(limit.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_characters_are_written_out() {
        assert_eq!(visible("rm \u{202e}txt.exe"), r"rm \u{202e}txt.exe");
        assert_eq!(visible("a\u{1b}]0;x\u{7}b\r\n\tc"), r"a\u{1b}]0;x\u{7}b\r\n\tc");
        assert_eq!(visible("a\u{200b}b\u{9b}c\u{e0041}"), r"a\u{200b}b\u{9b}c\u{e0041}");
        assert!(matches!(visible("größe 日本 🙂"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_block_keeps_its_lines() {
        assert_eq!(visible_block("a\n\tb\u{1b}[0m"), "a\n\tb\\u{1b}[0m");
        assert_eq!(unbroken("rm\n-rf ä\r"), "rm -rf ä\\r");
    }

    #[test]
    fn json_stays_the_same_value() {
        let line = serde_json::to_string("a\u{202e}b\u{9b}c\u{e0041}\n").unwrap();
        let shown = visible_json(&line);
        assert_eq!(shown, r#""a\u202eb\u009bc\udb40\udc41\n""#);
        let read = |line: &str| serde_json::from_str::<String>(line).unwrap();
        assert_eq!(read(&shown), read(&line));
    }

    #[test]
    fn shortening_counts_characters() {
        assert_eq!(shorten("äöü", 3), "äöü");
        assert_eq!(shorten("äöüß", 3), "äö…");
    }
}
