//! `apply_patch`: changes of several files in the format that some model families are trained on.
//!
//! Everything is planned in memory. The files are then changed one after the other, each durably;
//! when one fails, those before it are put back, and the report says what became of each.

mod hunks;
mod parse;

use std::borrow::Cow;
use std::collections::BTreeSet;

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{ContentHash, FileError, Files, Snapshot, Text, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::diff::Change;
use crate::edit::{MAX_FILE_BYTES, Step};
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, fenced, plan_failed};
use hunks::patched;
use parse::{FileChange, parse};

/// The most files that are named in a title.
const MAX_TITLED: usize = 8;

const DESCRIPTION: &str = "\
Changes files by a patch: `*** Begin Patch`, then for each file `*** Add File: path` with lines that \
begin with +, `*** Delete File: path`, or `*** Update File: path` (and maybe `*** Move to: path`) with \
hunks of lines that begin with a space, - or +, behind `@@` or `@@ a line that stands before`; at last \
`*** End Patch`. A file must have been read before it is updated. All of it is applied or nothing is.";

/// Arguments of `apply_patch`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PatchArguments {
    /// The whole patch. Paths are absolute or relative to the working directory.
    patch: String,
}

impl Arguments for PatchArguments {
    const TOOL: &'static str = "apply_patch";
}

impl FileArguments for PatchArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Apply a patch to";
    const KIND: ToolKind = ToolKind::Edit;

    type Value = Patched;

    fn render(patched: &Patched) -> String {
        patched.files.concat()
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let changes = parse(&self.patch).map_err(|why| {
            ToolFailure::bad_arguments(format!("The patch is wrong: {why}. Nothing was changed."))
        })?;
        if changes.is_empty() {
            return Err(ToolFailure::bad_arguments("The patch names no file."));
        }
        let (mut parts, mut paths) = (Vec::new(), BTreeSet::new());
        for change in changes {
            let mut target = Target::resolve_entry(world, change.path())?;
            let part = match prepare(world, &mut target, change) {
                Ok(part) => part,
                Err(failure) => return plan_failed::<Self>(target, failure),
            };
            for target in part.targets() {
                if !paths.insert(target.path.clone()) {
                    return Err(ToolFailure::failed(format!(
                        "The patch names {} twice. Nothing was changed.",
                        target.shown
                    )));
                }
            }
            parts.push(part);
        }
        // What cannot be put back as it was comes last.
        parts.sort_by_key(|part| matches!(part.action, Action::Remove { .. }));
        Ok(Box::new(PlannedPatch { parts }))
    }
}

impl FileChange {
    fn path(&self) -> &str {
        match self {
            Self::Add { path, .. } | Self::Delete { path } | Self::Update { path, .. } => path,
        }
    }
}

/// What becomes of one file.
struct Part {
    target: Target,
    action: Action,
    change: Change,
    step: Step,
}

enum Action {
    Create { place: Version, bytes: Vec<u8> },
    Remove { snapshot: Snapshot },
    Write { snapshot: Snapshot, bytes: Vec<u8>, to: Option<(Target, Version)> },
}

fn prepare(
    world: &FileWorld,
    target: &mut Target,
    change: FileChange,
) -> Result<Part, ToolFailure> {
    let failed = |target: &Target, why: String| {
        ToolFailure::failed(format!("{}: {why}. Nothing was changed.", target.shown))
    };
    let (hunks, to) = match change {
        FileChange::Add { content, .. } => {
            let place = target.files().anchor(&target.path).map_err(|e| target.failure(&e))?;
            let change = Change::creation(&target.path, &content);
            let action = Action::Create { place, bytes: content.into_bytes() };
            return Ok(Part { target: target.clone(), action, change, step: Step::Exact });
        }
        FileChange::Delete { .. } => {
            let snapshot =
                target.read_for_change(MAX_FILE_BYTES).map_err(|e| target.failure(&e))?;
            let body = Text::parse(&snapshot.bytes).map_or(Cow::Borrowed(""), |text| text.body);
            let change = Change::between(&target.path, &body, "");
            let action = Action::Remove { snapshot };
            return Ok(Part { target: target.clone(), action, change, step: Step::Exact });
        }
        FileChange::Update { hunks, to, .. } => (hunks, to),
    };
    let snapshot = target.read_for_change(MAX_FILE_BYTES).map_err(|e| target.failure(&e))?;
    target.require_seen(&snapshot)?;
    let text = Text::parse(&snapshot.bytes).map_err(|why| failed(target, why.to_string()))?;
    let (body, step) = patched(&text.body, &hunks).map_err(|why| failed(target, why))?;
    let change = Change::between(&target.path, &text.body, &body);
    let to = match to {
        Some(path) => {
            let to = Target::resolve_entry(world, &path)?;
            let place = to.files().anchor(&to.path).map_err(|error| to.failure(&error))?;
            Some((to, place))
        }
        None if text.body == body => return Err(failed(target, "it changes nothing".to_owned())),
        None => None,
    };
    let bytes = text.with_body(body).map_err(|why| target.unencodable(&why))?;
    let action = Action::Write { snapshot, bytes, to };
    Ok(Part { target: target.clone(), action, change, step })
}

