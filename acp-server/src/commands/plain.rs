//! Text from a model, a tool or a file name, made safe for a terminal.

/// Shows what would steer a terminal or reorder its text instead of sending it: control
/// characters (except line end and tab), bidirectional marks and zero-width characters.
pub(super) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c)) {
            out.push(c);
        } else {
            out.extend(c.escape_unicode());
        }
    }
    out
}

/// As [`plain`], on one line.
pub(super) fn plain_line(text: &str) -> String {
    plain(text).replace(['\n', '\t'], " ")
}

fn is_invisible(c: char) -> bool {
    matches!(
        c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_the_terminal() {
        assert_eq!(plain("a\u{1b}[2Jb\r\n\tc\u{202e}d"), "a\\u{1b}[2Jb\\u{d}\n\tc\\u{202e}d");
        assert_eq!(plain_line("rm\n-rf ä"), "rm -rf ä");
    }
}
