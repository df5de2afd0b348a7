//! Program output as plain text: no escape sequences, no progress bar's history.

use vte::{Parser, Perform};

/// What a terminal would have left standing of `output`, line by line: escape sequences and
/// control characters are gone, a carriage return starts the line again, a backspace takes a
/// character back. Cursor movement between lines is not followed.
pub(crate) fn clean(output: &str) -> String {
    let mut page = Page::default();
    Parser::new().advance(&mut page, output.as_bytes());
    page.text
}

#[derive(Default)]
struct Page {
    text: String,
    /// Where the current line begins in `text`, in bytes.
    line: usize,
    /// The cursor went back to the start of the line: what comes next replaces it.
    returned: bool,
}

impl Perform for Page {
    fn print(&mut self, character: char) {
        if std::mem::take(&mut self.returned) {
            self.text.truncate(self.line);
        }
        self.text.push(character);
    }

    fn execute(&mut self, byte: u8) {
        match byte {
            b'\n' => {
                self.returned = false;
                self.text.push('\n');
                self.line = self.text.len();
            }
            b'\r' => self.returned = true,
            b'\t' => self.print('\t'),
            // Backspace.
            0x08 if self.text.len() > self.line => drop(self.text.pop()),
            _ => {}
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
    fn a_sequence_that_was_cut_off_swallows_nothing_more_than_itself() {
        assert_eq!(clean("kept\u{1b}[3"), "kept");
        assert_eq!(clean("1mkept"), "1mkept");
    }
}
