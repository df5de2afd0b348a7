//! How a shell on a terminal says that it is at its prompt, and how a command is typed to it.
//!
//! The prompt is a mark that holds a secret of the shell's own, so no output of a command passes for
//! one. The mark is an operating system command, which a terminal does not show. No command can take it
//! away, or nobody would know any more when one has ended.

/// The most bytes of a line that is typed: a terminal takes lines of up to 4095.
pub(super) const LINE_LIMIT: usize = 4_000;

/// The most bytes of a command. More belongs into a file.
pub(super) const COMMAND_LIMIT: usize = 32 * 1024;

/// The most digits of an exit code in a mark.
const CODE_DIGITS: usize = 3;

/// The first line that a shell reads: no prompt but the mark, and nothing of a person's.
pub(super) fn first_line(nonce: &str) -> Vec<u8> {
    let mark = format!("printf \"\\033]7797;{nonce};%d\\007\" \"$?\"");
    let line = format!(
        "PS1= PS2=; readonly PROMPT_COMMAND='builtin {mark}'; unset HISTFILE MAILCHECK TMOUT; \
         set +o history +H\n"
    );
    line.into_bytes()
}

/// A command as one list for the shell, whatever lines it has: it is read whole before any of it
/// runs, and one prompt comes behind it. Control characters would be keys, so they are quoted.
pub(super) fn typed(command: &str) -> Vec<u8> {
    let mut lines = b"eval ".to_vec();
    for piece in quoted(command) {
        lines.extend(b"$'");
        lines.extend(piece);
        // The shell goes on reading behind a line end that is quoted like this.
        lines.extend(b"'\\\n");
    }
    lines.push(b'\n');
    lines
}

/// The command in quotes of the kind `$'…'`, in pieces that each fit on a line.
fn quoted(command: &str) -> Vec<Vec<u8>> {
    let mut pieces = vec![Vec::new()];
    for character in command.chars() {
        let mut buffer = [0; 4];
        let quoted = match character {
            '\\' => "\\\\".to_owned(),
            '\'' => "\\'".to_owned(),
            '\n' => "\\n".to_owned(),
            control if control.is_ascii_control() => format!("\\x{:02x}", u32::from(control)),
            other => other.encode_utf8(&mut buffer).to_owned(),
        };
        match pieces.last_mut() {
            Some(piece) if piece.len() + quoted.len() < LINE_LIMIT => piece.extend(quoted.bytes()),
            _ => pieces.push(quoted.into_bytes()),
        }
    }
    pieces
}

/// What a terminal's output is made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Something that a program wrote.
    Output(Vec<u8>),
    /// The shell is at its prompt; the exit code of what ran last.
    Prompt(i32),
}

/// Finds the marks in what is read, however it is cut into reads.
pub(super) struct Scanner {
    mark: Vec<u8>,
    /// What may be the beginning of a mark.
    held: Vec<u8>,
}

impl Scanner {
    pub(super) fn new(nonce: &str) -> Self {
        Self { mark: format!("\x1b]7797;{nonce};").into_bytes(), held: Vec::new() }
    }

    /// Takes what was just read.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Vec<Piece> {
        self.held.extend_from_slice(bytes);
        let mut pieces = Vec::new();
        let mut output = Vec::new();
        loop {
            let start = self.next_start();
            output.extend(self.held.drain(..start));
            let Some(behind) = self.held.get(self.mark.len()..) else { break };
            let end = behind.iter().take(CODE_DIGITS + 1).position(|byte| *byte == 0x07);
            let code = end.and_then(|end| str::from_utf8(behind.get(..end)?).ok()?.parse().ok());
            match code {
                Some(code) => {
                    let whole = self.mark.len() + end.unwrap_or_default() + 1;
                    self.held.drain(..whole);
                    pieces.extend((!output.is_empty()).then(|| Piece::Output(output.split_off(0))));
                    pieces.push(Piece::Prompt(code));
                }
                None if behind.len() <= CODE_DIGITS => break,
                // Not a mark after all.
                None => output.extend(self.held.drain(..1)),
            }
        }
        pieces.extend((!output.is_empty()).then_some(Piece::Output(output)));
        pieces
    }

    /// Where a mark begins in what is held, or what may become one; its end when neither does.
    fn next_start(&self) -> usize {
        let begins = |start: usize| {
            let rest = self.held.get(start..).unwrap_or_default();
            rest.starts_with(&self.mark) || self.mark.starts_with(rest)
        };
        let bytes = self.held.iter().enumerate();
        let mut starts = bytes.filter(|(start, byte)| **byte == 0x1b && begins(*start));
        starts.next().map_or(self.held.len(), |(start, _)| start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &str = "5ec7e7";

    fn mark(code: &str) -> String {
        format!("\x1b]7797;{NONCE};{code}\x07")
    }

    /// The pieces of `text` when it is read `size` bytes at a time, output joined.
    fn scanned(text: &str, size: usize) -> Vec<Piece> {
        let mut scanner = Scanner::new(NONCE);
        let mut all: Vec<Piece> = Vec::new();
        for piece in text.as_bytes().chunks(size).flat_map(|bytes| scanner.take(bytes)) {
            match (all.last_mut(), piece) {
                (Some(Piece::Output(output)), Piece::Output(more)) => output.extend(more),
                (_, piece) => all.push(piece),
            }
        }
        all
    }

    #[test]
    fn marks_are_found_however_the_output_is_cut() {
        let output = |text: &str| Piece::Output(text.as_bytes().to_vec());
        let no_marks =
            format!("\x1b[31m\x1b]7797;other;0\x07\x1b]7797;{NONCE};1234\x07{}x", mark("x"));
        let text =
            format!("a{}{no_marks}{}b\x1b{}{}", mark("0"), mark("130"), mark("1"), mark("7"));
        for size in 1..text.len() {
            let expected = [
                output("a"),
                Piece::Prompt(0),
                output(&no_marks),
                Piece::Prompt(130),
                output("b\x1b"),
                Piece::Prompt(1),
                Piece::Prompt(7),
            ];
            assert_eq!(scanned(&text, size), expected, "reads of {size} bytes");
        }
    }

    #[test]
    fn a_command_is_typed_without_keys_and_in_lines_that_fit() {
        let typed_text = |command: &str| String::from_utf8(typed(command)).unwrap();
        assert_eq!(typed_text("a 'b'\n\\c\u{3}é"), "eval $'a \\'b\\'\\n\\\\c\\x03é'\\\n\n");
        let long = typed_text(&"x'é\u{1}".repeat(5_000));
        assert!(long.lines().count() > 10);
        assert!(long.lines().all(|line| line.len() <= LINE_LIMIT + "eval $''\\".len()));
    }
}
