//! `read`: numbered lines of a text file, the cells of a notebook, or an image.

mod image;
mod notebook;

use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{Display, SessionChange, Tool, ToolFailure, ToolKind};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_session::Content;
use bridle_store::BlobStore;
use bridle_world::Roots;
use bridle_world::files::{ContentHash, Files, Line, LineLimits, LineWindow, Lines, NotText};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld, tool};
use crate::target::Target;
use image::Image;

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

impl ReadArguments {
    /// A read of a file, or of its lines from the one to the other, from 1 and inclusive.
    pub(crate) fn of(path: String, first: Option<NonZeroU32>, last: Option<NonZeroU32>) -> Self {
        Self { path, start_line: first, end_line: last, raw: None }
    }
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
            Err(NotText::Binary) => return Image::of(&self.target).map(Seen::Image),
            Err(why) => return Err(cannot(&self.target, &why)),
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
            notes.push(NOT_UTF_8.to_owned());
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

/// The note to a text in which marks stand for bytes.
pub(crate) const NOT_UTF_8: &str = "Some bytes are not UTF-8 and are shown as U+FFFD.";

fn cannot(target: &Target, why: &impl std::fmt::Display) -> ToolFailure {
    ToolFailure::failed(format!("{} cannot be read: {why}.", target.shown))
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
mod tests;
