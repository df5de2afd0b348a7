//! `write`: a new file, or new content for a whole file.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::files::{self, Anchor, FileError, Text, Version};
use bridle_world::{Roots, path_text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::diff::Change;
use crate::edit::MAX_FILE_BYTES;
use crate::target::{Target, fenced, outline, plan_failed};

const DESCRIPTION: &str = "\
Creates a text file with this content, and the folders above it, or replaces the whole content of \
an existing text file. To change parts of a file use edit.";

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
    const SHAPE: &'static str = "{path, content}";
}

/// The tool.
pub(crate) struct Write {
    roots: Arc<Roots>,
    spec: ToolSpec,
}

impl Write {
    pub(crate) fn new(roots: Arc<Roots>) -> Self {
        Self { roots, spec: WriteArguments::spec(DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for Write {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: &str,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let WriteArguments { path, content } = WriteArguments::decode(arguments)?;
        if path.ends_with('/') {
            return Err(ToolFailure::bad_arguments(format!(
                "`path` names a folder ({path}); `write` makes files, and the folders they need."
            )));
        }
        let roots = self.roots.clone();
        blocking(move || {
            let mut target = Target::resolve(&roots, &path)?;
            match prepare(&mut target, content) {
                Ok(planned) => Ok(Box::new(planned) as Box<dyn PlannedCall>),
                Err(failure) => plan_failed(target, "Write", failure),
            }
        })
        .await
    }

    fn outline(&self, arguments: &str) -> Display {
        outline(&self.roots, arguments, "Write", "write", ToolKind::Edit)
    }
}

fn prepare(target: &mut Target, content: String) -> Result<PlannedWrite, ToolFailure> {
    let snapshot = match target.read_for_change(MAX_FILE_BYTES) {
        Ok(snapshot) => snapshot,
        Err(FileError::NotFound(_)) => return prepare_new(target, content),
        Err(error) => return Err(target.failure(&error)),
    };
    let old = Text::parse(&snapshot.bytes).map_err(|why| {
        ToolFailure::failed(format!(
            "{} cannot be replaced: {why}. Remove it first if it really has to go.",
            target.shown
        ))
    })?;
    // The file keeps its mark, and does not get a second one.
    let unmarked = content.strip_prefix('\u{feff}').filter(|_| !old.mark.is_empty());
    let body = unmarked.unwrap_or(&content);
    let line_ends = LineEnds::between(old.body, body);
    let body = match line_ends {
        LineEnds::Kept => Cow::Owned(body.replace('\n', "\r\n")),
        _ => Cow::Borrowed(body),
    };
    let body = body.as_ref();
    Ok(PlannedWrite {
        change: Change::between(&target.path, old.body, body),
        place: Place::Existing { version: snapshot.version, unchanged: old.body == body },
        line_ends,
        bytes: old.with_body(body),
        target: target.clone(),
    })
}

fn prepare_new(target: &Target, content: String) -> Result<PlannedWrite, ToolFailure> {
    let anchor = files::anchor(&target.path).map_err(|error| target.failure(&error))?;
    Ok(PlannedWrite {
        change: Change::creation(&target.path, &content),
        place: Place::New(anchor),
        line_ends: LineEnds::AsGiven,
        bytes: content.into_bytes(),
        target: target.clone(),
    })
}

struct PlannedWrite {
    target: Target,
    place: Place,
    bytes: Vec<u8>,
    change: Change,
    line_ends: LineEnds,
}

/// What becomes of the line ends of a file that is replaced.
#[derive(Clone, Copy)]
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

enum Place {
    New(Anchor),
    Existing { version: Version, unchanged: bool },
}

#[async_trait]
impl PlannedCall for PlannedWrite {
    fn display(&self) -> Display {
        let verb = match self.place {
            Place::New(_) => "Create",
            Place::Existing { .. } => "Write",
        };
        self.target.display_change(verb, &self.change)
    }

    fn access(&self) -> Vec<Access> {
        self.target.write_access()
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        if context.token.is_cancelled() {
            return Err(ToolFailure::aborted("The write was cancelled; nothing was written."));
        }
        blocking(move || self.write()).await
    }
}

impl PlannedWrite {
    fn write(&self) -> Result<ToolOutcome, ToolFailure> {
        let (path, shown, bytes) = (&self.target.path, &self.target.shown, &self.bytes);
        let (written, mut text) = match &self.place {
            Place::Existing { unchanged: true, .. } => (
                Ok(()),
                format!("{shown} already has exactly this content; nothing was written.\n"),
            ),
            Place::Existing { version, .. } => (
                files::replace(path, version, bytes).map(drop),
                format!("Replaced {shown}.\n{}\n", fenced("diff", &self.change.unified)),
            ),
            Place::New(anchor) => (
                files::create(path, anchor, bytes).map(drop),
                format!("Created {shown} ({} bytes).\n", bytes.len()),
            ),
        };
        written.map_err(|error| self.target.failure(&error))?;
        text.push_str(match self.line_ends {
            LineEnds::AsGiven => "",
            LineEnds::Kept => {
                "The file keeps its CR LF line ends; LF in the content became CR LF.\n"
            }
            LineEnds::Lost => {
                "Some lines of the file ended with CR LF; the new ones end with LF.\n"
            }
        });
        let created = matches!(self.place, Place::New(_));
        let value = json!({ "path": path_text(path), "created": created, "bytes": bytes.len() });
        Ok(ToolOutcome { value, content: vec![Content::text(text)], display: self.display() })
    }
}

#[cfg(test)]
mod tests;
