//! `delete`: a file goes.

use std::borrow::Cow;

use bridle_agent::{Display, SessionChange, ToolFailure, ToolKind};
use bridle_world::files::{Snapshot, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::diff::Change;
use crate::edit::MAX_FILE_BYTES;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, plan_failed};

const DESCRIPTION: &str = "\
Deletes a file. Folders and links are left to commands.";

/// Arguments of `delete`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteArguments {
    /// The file, absolute or relative to the working directory.
    path: String,
}

impl Arguments for DeleteArguments {
    const TOOL: &'static str = "delete";
}

impl FileArguments for DeleteArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Delete";
    const KIND: ToolKind = ToolKind::Delete;

    type Value = Deleted;

    fn render(Deleted { path }: &Deleted) -> String {
        format!("Deleted {path}.\n")
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let mut target = Target::resolve_entry(world, &self.path)?;
        let snapshot = match target.read_for_change(MAX_FILE_BYTES) {
            Ok(snapshot) => snapshot,
            Err(error) => {
                let failure = target.failure(&error);
                return plan_failed::<Self>(target, failure);
            }
        };
        let body = Text::parse(&snapshot.bytes).map_or(Cow::Borrowed(""), |text| text.body);
        let change = Change::between(&target.path, &body, "");
        Ok(Box::new(PlannedDelete { target, change, snapshot }))
    }
}

/// A file that was, relative to the working directory where it lay below it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Deleted {
    path: String,
}

struct PlannedDelete {
    target: Target,
    snapshot: Snapshot,
    change: Change,
}

impl FileCall<Deleted> for PlannedDelete {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        self.target.display_change("Delete", ToolKind::Delete, &self.change)
    }

    fn changes(&self, _: &Deleted) -> Vec<SessionChange> {
        vec![self.target.seen(None)]
    }

    fn run(&self, _: &CancellationToken) -> Result<Deleted, ToolFailure> {
        let removed = self.target.files().remove(&self.target.path, &self.snapshot.version);
        removed.map_err(|error| self.target.outdated(&error, &self.snapshot.bytes))?;
        Ok(Deleted { path: self.target.shown.clone() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::testing::{Workspace, run};

    #[tokio::test]
    async fn a_file_goes_as_it_was_when_it_was_shown() {
        let ws = Workspace::new(&[("a", "text\n"), ("folder/x", "")]);
        let planned = ws.plan("delete", json!({ "path": "a" })).await.unwrap();
        assert_eq!(planned.display().title, "Delete a");
        assert_eq!(planned.display().diffs[0].old_text.as_deref(), Some("text\n"));
        ws.put("a", "changed\n");
        let failure = run(planned).await.unwrap_err();
        assert!(failure.message.contains("changed since"), "{failure}");
        assert!(failure.message.contains("-text\n+changed\n"), "{failure}");
        assert_eq!(ws.get("a"), b"changed\n");
        let error = ws.error("delete", json!({ "path": "folder" })).await;
        assert!(error.contains("is a folder"), "{error}");
        ws.run("delete", json!({ "path": "a" })).await.unwrap();
        assert_eq!(ws.names("."), ["folder"]);
    }
}
