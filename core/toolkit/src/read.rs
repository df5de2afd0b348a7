//! `read`: numbered lines of a text file, the cells of a notebook, or an image.

mod image;
mod notebook;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{Display, SessionChange, Tool, ToolFailure, ToolKind};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_session::{BlobHash, BlobRef, Content};
use bridle_store::BlobStore;
use bridle_world::Roots;
use bridle_world::files::{
    ContentHash, FileError, Files, Line, LineLimits, LineWindow, Lines, NotText,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld, tool};
use crate::target::Target;

/// With their numbers and the notes, so many lines are read whole: below
/// [`bridle_agent::RESULT_LIMIT`].
const LIMITS: LineLimits = LineLimits { lines: 2_000, bytes: 48 * 1024, line_bytes: 4 * 1024 };

const DESCRIPTION: &str = "\
Reads a text file as numbered lines. Each line is shown as its number, a tab and its text; \
the number and the tab are not part of the file. At most 2,000 lines or 48 KiB are returned; a \
note then says with which start_line to go on. PNG, JPEG, GIF and WebP images are shown; a \
notebook (.ipynb) is shown as its cells.";

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
    /// Read a notebook as the JSON text that the file holds, which is what `edit` works on.
    raw: Option<bool>,
}

/// Puts the tool into the scope of a session.
pub(crate) struct ReadPlugin;

#[async_trait]
impl Plugin for ReadPlugin {
    const NAME: &'static str = ReadArguments::TOOL;
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>, Arc<dyn BlobStore>);

    async fn activate(
        &self,
        (): (),
        (roots, files, blobs): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let world = FileWorld { blobs: Some(blobs), ..FileWorld::new(roots, files) };
        let read: Arc<dyn Tool> = tool::<ReadArguments>(world);
        Ok(setup.add(Self::NAME, read)?)
    }
}

impl Arguments for ReadArguments {
    const TOOL: &'static str = "read";
}

impl FileArguments for ReadArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Read";
    const KIND: ToolKind = ToolKind::Read;

    type Value = Seen;

    fn render(seen: &Seen) -> String {
        let window = match seen {
            Seen::Lines(window) => window,
            Seen::Image(image) => return image.told(),
        };
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

    fn contents(seen: &Seen) -> Vec<Content> {
        let told = Content::text(Self::render(seen));
        let image = match seen {
            Seen::Image(image) => image.content(),
            Seen::Lines(_) => None,
        };
        std::iter::once(told).chain(image).collect()
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
        let as_cells = !self.raw.unwrap_or_default() && is_notebook(&target.path);
        Ok(Box::new(PlannedRead { target, first, last, as_cells }))
    }
}

/// Whether a path is that of a notebook, by its name.
pub(crate) fn is_notebook(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("ipynb"))
}

/// What there was to see.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(crate) enum Seen {
    Lines(Window),
    Image(Image),
}

/// An image, whose bytes are kept beside the log.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Image {
    /// The file, relative to the working directory where it lies below it.
    path: String,
    mime_type: String,
    /// In pixels.
    width: u32,
    height: u32,
    bytes: u64,
    /// The name of the kept bytes.
    blob: String,
    /// The hash of the content.
    version: String,
}

impl Image {
    fn told(&self) -> String {
        let Self { path, mime_type, width, height, bytes, .. } = self;
        format!("{path}: {mime_type}, {width} x {height} pixels, {bytes} bytes.\n")
    }

    fn content(&self) -> Option<Content> {
        let blob = BlobRef { hash: BlobHash::parse(&self.blob)?, bytes: self.bytes };
        Some(Content::Image { blob, mime_type: self.mime_type.clone() })
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
    as_cells: bool,
}

impl FileCall<Seen> for PlannedRead {
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

    fn shown(&self, seen: &Seen) -> Option<String> {
        let window = match seen {
            Seen::Lines(window) => window,
            Seen::Image(image) => return Some(image.told()),
        };
        let (first, count) = (window.start_line, window.lines.len() as u64);
        Some(match window.total_lines {
            0 => "The file is empty.".to_owned(),
            total => {
                let at_least = at_least(!window.total_is_exact);
                format!("Lines {first}-{} of {at_least}{total}.", first + count - 1)
            }
        })
    }

