//! `read`: numbered lines of a text file.

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{ContentHash, Line, LineLimits, LineWindow, Lines};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::num::NonZeroU32;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::Target;

/// With their numbers and the notes, so many lines are read whole: below
/// [`bridle_agent::RESULT_LIMIT`].
const LIMITS: LineLimits = LineLimits { lines: 2_000, bytes: 48 * 1024, line_bytes: 4 * 1024 };

const DESCRIPTION: &str = "\
Reads a text file as numbered lines. Each line is shown as its number, a tab and its text; \
the number and the tab are not part of the file. At most 2,000 lines or 48 KiB are returned; a \
note then says with which start_line to go on.";

/// Arguments of `read`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// The first line to read, from 1. Without it: the first line of the file.
    start_line: Option<NonZeroU32>,
    /// The last line to read, inclusive. Without it: as far as the limits allow.
    end_line: Option<NonZeroU32>,
}

impl Arguments for ReadArguments {
    const TOOL: &'static str = "read";
}

impl FileArguments for ReadArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Read";
    const KIND: ToolKind = ToolKind::Read;

    type Value = Window;

    fn render(window: &Window) -> String {
        if window.total_lines == 0 {
            return format!("{} is empty.", window.path);
        }
        let mut text = String::new();
        for (number, line) in (window.start_line..).zip(&window.lines) {
            text.push_str(&format!("{number:>6}\t{line}\n"));
        }
        for note in &window.notes {
            text.push_str(&format!("[{note}]\n"));
        }
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let first = self.start_line.map_or(1, NonZeroU32::get);
        let last = self.end_line.map(NonZeroU32::get);
        if let Some(last) = last.filter(|last| *last < first) {
            return Err(ToolFailure::bad_arguments(format!(
                "end_line {last} is before start_line {first}. Nothing was read."
            )));
        }
        let target = Target::resolve(world, &self.path)?;
        Ok(Box::new(PlannedRead { target, first, last }))
    }
}

/// Lines of a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Window {
    /// The file, relative to the working directory where it lies below it.
    path: String,
    /// The first line, from 1.
    start_line: u64,
    lines: Vec<String>,
    total_lines: u64,
    total_is_exact: bool,
    /// The hash of the whole content, where all of it was gone through.
    version: Option<String>,
    /// What the lines do not show.
    notes: Vec<String>,
}

struct PlannedRead {
    target: Target,
    first: u32,
    last: Option<u32>,
}

impl FileCall<Window> for PlannedRead {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        let mut display = self.target.display("Read", ToolKind::Read, Some(self.first));
        match self.last {
            Some(last) => display.title.push_str(&format!(" (lines {}-{last})", self.first)),
            None if self.first > 1 => {
                display.title.push_str(&format!(" (from line {})", self.first));
            }
            None => {}
        }
        display
    }

    fn shown(&self, window: &Window) -> Option<String> {
        let (first, count) = (window.start_line, window.lines.len() as u64);
        Some(match window.total_lines {
            0 => "The file is empty.".to_owned(),
            total => {
                let at_least = at_least(!window.total_is_exact);
                format!("Lines {first}-{} of {at_least}{total}.", first + count - 1)
            }
        })
    }

    fn changes(&self, window: &Window) -> Vec<SessionChange> {
        let hash = window.version.as_deref().and_then(ContentHash::from_hex);
        hash.map(|hash| self.target.seen(Some(hash))).into_iter().collect()
    }

    fn run(&self, token: &CancellationToken) -> Result<Window, ToolFailure> {
        let (first, last) = (u64::from(self.first), self.last.map(u64::from));
        let cancelled = || token.is_cancelled();
        let window = LineWindow { first, last, limits: LIMITS };
        let read = self.target.files().read_lines(&self.target.path, &window, &cancelled);
        let lines = read.map_err(|error| self.target.failure(&error))?.map_err(|why| {
            ToolFailure::failed(format!("{} cannot be read: {why}.", self.target.shown))
        })?;
        if cancelled() {
            return Err(ToolFailure::aborted("The read was cancelled."));
        }
        if lines.lines.is_empty() && lines.total > 0 {
            return Err(ToolFailure::failed(self.beyond_the_end(&lines)));
        }
        Ok(Window {
            path: self.target.shown.clone(),
            start_line: first,
            lines: lines.lines.iter().map(line).collect(),
            total_lines: lines.total,
            total_is_exact: !lines.more,
            version: lines.hash.map(ContentHash::to_hex),
            notes: self.notes(&lines),
        })
    }
}

impl PlannedRead {
    fn notes(&self, lines: &Lines) -> Vec<String> {
        let mut notes = Vec::new();
        let end = u64::from(self.first) + lines.lines.len() as u64;
        let wanted = self.last.map_or(lines.total, |last| lines.total.min(u64::from(last)));
        if end <= wanted && lines.total > 0 {
            notes.push(format!(
                "Cut at the size limit. The file has {}{} lines; go on with start_line {end}.",
                at_least(lines.more),
                lines.total
            ));
        }
        if lines.crlf {
            let note = "Lines end with CR LF; `edit` matches them as if they ended with LF.";
            notes.push(note.to_owned());
        }
        if let Some(encoding) = lines.encoding {
            notes.push(format!("Encoded as {encoding}; `edit` and `write` keep that."));
        }
        if lines.lossy {
            notes.push("Some bytes are not UTF-8 and are shown as U+FFFD.".to_owned());
        }
        notes
    }

