//! The output of a running command as a stream of whole lines, for who keeps what was shown.

use std::time::Duration;

use bridle_agent::Confinement;
use bridle_world::process::{Capture, Finished};

use super::clean::clean;
use super::report::end;

/// A line that is longer goes out in parts.
const MAX_LINE: usize = 4 * 1024;

/// How far an output has been shown.
#[derive(Debug, Default)]
pub(super) struct Stream {
    seen: u64,
    /// The line that is being written.
    begun: String,
}

impl Stream {
    /// The lines that were completed since the last call.
    pub(super) fn lines(&mut self, output: &Capture) -> String {
        let since = output.since(self.seen);
        self.seen = since.next;
        let mut lines = String::new();
        if since.omitted > 0 {
            lines = format!("{}\n[... {} bytes omitted ...]\n", clean(&self.begun), since.omitted);
            self.begun.clear();
        }
        self.begun.push_str(&since.text);
        let whole = match self.begun.rfind('\n') {
            _ if self.begun.len() > MAX_LINE => self.begun.len(),
            Some(at) => at + 1,
            None => 0,
        };
        let rest = self.begun.split_off(whole);
        lines + &clean(&std::mem::replace(&mut self.begun, rest))
    }

    /// What is left when the command is over, and how it ended.
    pub(super) fn rest(
        mut self,
        finished: &Finished,
        timeout: Duration,
        granted: Confinement,
    ) -> String {
        let mut lines = self.lines(&finished.output) + &clean(&self.begun);
        if !lines.is_empty() && !lines.ends_with('\n') {
            lines.push('\n');
        }
        let end = end(finished, Some(timeout), granted);
        lines + &end.iter().map(|fact| format!("[{fact}]\n")).collect::<String>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_are_shown_and_none_twice() {
        let mut stream = Stream::default();
        let mut output = Capture::default();
        output.push(b"one\ntw");
        assert_eq!(stream.lines(&output), "one\n");
        output.push(b"o \x1b[31mred\x1b[0m\nthree");
        assert_eq!(stream.lines(&output), "two red\n");
        assert_eq!(stream.lines(&output), "");
        output.push("é".repeat(3_000).as_bytes());
        assert_eq!(stream.lines(&output), format!("three{}", "é".repeat(3_000)));
    }

    #[test]
    fn what_is_not_kept_is_said() {
        let mut stream = Stream::default();
        let mut output = Capture::default();
        output.push(b"begun");
        assert_eq!(stream.lines(&output), "");
        (0..20_000).for_each(|number| output.push(format!("line {number}\n").as_bytes()));
        let lines = stream.lines(&output);
        assert!(lines.starts_with("begun\n[... ") && lines.ends_with("line 19999\n"));
        assert!(lines.contains(" bytes omitted ...]\nline "));
    }
}
