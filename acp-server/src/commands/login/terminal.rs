//! One line from a terminal that does not show it.
//!
//! The terminal delivers each byte as it is typed, Ctrl-C included, so that there is no way out of
//! here that leaves it mute.

use std::io::{self, Read as _, Stdin};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

const CTRL_C: u8 = 3;
const CTRL_D: u8 = 4;
const BACKSPACE: u8 = 8;
const DELETE: u8 = 127;

/// Shows what is typed again when it is dropped.
struct Muted<'a> {
    stdin: &'a Stdin,
    before: Termios,
}

impl Drop for Muted<'_> {
    fn drop(&mut self) {
        if let Err(error) = tcsetattr(self.stdin, OptionalActions::Flush, &self.before) {
            tracing::error!(%error, "the terminal stays mute; `stty sane` mends it");
        }
    }
}

/// Reads a line of at most `limit` bytes; `None` when the person presses Ctrl-C, or Ctrl-D on an
/// empty line.
///
/// # Errors
/// When the terminal cannot be read or set, when the line is too long or no text.
pub(super) fn read_hidden_line(stdin: &Stdin, limit: u64) -> io::Result<Option<String>> {
    let before = tcgetattr(stdin)?;
    let mut muted = before.clone();
    muted.local_modes -= LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
    let _guard = Muted { stdin, before };
    tcsetattr(stdin, OptionalActions::Flush, &muted)?;
    let mut line = Vec::new();
    for byte in stdin.lock().bytes() {
        match byte? {
            b'\n' | b'\r' => return text(line).map(Some),
            CTRL_C => return Ok(None),
            CTRL_D if line.is_empty() => return Ok(None),
            CTRL_D => return text(line).map(Some),
            BACKSPACE | DELETE => drop(line.pop()),
            _ if line.len() as u64 >= limit => {
                return Err(io::Error::other("the line is too long"));
            }
            byte => line.push(byte),
        }
    }
    text(line).map(Some)
}

fn text(line: Vec<u8>) -> io::Result<String> {
    String::from_utf8(line).map_err(|_| io::Error::other("the line is not UTF-8"))
}