impl Part {
    fn targets(&self) -> Vec<&Target> {
        match &self.action {
            Action::Write { to: Some((to, _)), .. } => vec![&self.target, to],
            _ => vec![&self.target],
        }
    }

    fn make(&self) -> Result<(), ToolFailure> {
        let Target { path, .. } = &self.target;
        let files = self.target.files();
        match &self.action {
            Action::Create { place, bytes } => self.target.write(place, &[], bytes).map(drop),
            Action::Remove { snapshot } => {
                let removed = files.remove(path, &snapshot.version);
                removed.map_err(|error| self.target.outdated(&error, &snapshot.bytes))
            }
            Action::Write { snapshot, bytes, to: None } => {
                self.target.write(&snapshot.version, &snapshot.bytes, bytes).map(drop)
            }
            Action::Write { snapshot, bytes, to: Some((to, place)) } => {
                let moved = files.rename(path, &snapshot.version, &to.path, place);
                moved.map_err(|error| self.target.outdated(&error, &snapshot.bytes))?;
                replace(files, to, &snapshot.bytes, bytes).map_err(|error| {
                    let mut failure = to.failure(&error);
                    if let Err(error) = move_back(files, to, &snapshot.bytes, &self.target) {
                        failure.message.push_str(&format!(" It stays at its new path: {error}."));
                    }
                    failure
                })
            }
        }
    }

    /// Takes back what was made, if it still is as it was made.
    fn take_back(&self) -> Result<(), FileError> {
        let Target { path, .. } = &self.target;
        let files = self.target.files();
        match &self.action {
            Action::Create { bytes, .. } => {
                files.remove(path, &current(files, &self.target, bytes)?.version)
            }
            Action::Remove { snapshot } => files.write(path, &files.anchor(path)?, &snapshot.bytes),
            Action::Write { snapshot, bytes, to: None } => {
                replace(files, &self.target, bytes, &snapshot.bytes)
            }
            Action::Write { snapshot, bytes, to: Some((to, _)) } => {
                replace(files, to, bytes, &snapshot.bytes)?;
                move_back(files, to, &snapshot.bytes, &self.target)
            }
        }
    }

    fn report(&self) -> String {
        let shown = &self.target.shown;
        let mut text = match &self.action {
            Action::Create { .. } => format!("Added {shown}.\n"),
            Action::Remove { .. } => format!("Deleted {shown}.\n"),
            Action::Write { to: None, .. } => format!("Changed {shown}.\n"),
            Action::Write { to: Some((to, _)), .. } => format!("Moved {shown} to {}.\n", to.shown),
        };
        if self.step > Step::Exact {
            text.push_str(&format!("Its lines matched {}.\n", self.step.note()));
        }
        if matches!(self.action, Action::Write { .. }) && !self.change.unified.is_empty() {
            text.push_str(&fenced("diff", &self.change.unified));
            text.push('\n');
        }
        text
    }

    fn seen(&self) -> Vec<SessionChange> {
        match &self.action {
            Action::Create { bytes, .. } | Action::Write { bytes, to: None, .. } => {
                vec![self.target.seen(Some(ContentHash::of(bytes)))]
            }
            Action::Remove { .. } => vec![self.target.seen(None)],
            Action::Write { bytes, to: Some((to, _)), .. } => {
                vec![self.target.seen(None), to.seen(Some(ContentHash::of(bytes)))]
            }
        }
    }
}

/// The file as it is, which must hold this.
fn current(files: &dyn Files, target: &Target, held: &[u8]) -> Result<Snapshot, FileError> {
    let snapshot = files.read_for_change(&target.path, MAX_FILE_BYTES)?;
    if snapshot.bytes == held { Ok(snapshot) } else { Err(FileError::Stale(target.path.clone())) }
}

fn replace(files: &dyn Files, at: &Target, held: &[u8], bytes: &[u8]) -> Result<(), FileError> {
    if held == bytes {
        return Ok(());
    }
    files.write(&at.path, &current(files, at, held)?.version, bytes)
}

fn move_back(files: &dyn Files, from: &Target, held: &[u8], to: &Target) -> Result<(), FileError> {
    let snapshot = current(files, from, held)?;
    files.rename(&from.path, &snapshot.version, &to.path, &files.anchor(&to.path)?)
}

/// What became of each file, as the model reads it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Patched {
    files: Vec<String>,
}