    fn beyond_the_end(&self, lines: &Lines) -> String {
        let (shown, total) = (&self.target.shown, lines.total);
        if lines.more {
            return format!("{shown}: line {} is too far into the file to be read.", self.first);
        }
        format!("{shown} has {total} lines; line {} is beyond its end.", self.first)
    }
}

fn line(line: &Line) -> String {
    match line.omitted {
        0 => line.text.clone(),
        omitted => format!("{} [{omitted} more bytes of this line]", line.text),
    }
}

fn at_least(more: bool) -> &'static str {
    if more { "at least " } else { "" }
}

#[cfg(test)]
mod tests {
    use bridle_agent::Access;
    use expect_test::expect;
    use serde_json::json;

    use crate::testing::Workspace;

    #[tokio::test]
    async fn numbered_lines_and_windows() {
        let ws = Workspace::new(&[("f", "\u{feff}one\r\ntwo\nthree"), ("empty", "")]);
        let text = ws.text("read", json!({ "path": "f" })).await;
        expect![[r#"
                 1	one
                 2	two
                 3	three
            [Lines end with CR LF; `edit` matches them as if they ended with LF.]
        "#]]
        .assert_eq(&text);
        let text = ws.text("read", json!({ "path": "f", "start_line": 2, "end_line": 2 })).await;
        assert_eq!(text, "     2\ttwo\n");
        assert_eq!(ws.text("read", json!({ "path": "empty" })).await, "empty is empty.");
        let outcome = ws.run("read", json!({ "path": "f", "start_line": 2 })).await.unwrap();
        assert_eq!(outcome.display.title, "Read f (from line 2)");
        assert_eq!(outcome.display.locations[0].path, ws.path("f"));
        assert_eq!(outcome.display.locations[0].line, Some(2));
    }

    #[tokio::test]
    async fn long_files_say_where_to_go_on() {
        let ws = Workspace::new(&[("lines", &"x\n".repeat(3_000)), ("wide", &"ä".repeat(50_000))]);
        let text = ws.text("read", json!({ "path": "lines" })).await;
        assert!(text.ends_with(
            "[Cut at the size limit. The file has 3000 lines; go on with start_line 2001.]\n"
        ));
        let text = ws.text("read", json!({ "path": "lines", "start_line": 2001 })).await;
        assert!(text.ends_with("  3000\tx\n"));
        let text = ws.text("read", json!({ "path": "wide" })).await;
        assert!(text.ends_with(" [95904 more bytes of this line]\n") && text.len() < 5_000);
    }

    #[tokio::test]
    async fn the_longest_reads_are_read_whole() {
        let short = "x".repeat(23) + "\n";
        let long = "x".repeat(5_000) + "\r\n";
        let ws = Workspace::new(&[("short", &short.repeat(3_000)), ("long", &long.repeat(30))]);
        for (path, least) in [("short", 60 * 1024), ("long", 44 * 1024)] {
            let text = ws.text("read", json!({ "path": path })).await;
            assert!((least..bridle_agent::RESULT_LIMIT).contains(&text.len()), "{}", text.len());
        }
    }

    #[tokio::test]
    async fn what_cannot_be_read_is_said() {
        let ws = Workspace::new(&[("config.toml", "x"), ("folder/x", ""), ("binary", "\0")]);
        ws.fifo("fifo");
        let sparse = fs_err::File::create(ws.path("sparse")).unwrap();
        sparse.set_len(20_000_000_000).unwrap();
        let error = async |path| ws.error("read", json!({ "path": path })).await;
        expect!["/base/ws/confg.toml does not exist. There is `config.toml`."]
            .assert_eq(&error("confg.toml").await);
        expect!["/base/ws/folder is a folder. Use `list` to see what is in it."]
            .assert_eq(&error("folder").await);
        expect!["binary cannot be read: it is a binary file."].assert_eq(&error("binary").await);
        expect!["sparse cannot be read: it is a binary file."].assert_eq(&error("sparse").await);
        expect!["/base/ws/fifo is a FIFO, not a regular file."].assert_eq(&error("fifo").await);
        expect!["/dev/zero is a device, not a regular file."].assert_eq(&error("/dev/zero").await);
        let error = ws.error("read", json!({ "path": "config.toml", "start_line": 9 })).await;
        expect!["config.toml has 1 lines; line 9 is beyond its end."].assert_eq(&error);
        let error = ws.error("read", json!({ "path": "f", "start_line": 3, "end_line": 2 })).await;
        expect!["end_line 2 is before start_line 3. Nothing was read."].assert_eq(&error);
    }

    #[tokio::test]
    async fn reading_outside_asks_as_such() {
        let ws = Workspace::new(&[]);
        let access = ws.access("read", json!({ "path": "../outside/f" })).await;
        assert_eq!(access, [Access::ReadOutside(ws.base.join("outside/f"))]);
        let access = ws.access("read", json!({ "path": "f" })).await;
        assert_eq!(access, [Access::ReadInside(ws.path("f"))]);
    }
}
