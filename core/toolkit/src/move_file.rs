//! `move`: another name for a file.

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{FileError, Snapshot, Version};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::edit::MAX_FILE_BYTES;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, plan_failed};

const DESCRIPTION: &str = "\
Moves a file to another path, or renames it, and makes the folders above the new path. Nothing may \
be at the new path, unless overwrite is set. Folders and links are left to commands.";

/// Arguments of `move`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoveArguments {
    /// The file, absolute or relative to the working directory.
    path: String,
    /// Its new path, file name included.
    to: String,
    /// Replace the content of a file that is at the new path. Without it: that is an error.
    overwrite: Option<bool>,
}

impl Arguments for MoveArguments {
    const TOOL: &'static str = "move";
}

impl FileArguments for MoveArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Move";
    const KIND: ToolKind = ToolKind::Move;

    type Value = Moved;

    fn render(Moved { path, to }: &Moved) -> String {
        format!("Moved {path} to {to}.\n")
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let from = Target::resolve_entry(world, &self.path)?;
        let to = Target::resolve_entry(world, &self.to)?;
        match prepare(from.clone(), to, self.overwrite.unwrap_or_default()) {
            Ok(planned) => Ok(Box::new(planned)),
            Err(failure) => plan_failed::<Self>(from, failure),
        }
    }
}

fn prepare(mut from: Target, mut to: Target, overwrite: bool) -> Result<PlannedMove, ToolFailure> {
    let source = from.read_for_change(MAX_FILE_BYTES).map_err(|error| from.failure(&error))?;
    let place = match to.files().anchor(&to.path) {
        Ok(place) => Place::Free(place),
        Err(FileError::Exists(_)) if overwrite => {
            let there = to.read_for_change(MAX_FILE_BYTES).map_err(|error| to.failure(&error))?;
            Place::Taken(there)
        }
        Err(FileError::Exists(_)) => {
            return Err(ToolFailure::failed(format!(
                "Something is at {} already. Nothing was moved. Set overwrite only if its content \
                 may go.",
                to.shown
            )));
        }
        Err(error) => return Err(to.failure(&error)),
    };
    Ok(PlannedMove { from, source, to, place })
}

/// Where a file is now; both relative to the working directory where they lie below it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Moved {
    path: String,
    to: String,
}

struct PlannedMove {
    from: Target,
    source: Snapshot,
    to: Target,
    place: Place,
}

/// What is at the new path.
enum Place {
    Free(Version),
    Taken(Snapshot),
}

impl PlannedMove {
    fn make(&self) -> Result<(), ToolFailure> {
        let (files, version) = (self.from.files(), &self.source.version);
        match &self.place {
            Place::Free(place) => files
                .rename(&self.from.path, version, &self.to.path, place)
                .map_err(|error| self.from.outdated(&error, &self.source.bytes)),
            // The content is never only in one place that might be lost.
            Place::Taken(there) => {
                self.to.write(&there.version, &there.bytes, &self.source.bytes)?;
                files.remove(&self.from.path, version).map_err(|error| {
                    ToolFailure::failed(format!(
                        "{} has the content now, but the old file is still there: {error}.",
                        self.to.shown
                    ))
                })
            }
        }
    }
}

impl FileCall<Moved> for PlannedMove {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.from, &self.to]
    }

    fn display(&self) -> Display {
        let over = match self.place {
            Place::Free(_) => "",
            Place::Taken(_) => ", which is replaced",
        };
        let mut display = self.from.display("Move", ToolKind::Move, None);
        let to = self.to.display("to", ToolKind::Move, None);
        display.title.push_str(&format!(" {}{over}", to.title));
        display.locations.extend(to.locations);
        display
    }

    fn changes(&self, _: &Moved) -> Vec<SessionChange> {
        // What the session has put there counts as seen, so that its undo knows it again.
        vec![self.from.seen(None), self.to.seen(Some(self.source.hash))]
    }

    fn run(&self, _: &CancellationToken) -> Result<Moved, ToolFailure> {
        self.make()?;
        Ok(Moved { path: self.from.shown.clone(), to: self.to.shown.clone() })
    }
}

