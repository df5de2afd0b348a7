//! `read`: numbered lines of a text file.

use bridle_agent::{Display, ToolFailure, ToolKind, ToolOutcome};
use bridle_session::Content;
use bridle_world::files::{LineLimits, LineWindow, Lines};
use bridle_world::path_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use std::fmt::Write as _;
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
    const SHAPE: &'static str = "{path, start_line?, end_line?} with lines from 1";
}

impl FileArguments for ReadArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Read";
    const KIND: ToolKind = ToolKind::Read;

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall>, ToolFailure> {
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

struct PlannedRead {
    target: Target,
    first: u32,
    last: Option<u32>,
}

impl FileCall for PlannedRead {
    fn target(&self) -> &Target {
        &self.target
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

    fn run(&self, token: &CancellationToken) -> Result<ToolOutcome, ToolFailure> {
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
        let end = first + lines.lines.len() as u64;
        let text = if lines.total == 0 {
            format!("{} is empty.", self.target.shown)
        } else {
            self.render(&lines, end)
        };
        let mut display = self.display();
        display.text = Some(match lines.total {
            0 => "The file is empty.".to_owned(),
            total => format!("Lines {first}-{} of {}{total}.", end - 1, at_least(&lines)),
        });
        let value = json!({
            "path": path_text(&self.target.path), "start_line": first, "end_line": end - 1,
            "total_lines": lines.total, "total_is_exact": !lines.more,
        });
        Ok(ToolOutcome::new(value, vec![Content::text(text)], display))
    }
}

impl PlannedRead {
    fn render(&self, lines: &Lines, end: u64) -> String {
        let mut text = String::new();
        for (number, line) in (u64::from(self.first)..).zip(&lines.lines) {
            text.push_str(&format!("{number:>6}\t{}", line.text));
            if line.omitted > 0 {
                let _infallible = write!(text, " [{} more bytes of this line]", line.omitted);
            }
            text.push('\n');
        }
        let wanted = self.last.map_or(lines.total, |last| lines.total.min(u64::from(last)));
        if end <= wanted {
            let total = lines.total;
            text.push_str(&format!(
                "[Cut at the size limit. The file has {}{total} lines; go on with start_line {end}.]\n",
                at_least(lines),
            ));
        }
        if lines.crlf {
            text.push_str(
                "[Lines end with CR LF; `edit` matches them as if they ended with LF.]\n",
            );
        }
        if let Some(encoding) = lines.encoding {
            text.push_str(&format!("[Encoded as {encoding}; `edit` and `write` keep that.]\n"));
        }
        if lines.lossy {
            text.push_str("[Some bytes are not UTF-8 and are shown as U+FFFD.]\n");
        }
        text
    }

    fn beyond_the_end(&self, lines: &Lines) -> String {
        let (shown, total) = (&self.target.shown, lines.total);
        if lines.more {
            return format!("{shown}: line {} is too far into the file to be read.", self.first);
        }
        format!("{shown} has {total} lines; line {} is beyond its end.", self.first)
    }
}

fn at_least(lines: &Lines) -> &'static str {
    if lines.more { "at least " } else { "" }
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
        assert_eq!(access, [Access::ReadInside]);
    }
}
