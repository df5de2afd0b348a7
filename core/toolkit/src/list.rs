//! `list`: the entries of a folder.

use bridle_agent::{Display, ToolFailure, ToolKind};
use bridle_world::files::{Entry, EntryKind, FileError};
use bridle_world::{name_text, path_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::target::{Target, fenced};

/// The most entries that are returned.
const MAX_ENTRIES: usize = 500;

const DESCRIPTION: &str = "\
Lists a folder: folders first (with a trailing /), then files with their size in bytes and links \
with their target, hidden ones included. At most 500 entries.";

/// Arguments of `list`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListArguments {
    /// The folder, absolute or relative to the working directory; `.` for the latter itself.
    path: String,
}

impl Arguments for ListArguments {
    const TOOL: &'static str = "list";
}

impl FileArguments for ListArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "List";
    const KIND: ToolKind = ToolKind::Read;

    type Value = Listed;

    fn render(listed: &Listed) -> String {
        if listed.total == 0 {
            return format!("{} is empty.\n", listed.path);
        }
        let mut text = listed.entries.iter().map(|line| format!("{line}\n")).collect::<String>();
        let (shown, total) = (listed.entries.len(), listed.total);
        if shown < total || !listed.total_is_exact {
            let at_least = if listed.total_is_exact { "" } else { "at least " };
            text.push_str(&format!(
                "[{shown} of {at_least}{total} entries; use `glob` for more]\n"
            ));
        }
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let target = Target::resolve(world, &self.path)?;
        Ok(Box::new(PlannedList { target }))
    }
}

/// The entries of a folder.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Listed {
    /// The folder, relative to the working directory where it lies below it.
    path: String,
    /// One line each.
    entries: Vec<String>,
    total: usize,
    total_is_exact: bool,
}

struct PlannedList {
    target: Target,
}

impl FileCall<Listed> for PlannedList {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        self.target.display("List", ToolKind::Read, None)
    }

    fn shown(&self, listed: &Listed) -> Option<String> {
        Some(fenced("", &ListArguments::render(listed)))
    }

    fn run(&self, _: &CancellationToken) -> Result<Listed, ToolFailure> {
        let listing = self.target.files().list(&self.target.path, MAX_ENTRIES);
        let listing = listing.map_err(|error| self.failure(&error))?;
        Ok(Listed {
            path: self.target.shown.clone(),
            entries: listing.entries.iter().map(line).collect(),
            total: listing.total,
            total_is_exact: !listing.more,
        })
    }
}

impl PlannedList {
    fn failure(&self, error: &FileError) -> ToolFailure {
        match error {
            FileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory => {
                ToolFailure::failed(format!(
                    "{} is not a folder. Use `read` for a file.",
                    self.target.shown
                ))
            }
            error => self.target.failure(error),
        }
    }
}

fn line(entry: &Entry) -> String {
    let name = name_text(&entry.name);
    match &entry.kind {
        EntryKind::Folder => format!("{name}/"),
        EntryKind::File(size) => format!("{name}  {size}"),
        EntryKind::Link(target) => format!("{name} -> {}", path_text(target)),
        EntryKind::Special => format!("{name}  (special file)"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use expect_test::expect;
    use serde_json::json;

    use crate::testing::Workspace;

    #[tokio::test]
    async fn folders_first_then_files_with_their_size() {
        let ws = Workspace::new(&[("b.txt", "12345"), (".hidden", ""), ("zoo/x", "")]);
        symlink("b.txt", ws.path("link")).unwrap();
        ws.fifo("fifo");
        let text = ws.text("list", json!({ "path": "." })).await;
        expect![[r#"
            zoo/
            .hidden  0
            b.txt  5
            fifo  (special file)
            link -> b.txt
        "#]]
        .assert_eq(&text);
        let error = ws.error("list", json!({ "path": "b.txt" })).await;
        expect!["b.txt is not a folder. Use `read` for a file."].assert_eq(&error);
    }

    #[tokio::test]
    async fn a_large_folder_is_capped() {
        let ws = Workspace::new(&[]);
        assert_eq!(ws.text("list", json!({ "path": "." })).await, ". is empty.\n");
        for n in 0..600 {
            ws.put(&format!("f{n:03}"), "");
        }
        let text = ws.text("list", json!({ "path": "." })).await;
        assert!(text.ends_with("f499  0\n[500 of 600 entries; use `glob` for more]\n"), "{text}");
    }
}