    fn changes(&self, seen: &Seen) -> Vec<SessionChange> {
        let version = match seen {
            Seen::Lines(window) => window.version.as_deref(),
            Seen::Image(image) => Some(image.version.as_str()),
        };
        let hash = version.and_then(ContentHash::from_hex);
        hash.map(|hash| self.target.seen(Some(hash))).into_iter().collect()
    }

    fn run(&self, token: &CancellationToken) -> Result<Seen, ToolFailure> {
        let cancelled = || token.is_cancelled();
        let read = match self.as_cells.then(|| self.cells()).flatten() {
            Some(cells) => Ok(cells),
            None => self.target.files().read_lines(&self.target.path, &self.window(), &cancelled),
        };
        let lines = match read.map_err(|error| self.target.failure(&error))? {
            Ok(lines) => lines,
            Err(NotText::Binary) => return self.image().map(Seen::Image),
            Err(why) => return Err(self.cannot(&why)),
        };
        if cancelled() {
            return Err(ToolFailure::aborted("The read was cancelled."));
        }
        if lines.lines.is_empty() && lines.total > 0 {
            return Err(ToolFailure::failed(self.beyond_the_end(&lines)));
        }
        Ok(Seen::Lines(Window {
            path: self.target.shown.clone(),
            start_line: u64::from(self.first),
            lines: lines.lines.iter().map(line).collect(),
            total_lines: lines.total,
            total_is_exact: !lines.more,
            version: lines.hash.map(ContentHash::to_hex),
            notes: self.notes(&lines),
        }))
    }
}

impl PlannedRead {
    fn window(&self) -> LineWindow {
        let (first, last) = (u64::from(self.first), self.last.map(u64::from));
        LineWindow { first, last, limits: LIMITS }
    }

    /// The lines of a notebook's cells; `None` for what is no notebook, which is then read as it is.
    fn cells(&self) -> Option<Result<Lines, NotText>> {
        let bytes = self.target.files().read(&self.target.path, notebook::MAX_BYTES).ok()?;
        let cells = notebook::cells(&bytes)?;
        let lines = Lines::read(cells.as_bytes(), &self.window(), &|| false).ok()?;
        let hash = Some(ContentHash::of(&bytes));
        Some(lines.map(|lines| Lines { hash, ..lines }))
    }

    fn image(&self) -> Result<Image, ToolFailure> {
        let target = &self.target;
        let bytes = match target.files().read(&target.path, image::MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(FileError::TooLarge { len, .. }) => {
                let most = image::MAX_BYTES;
                return Err(self.cannot(&format!(
                    "it is a binary file of {len} bytes; an image may have {most} at most"
                )));
            }
            Err(error) => return Err(target.failure(&error)),
        };
        let Some(head) = image::head(&bytes) else { return Err(self.cannot(&NotText::Binary)) };
        let image::Head { mime_type, width, height } = head;
        if width.max(height) > image::MAX_SIDE {
            return Err(self.cannot(&format!(
                "the image has {width} x {height} pixels; {} a side are the most",
                image::MAX_SIDE
            )));
        }
        let blobs = target.blobs().ok_or_else(|| self.cannot(&"there is no store for images"))?;
        let blob = blobs.put(&bytes).map_err(|error| self.cannot(&error))?;
        Ok(Image {
            path: target.shown.clone(),
            mime_type: mime_type.to_owned(),
            width,
            height,
            bytes: blob.bytes,
            blob: blob.hash.as_str().to_owned(),
            version: ContentHash::of(&bytes).to_hex(),
        })
    }