#[cfg(test)]
mod tests {
    use bridle_agent::Access;
    use serde_json::json;

    use crate::testing::{Workspace, run};

    #[tokio::test]
    async fn a_file_gets_another_name_and_may_be_changed_there() {
        let ws = Workspace::new(&[("a", "text\n")]);
        let planned = ws.plan("move", json!({ "path": "a", "to": "new/b" })).await.unwrap();
        let access = [ws.path("a"), ws.path("new/b")].map(Access::WriteInside);
        assert_eq!(planned.access(), access);
        assert_eq!(planned.display().title, "Move a to new/b");
        ws.run("move", json!({ "path": "a", "to": "new/b" })).await.unwrap();
        assert_eq!((ws.names("."), ws.get("new/b")), (vec!["new".to_owned()], b"text\n".to_vec()));
        let edits = json!([{ "old_text": "text", "new_text": "word" }]);
        ws.run("edit", json!({ "path": "new/b", "edits": edits })).await.unwrap();
        let error = ws.error("read", json!({ "path": "a" })).await;
        assert!(error.contains("does not exist"), "{error}");
    }

    #[tokio::test]
    async fn a_target_that_is_taken_is_only_replaced_when_that_is_said() {
        let ws = Workspace::new(&[("a", "mine"), ("b", "theirs")]);
        let error = ws.error("move", json!({ "path": "a", "to": "b" })).await;
        assert!(error.starts_with("Something is at b already. Nothing was moved."), "{error}");
        // What appears after the plan is not replaced either.
        let planned = ws.plan("move", json!({ "path": "a", "to": "c" })).await.unwrap();
        ws.put("c", "appeared");
        assert!(run(planned).await.is_err());
        assert_eq!((ws.get("a"), ws.get("b")), (b"mine".to_vec(), b"theirs".to_vec()));
        assert_eq!(ws.get("c"), b"appeared");
        let overwrite = json!({ "path": "a", "to": "b", "overwrite": true });
        let planned = ws.plan("move", overwrite).await.unwrap();
        assert_eq!(planned.display().title, "Move a to b, which is replaced");
        run(planned).await.unwrap();
        assert_eq!((ws.names("."), ws.get("b")), (vec!["b".into(), "c".into()], b"mine".to_vec()));
    }

    #[tokio::test]
    async fn what_has_changed_since_the_question_is_shown() {
        let ws = Workspace::new(&[("a", "mine\n"), ("b", "theirs\n")]);
        for to in ["c", "b"] {
            let arguments = json!({ "path": "a", "to": to, "overwrite": true });
            let planned = ws.plan("move", arguments).await.unwrap();
            ws.put(if to == "c" { "a" } else { "b" }, format!("for {to}\n"));
            let failure = run(planned).await.unwrap_err();
            assert!(failure.message.contains(&format!("+for {to}\n")), "{failure}");
        }
        assert_eq!((ws.get("a"), ws.get("b")), (b"for c\n".to_vec(), b"for b\n".to_vec()));
    }

    #[tokio::test]
    async fn links_are_neither_followed_nor_moved() {
        let ws = Workspace::new(&[("a", "x")]);
        std::os::unix::fs::symlink("a", ws.path("link")).unwrap();
        for (tool, arguments) in
            [("move", json!({ "path": "link", "to": "b" })), ("delete", json!({ "path": "link" }))]
        {
            let error = ws.error(tool, arguments).await;
            assert!(error.starts_with("link is a link."), "{error}");
        }
        assert_eq!(ws.names("."), ["a", "link"]);
        let access = ws.access("move", json!({ "path": "a", "to": "../outside/a" })).await;
        assert_eq!(access[1], Access::WriteOutside(ws.base.join("outside/a")));
    }
}
