//! `edit`: exact replacements in one file, all or nothing.

mod matching;
mod nearest;
mod view;

#[cfg(fuzzing)]
pub use matching::fuzz_edit;

use bridle_agent::{Display, ToolFailure, ToolKind, ToolOutcome};
use bridle_session::Content;
use bridle_world::files::{Text, Version};
use bridle_world::path_text;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::diff::Change;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, fenced, plan_failed};
use matching::{Problem, Replacement, apply};
use nearest::nearest_regions;
use view::Step;

/// The largest file (bytes) that is edited or replaced.
pub(crate) const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;

const DESCRIPTION: &str = "\
Replaces exact texts in one file. Every old_text must occur exactly once in the file as it is now \
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
    const SHAPE: &'static str = "{path, edits: [{old_text, new_text, replace_all?}]}";
}

impl FileArguments for EditArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Edit";
    const KIND: ToolKind = ToolKind::Edit;

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall>, ToolFailure> {
        if self.edits.is_empty() {
            return Err(ToolFailure::bad_arguments("`edits` is empty. Nothing was done."));
        }
        let mut target = Target::resolve(world, &self.path)?;
        match prepare(&mut target, &self.edits) {
            Ok(planned) => Ok(Box::new(planned)),
            Err(failure) => plan_failed(target, Self::VERB, failure),
        }
    }
}

fn prepare(target: &mut Target, edits: &[EditArgument]) -> Result<PlannedEdit, ToolFailure> {
    let snapshot = target.read_for_change(MAX_FILE_BYTES).map_err(|e| target.failure(&e))?;
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
        bytes: text.with_body(&applied.body).map_err(|why| target.unencodable(&why))?,
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
        let wanted = replacements.get(*index).map_or("", |replacement| replacement.old_text);
        let near = nearest_regions(body, wanted);
        message.push_str(&match near.as_str() {
            "" => " Nothing in it is similar; read it first.".to_owned(),
            near => format!(" The most similar places:\n{near}"),
        });
    }
    ToolFailure::failed(message)
}

struct PlannedEdit {
    target: Target,
    version: Version,
    bytes: Vec<u8>,
    change: Change,
    regions: usize,
    steps: Vec<Step>,
}

impl FileCall for PlannedEdit {
    fn target(&self) -> &Target {
        &self.target
    }

    fn display(&self) -> Display {
        self.target.display_change("Edit", &self.change)
    }

    fn run(&self, _: &CancellationToken) -> Result<ToolOutcome, ToolFailure> {
        self.target.write(&self.version, &self.bytes)?;
        let plural = if self.regions == 1 { "" } else { "s" };
        let mut text =
            format!("Edited {}: {} replacement{plural}.\n", self.target.shown, self.regions);
        for (index, step) in self.steps.iter().enumerate().filter(|(_, s)| **s > Step::Exact) {
            text.push_str(&format!("edits[{index}] matched {}.\n", step.note()));
        }
        text.push_str(&fenced("diff", &self.change.unified));
        let value = json!({
            "path": path_text(&self.target.path), "replacements": self.regions,
            "matched": self.steps.iter().map(|step| step.name()).collect::<Vec<_>>(),
        });
        Ok(ToolOutcome::new(value, vec![Content::text(text)], self.display()))
    }
}

#[cfg(test)]
mod tests;