    fn cannot(&self, why: &impl std::fmt::Display) -> ToolFailure {
        ToolFailure::failed(format!("{} cannot be read: {why}.", self.target.shown))
    }

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
        if self.as_cells {
            let note =
                "The cells of a notebook. `edit` works on its JSON text; read that with raw.";
            notes.push(note.to_owned());
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
    use bridle_session::Content;
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
        expect!["sparse cannot be read: it is a binary file of 20000000000 bytes; an image may have 3750000 at most."].assert_eq(&error("sparse").await);
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

    #[tokio::test]
    async fn an_image_is_given_as_one_and_what_is_none_is_not() {
        let ws = Workspace::new(&[]);
        let png = |width: u32| {
            let head = &b"\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"[..];
            [head, &width.to_be_bytes(), &7_u32.to_be_bytes(), b"\x08\0\0\0"].concat()
        };
        ws.put("a.dat", png(300));
        let contents = ws.contents("read", json!({ "path": "a.dat" })).await;
        let [Content::Text { text }, Content::Image { blob, mime_type }] = contents.as_slice()
        else {
            panic!("{contents:?}")
        };
        assert_eq!(text, "a.dat: image/png, 300 x 7 pixels, 28 bytes.\n");
        assert_eq!((mime_type.as_str(), blob.bytes), ("image/png", 28));
        ws.put("wide.png", png(8_001));
        expect![
            "wide.png cannot be read: the image has 8001 x 7 pixels; 8000 a side are the most."
        ]
        .assert_eq(&ws.error("read", json!({ "path": "wide.png" })).await);
        ws.put("large.png", [png(300), vec![0; 4_000_000]].concat());
        expect!["large.png cannot be read: it is a binary file of 4000028 bytes; an image may have 3750000 at most."]
            .assert_eq(&ws.error("read", json!({ "path": "large.png" })).await);
        ws.put("none.png", "text");
        assert_eq!(ws.text("read", json!({ "path": "none.png" })).await, "     1\ttext\n");
    }

    #[tokio::test]
    async fn a_notebook_is_shown_as_cells() {
        let notebook = json!({ "cells": [
            { "cell_type": "markdown", "source": ["# Title\n", "text"] },
            { "cell_type": "code", "source": "1 + 1", "execution_count": 7, "outputs": [
                { "output_type": "stream", "text": vec!["line\n"; 30] },
                { "output_type": "execute_result", "data": { "text/plain": "2", "image/png": "x" } },
                { "output_type": "error", "ename": "ValueError", "evalue": "bad" },
            ] },
            { "cell_type": "code", "source": [], "execution_count": null, "outputs": [
                { "output_type": "stream", "text": "ä".repeat(5_000) },
            ] },
        ] });
        let ws = Workspace::new(&[("n.ipynb", &notebook.to_string()), ("broken.ipynb", "{\n")]);
        let text = ws.text("read", json!({ "path": "n.ipynb" })).await;
        let text = text.replace("\tline\n", "\t…\n").replace(&"ä".repeat(1_024), "(ä)");
        expect![[r#"
                 1	[cell 1: markdown]
                 2	# Title
                 3	text
                 4	
                 5	[cell 2: code, run 7]
                 6	1 + 1
                 7	[output]
                 8	…
                 9	…
                10	…
                11	…
                12	…
                13	…
                14	…
                15	…
                16	…
                17	…
                18	…
                19	…
                20	…
                21	…
                22	…
                23	…
                24	…
                25	…
                26	…
                27	…
                28	[50 more bytes of this output]
                29	[output]
                30	2
                31	[output as image/png, not shown]
                32	[error]
                33	ValueError: bad
                34	
                35	[cell 3: code]
                36	[output]
                37	(ä)
                38	[7952 more bytes of this output]
                39	
            [The cells of a notebook. `edit` works on its JSON text; read that with raw.]
        "#]]
        .assert_eq(&text);
        let second = json!({ "path": "n.ipynb", "start_line": 5, "end_line": 6 });
        assert!(ws.text("read", second).await.contains("1 + 1"));
        let raw = ws.text("read", json!({ "path": "n.ipynb", "raw": true })).await;
        assert!(raw.contains("\"cell_type\":\"markdown\""), "{raw}");
        let broken = ws.text("read", json!({ "path": "broken.ipynb" })).await;
        assert!(broken.starts_with("     1\t{\n"), "{broken}");
        // What was seen as cells may be edited as text.
        let edit = |old: &str| {
            let edits = json!([{ "old_text": old, "new_text": "1 + 2" }]);
            json!({ "path": "n.ipynb", "edits": edits })
        };
        let error = ws.error("edit", edit("# Title\ntext")).await;
        assert!(error.contains("see it with `read` and raw"), "{error}");
        ws.run("edit", edit("1 + 1")).await.unwrap();
    }
}