struct PlannedPatch {
    parts: Vec<Part>,
}

impl FileCall<Patched> for PlannedPatch {
    fn targets(&self) -> Vec<&Target> {
        self.parts.iter().flat_map(Part::targets).collect()
    }

    fn display(&self) -> Display {
        let targets = self.targets();
        let titles = targets
            .iter()
            .take(MAX_TITLED)
            .map(|target| target.display("", ToolKind::Edit, None).title.trim_start().to_owned());
        let mut title = format!("Patch {}", titles.collect::<Vec<_>>().join(", "));
        if let Some(more) = targets.len().checked_sub(MAX_TITLED).filter(|more| *more > 0) {
            title.push_str(&format!(" and {more} more"));
        }
        let mut display = Display::new(title, ToolKind::Edit);
        for part in &self.parts {
            let shown = part.target.display_change("", ToolKind::Edit, &part.change);
            display.locations.extend(shown.locations);
            display.diffs.extend(shown.diffs);
        }
        display
    }

    fn changes(&self, _: &Patched) -> Vec<SessionChange> {
        self.parts.iter().flat_map(Part::seen).collect()
    }

    fn run(&self, _: &CancellationToken) -> Result<Patched, ToolFailure> {
        for (done, part) in self.parts.iter().enumerate() {
            let Err(failure) = part.make() else { continue };
            let mut message = format!("The patch was not applied: {}", failure.message);
            for part in self.parts.iter().take(done).rev() {
                let shown = &part.target.shown;
                message.push_str(&match part.take_back() {
                    Ok(()) => format!("\n{shown} was put back."),
                    Err(error) => format!("\n{shown} could NOT be put back: {error}."),
                });
            }
            return Err(ToolFailure::failed(message));
        }
        Ok(Patched { files: self.parts.iter().map(Part::report).collect() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::{Workspace, run};

    fn patch(lines: &str) -> Value {
        json!({ "patch": format!("*** Begin Patch\n{lines}*** End Patch\n") })
    }

    async fn workspace() -> Workspace {
        let ws = Workspace::new(&[("a", "one\r\ntwo\r\n"), ("b", "b\n"), ("c", "c\n")]);
        for path in ["a", "b", "c"] {
            ws.run("read", json!({ "path": path })).await.unwrap();
        }
        ws
    }

    const ALL: &str = "*** Update File: a\n one\n-two\n+2\n*** Add File: new/d\n+d\n\
                       *** Delete File: b\n*** Update File: c\n*** Move to: e\n-c\n+C\n";

    #[tokio::test]
    async fn several_files_change_in_one_call() {
        let ws = workspace().await;
        let planned = ws.plan("apply_patch", patch(ALL)).await.unwrap();
        assert_eq!(planned.access().len(), 5);
        assert_eq!(planned.display().title, "Patch a, new/d, c, e, b");
        let text = ws.text("apply_patch", patch(ALL)).await;
        assert!(text.contains("Changed a.") && text.contains("Moved c to e."), "{text}");
        assert_eq!(ws.get("a"), b"one\r\n2\r\n");
        assert_eq!((ws.get("new/d"), ws.get("e")), (b"d\n".to_vec(), b"C\n".to_vec()));
        assert_eq!(ws.names("."), ["a", "e", "new"]);
    }

    /// B061, B062: what cannot be applied whole is not applied at all.
    #[tokio::test]
    async fn a_patch_that_fails_leaves_every_file_as_it_was() {
        let ws = workspace().await;
        for bad in [
            "*** Update File: a\n-two\n+2\n*** Update File: b\n-zzz\n+y\n",
            "*** Update File: a\n-two\n+2\n*** Add File: b\n+x\n",
            "*** Update File: a\n-two\n+2\n*** Update File: c\n*** Move to: b\n-c\n+C\n",
            "*** Update File: a\n-two\n+2\n*** Update File: a\n-one\n+1\n",
            "*** Update File: absent\n-two\n+2\n",
        ] {
            ws.error("apply_patch", patch(bad)).await;
        }
        // The last file changes after the plan: those before it are put back.
        let planned = ws.plan("apply_patch", patch(ALL)).await.unwrap();
        ws.put("b", "theirs\n");
        let failure = run(planned).await.unwrap_err();
        for shown in ["a was put back.", "new/d was put back.", "c was put back."] {
            assert!(failure.message.contains(shown), "{failure}");
        }
        assert_eq!((ws.get("a"), ws.get("c")), (b"one\r\ntwo\r\n".to_vec(), b"c\n".to_vec()));
        assert_eq!((ws.get("b"), ws.names("new").len()), (b"theirs\n".to_vec(), 0));
        assert_eq!(ws.names("."), ["a", "b", "c", "new"]);
    }
}
