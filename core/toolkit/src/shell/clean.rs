//! Program output as plain text: no escape sequences, no progress bar's history.

use std::borrow::Cow;

use vte::{Params, Parser, Perform};

/// What a terminal would have left standing of `output`, line by line: escape sequences and
/// control characters are gone, a carriage return goes back to the start of the line, a backspace
/// by one, and what comes next stands over what was there. Cursor movement between lines is not
/// followed.
pub(crate) fn clean(output: &str) -> String {
    let mut page = Page::default();
    Parser::new().advance(&mut page, without_strings(output).as_bytes());
    page.text.extend(page.line);
    page.text
}

/// Takes out what stands between the beginning and the end of a string sequence (a title, a link).
/// One that does not end on its line is none: a terminal would swallow everything behind it.
fn without_strings(output: &str) -> Cow<'_, str> {
    let mut kept = String::new();
    let mut rest = output;
    while let Some((before, introducer)) = next_string(rest) {
        kept.push_str(before);
        let (_, inside) = rest.split_at(before.len() + introducer.len());
        let end = inside.find(|c| matches!(c, '\n' | '\u{7}' | '\u{1b}' | '\u{90}'..='\u{9f}'));
        rest = match end.map(|end| inside.split_at(end).1) {
            Some(end) if !end.starts_with('\n') => {
                // Another sequence ends it, too, and is one itself.
                let ends = ["\u{7}", "\u{1b}\\", "\u{9c}"];
                ends.iter().find_map(|mark| end.strip_prefix(mark)).unwrap_or(end)
            }
            _ => inside,
        };
    }
    if kept.is_empty() && rest.len() == output.len() {
        return Cow::Borrowed(output);
    }
    kept.push_str(rest);
    Cow::Owned(kept)
}

/// The text before the first string sequence, and what introduces it.
fn next_string(text: &str) -> Option<(&str, &str)> {
    const INTRODUCERS: [&str; 10] = [
        "\u{1b}]", "\u{1b}P", "\u{1b}X", "\u{1b}^", "\u{1b}_", "\u{9d}", "\u{90}", "\u{98}",
        "\u{9e}", "\u{9f}",
    ];
    let at = text.find(|character| matches!(character, '\u{1b}' | '\u{90}'..='\u{9f}'));
    let mut from = at?;
    loop {
        let (before, here) = text.split_at(from);
        if let Some(introducer) = INTRODUCERS.iter().find(|start| here.starts_with(**start)) {
            return Some((before, introducer));
        }
        let next = here
            .char_indices()
            .skip(1)
            .find(|(_, character)| matches!(character, '\u{1b}' | '\u{90}'..='\u{9f}'));
        from += next?.0;
    }
}

#[derive(Default)]
struct Page {
    /// The lines that are over.
    text: String,
    line: Vec<char>,
    /// Where the next character of the line goes.
    column: usize,
}

impl Perform for Page {
    fn print(&mut self, character: char) {
        match self.line.get_mut(self.column) {
            Some(place) => *place = character,
            None => self.line.push(character),
        }
        self.column += 1;
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.text.extend(self.line.drain(..));
                self.text.push('\n');
                self.column = 0;
            }
            b'\r' => self.column = 0,
            b'\t' => self.print('\t'),
            // Backspace.
            0x08 => self.column = self.column.saturating_sub(1),
            _ => {}
        }
    }

    /// Only the erasing of a line is followed: programs that show progress do that.
    fn csi_dispatch(&mut self, params: &Params, _: &[u8], _: bool, action: char) {
        if action == 'K' {
            let whole = params.iter().flatten().any(|what| *what == 2);
            self.line.truncate(if whole { 0 } else { self.column });
            self.line.resize(self.column, ' ');
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_titles_and_links_go_and_text_stays() {
        assert_eq!(clean("\u{1b}[1;31merror\u{1b}[0m: no\ttab lost\n"), "error: no\ttab lost\n");
        assert_eq!(clean("\u{1b}]0;title\u{7}a\u{1b}]8;;http://x\u{1b}\\bc\u{7}\u{9b}"), "abc");
        assert_eq!(clean("añ€😀\u{fffd}\n"), "añ€😀\u{fffd}\n");
    }

    #[test]
    fn a_progress_line_shows_its_last_state_only() {
        assert_eq!(clean("start\n  1%\r 50%\r100%\ndone\n"), "start\n100%\ndone\n");
        assert_eq!(clean("one\r\ntwo\r\n"), "one\ntwo\n");
        assert_eq!(clean("10%\r\u{1b}[K20%\r"), "20%");
        assert_eq!(clean("-\u{8}\\\u{8}|\u{8}done\n\u{8}"), "done\n");
    }

    #[test]
    fn what_comes_behind_a_return_stands_over_what_was_there() {
        assert_eq!(clean("abcdef\rXY"), "XYcdef");
        assert_eq!(clean("ab\u{8}\u{8}"), "ab");
        assert_eq!(clean("abcdef\r\u{1b}[2KXY\n"), "XY\n");
        assert_eq!(clean("abcdef\u{8}\u{8}\u{1b}[K\n"), "abcd\n");
    }

    #[test]
    fn a_sequence_that_was_cut_off_swallows_nothing_more_than_itself() {
        assert_eq!(clean("kept\u{1b}[3"), "kept");
        assert_eq!(clean("1mkept"), "1mkept");
        for introducer in ["]0;", "P", "X", "^", "_"] {
            let output = format!("\u{1b}{introducer}title\nline 1\ntests failed\n");
            assert!(clean(&output).ends_with("\nline 1\ntests failed\n"), "{output:?}");
        }
        assert_eq!(clean("\u{1b}]0;title\u{1b}[31mred"), "red");
        // Each is looked at once, or this does not end.
        assert_eq!(clean(&"\u{1b}]\u{9d}".repeat(300_000)), "");
        assert_eq!(clean("a\u{9d}0;title\nb\u{9d}0;title\u{9c}c"), "a0;title\nbc");
    }
}
