//! `write`: a new file, or new content for a whole file.

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{ContentHash, FileError, Text, Version};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::diff::Change;
use crate::edit::MAX_FILE_BYTES;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, fenced, plan_failed};

const DESCRIPTION: &str = "\
Creates a text file with this content, and the folders above it, or replaces the whole content of \
an existing text file that was read before. To change parts of a file use edit.";

/// Arguments of `write`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WriteArguments {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// The whole content, written as it is; only where every line of the replaced file ends with
    /// CR LF, LF becomes CR LF.
    content: String,
}

impl Arguments for WriteArguments {
    const TOOL: &'static str = "write";
}

impl FileArguments for WriteArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Write";
    const KIND: ToolKind = ToolKind::Edit;

    type Value = Written;

    fn render(Written { path, effect, bytes, diff, line_ends, .. }: &Written) -> String {
        let mut text = match effect {
            Effect::Created => format!("Created {path} ({bytes} bytes).\n"),
            Effect::Replaced => format!("Replaced {path}.\n{}\n", fenced("diff", diff)),
            Effect::None => {
                format!("{path} already has exactly this content; nothing was written.\n")
            }
        };
        text.push_str(match line_ends {
            LineEnds::AsGiven => "",
            LineEnds::Kept => {
                "The file keeps its CR LF line ends; LF in the content became CR LF.\n"
            }
            LineEnds::Lost => {
                "Some lines of the file ended with CR LF; the new ones end with LF.\n"
            }
        });
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let Self { path, content } = self;
        if path.ends_with('/') {
            return Err(ToolFailure::bad_arguments(format!(
                "`path` names a folder ({path}); `write` makes files, and the folders they need."
            )));
        }
        let mut target = Target::resolve(world, &path)?;
        match prepare(&mut target, content) {
            Ok(planned) => Ok(Box::new(planned)),
            Err(failure) => plan_failed::<Self>(target, failure),
        }
    }
}

fn prepare(target: &mut Target, content: String) -> Result<PlannedWrite, ToolFailure> {
    let snapshot = match target.read_for_change(MAX_FILE_BYTES) {
        Ok(snapshot) => snapshot,
        Err(FileError::NotFound(_)) => return prepare_new(target, content),
        Err(error) => return Err(target.failure(&error)),
    };
    target.require_seen(&snapshot)?;
    let old = Text::parse(&snapshot.bytes).map_err(|why| {
        ToolFailure::failed(format!(
            "{} cannot be replaced: {why}. Remove it first if it really has to go.",
            target.shown
        ))
    })?;
    // The file keeps its mark, and does not get a second one.
    let unmarked = content.strip_prefix('\u{feff}').filter(|_| !old.mark.is_empty());
    let body = unmarked.unwrap_or(&content);
    let line_ends = LineEnds::between(&old.body, body);
    let body = match line_ends {
        LineEnds::Kept => body.replace('\n', "\r\n"),
        _ => body.to_owned(),
    };
    Ok(PlannedWrite {
        change: Change::between(&target.path, &old.body, &body),
        effect: if old.body == body { Effect::None } else { Effect::Replaced },
        bytes: old.with_body(body).map_err(|why| target.unencodable(&why))?,
        base: snapshot.bytes,
        version: snapshot.version,
        line_ends,
        target: target.clone(),
    })
}

fn prepare_new(target: &Target, content: String) -> Result<PlannedWrite, ToolFailure> {
    let anchor = target.files().anchor(&target.path).map_err(|error| target.failure(&error))?;
    Ok(PlannedWrite {
        change: Change::creation(&target.path, &content),
        base: Bytes::new(),
        version: anchor,
        effect: Effect::Created,
        line_ends: LineEnds::AsGiven,
        bytes: content.into_bytes(),
        target: target.clone(),
    })
}

/// What became of a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Written {
    /// The file, relative to the working directory where it lies below it.
    path: String,
    effect: Effect,
    /// How many bytes it has now.
    bytes: usize,
    /// What was replaced as a unified diff; empty for a new file.
    diff: String,
    line_ends: LineEnds,
    /// What the file holds now.
    #[serde(skip)]
    hash: Option<ContentHash>,
}

struct PlannedWrite {
    target: Target,
    version: Version,
    base: Bytes,
    effect: Effect,
    bytes: Vec<u8>,
    change: Change,
    line_ends: LineEnds,
}

/// What becomes of the line ends of a file that is replaced.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum LineEnds {
    /// They are those of the content.
    AsGiven,
    /// The file's CR LF is kept for content that has only LF.
    Kept,
    /// The file had CR LF in some lines only, and the content has none.
    Lost,
}

impl LineEnds {
    fn between(old: &str, new: &str) -> Self {
        let crlf = old.matches("\r\n").count();
        if crlf == 0 || new.contains('\r') || !new.contains('\n') {
            Self::AsGiven
        } else if crlf == old.matches('\n').count() {
            Self::Kept
        } else {
            Self::Lost
        }
    }
}

/// What the call does to the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Effect {
    Created,
    Replaced,
    /// The file has the content already.
    None,
}

impl FileCall<Written> for PlannedWrite {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        let verb = if self.effect == Effect::Created { "Create" } else { "Write" };
        self.target.display_change(verb, ToolKind::Edit, &self.change)
    }

    fn changes(&self, written: &Written) -> Vec<SessionChange> {
        vec![self.target.seen(written.hash)]
    }

    fn run(&self, _: &CancellationToken) -> Result<Written, ToolFailure> {
        let hash = match self.effect {
            Effect::None => ContentHash::of(&self.bytes),
            _ => self.target.write(&self.version, &self.base, &self.bytes)?,
        };
        let replaced = self.effect == Effect::Replaced;
        Ok(Written {
            path: self.target.shown.clone(),
            effect: self.effect,
            bytes: self.bytes.len(),
            diff: if replaced { self.change.unified.clone() } else { String::new() },
            line_ends: self.line_ends,
            hash: Some(hash),
        })
    }
}

#[cfg(test)]
mod tests;
