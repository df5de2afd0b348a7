//! `edit`: exact replacements in one file, all or nothing.

mod matching;
mod nearest;
mod view;

#[cfg(fuzzing)]
pub use matching::fuzz_edit;

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{ContentHash, Text, Version};
use bytes::Bytes;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::diff::Change;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::read::is_notebook;
use crate::target::{Target, fenced, plan_failed};
use matching::{Problem, Replacement, apply};
use nearest::nearest_regions;
pub(crate) use view::{Step, sought};

/// The largest file (bytes) that is edited or replaced.
pub(crate) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

const DESCRIPTION: &str = "\
Replaces exact texts in one file that was read before. Every old_text must occur exactly once in the file as it is now \
(add surrounding lines to make it unique), unless replace_all is set. All edits are applied \
together or none is. Line ends of the file are kept; LF in old_text and new_text stands for them. \
An old_text that is not there is looked for again without regard to white space at the ends of \
lines, then with typographic quotes, dashes and spaces taken for plain ones.";

/// Arguments of `edit`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EditArguments {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// The replacements; they must not overlap.
    edits: Vec<EditArgument>,
}

/// One replacement.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArgument {
    /// The text to replace, exactly as in the file, without the line numbers of `read`.
    old_text: String,
    /// The text to put there.
    new_text: String,
    /// Replace every occurrence of old_text. Without it: exactly one.
    replace_all: Option<bool>,
}

impl Arguments for EditArguments {
    const TOOL: &'static str = "edit";
}

impl FileArguments for EditArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Edit";
    const KIND: ToolKind = ToolKind::Edit;

    type Value = Edited;

    fn render(edited: &Edited) -> String {
        let plural = if edited.replacements == 1 { "" } else { "s" };
        let mut text =
            format!("Edited {}: {} replacement{plural}.\n", edited.path, edited.replacements);
        for note in &edited.loosely {
            text.push_str(&format!("{note}.\n"));
        }
        text.push_str(&fenced("diff", &edited.diff));
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        if self.edits.is_empty() {
            return Err(ToolFailure::bad_arguments("`edits` is empty. Nothing was done."));
        }
        let mut target = Target::resolve(world, &self.path)?;
        match prepare(&mut target, &self.edits) {
            Ok(planned) => Ok(Box::new(planned)),
            Err(failure) => plan_failed::<Self>(target, failure),
        }
    }
}

fn prepare(target: &mut Target, edits: &[EditArgument]) -> Result<PlannedEdit, ToolFailure> {
    let snapshot = target.read_for_change(MAX_FILE_BYTES).map_err(|e| target.failure(&e))?;
    target.require_seen(&snapshot)?;
    let text = Text::parse(&snapshot.bytes)
        .map_err(|why| ToolFailure::failed(format!("{} cannot be edited: {why}.", target.shown)))?;
    let replacements: Vec<Replacement<'_>> = edits
        .iter()
        .map(|edit| Replacement {
            old_text: &edit.old_text,
            new_text: &edit.new_text,
            all: edit.replace_all.unwrap_or_default(),
        })
        .collect();
    let applied = apply(&text.body, &replacements)
        .map_err(|problem| explain(&problem, target, &text.body, &replacements))?;
    Ok(PlannedEdit {
        change: Change::between(&target.path, &text.body, &applied.body),
        bytes: text.with_body(applied.body).map_err(|why| target.unencodable(&why))?,
        base: snapshot.bytes,
        version: snapshot.version,
        regions: applied.regions,
        steps: applied.steps,
        target: target.clone(),
    })
}

fn explain(
    problem: &Problem,
    target: &Target,
    body: &str,
    replacements: &[Replacement<'_>],
) -> ToolFailure {
    let name = |index: &usize| format!("edits[{index}]");
    let what = match problem {
        Problem::Empty(index) => {
            format!("{}: old_text is empty; use `write` to fill a file", name(index))
        }
        Problem::Same(index) => format!("{}: old_text and new_text are the same", name(index)),
        Problem::NotFound(index) => format!("{}: old_text is not in the file", name(index)),
        Problem::Ambiguous(index, lines) => {
            let lines: Vec<String> = lines.iter().map(usize::to_string).collect();
            format!(
                "{}: old_text is there more than once (at lines {}); add surrounding lines to \
                 make it unique, or set replace_all",
                name(index),
                lines.join(", ")
            )
        }
        Problem::Overlap(a, b) => {
            format!("{} and {} overlap; make one edit of them", name(a), name(b))
        }
        Problem::NoChange => "the edits together change nothing".to_owned(),
    };
    let mut message = format!("{}: {what}. The file is unchanged.", target.shown);
    if let Problem::NotFound(index) = problem {
        if is_notebook(&target.path) {
            message.push_str(" It is the JSON text of a notebook; see it with `read` and raw.");
        }
        let wanted = replacements.get(*index).map_or("", |replacement| replacement.old_text);
        let near = nearest_regions(body, wanted);
        message.push_str(&match near.as_str() {
            "" => " Nothing in it is similar; read it first.".to_owned(),
            near => format!(" The most similar places:\n{near}"),
        });
    }
    ToolFailure::failed(message)
}

/// What became of a file.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Edited {
    /// The file, relative to the working directory where it lies below it.
    path: String,
    replacements: usize,
    /// What was matched otherwise than exactly, and how: one line each.
    loosely: Vec<String>,
    /// The change as a unified diff.
    diff: String,
    /// What the file holds now.
    #[serde(skip)]
    hash: Option<ContentHash>,
}

struct PlannedEdit {
    target: Target,
    version: Version,
    base: Bytes,
    bytes: Vec<u8>,
    change: Change,
    regions: usize,
    steps: Vec<Step>,
}

impl FileCall<Edited> for PlannedEdit {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        self.target.display_change("Edit", ToolKind::Edit, &self.change)
    }

    fn changes(&self, edited: &Edited) -> Vec<SessionChange> {
        vec![self.target.seen(edited.hash)]
    }

    fn run(&self, _: &CancellationToken) -> Result<Edited, ToolFailure> {
        let hash = self.target.write(&self.version, &self.base, &self.bytes)?;
        Ok(Edited {
            path: self.target.shown.clone(),
            replacements: self.regions,
            loosely: self.loosely(),
            diff: self.change.unified.clone(),
            hash: Some(hash),
        })
    }
}

impl PlannedEdit {
    fn loosely(&self) -> Vec<String> {
        let loose = self.steps.iter().enumerate().filter(|(_, step)| **step > Step::Exact);
        loose.map(|(index, step)| format!("edits[{index}] matched {}", step.note())).collect()
    }
}

#[cfg(test)]
mod tests;
