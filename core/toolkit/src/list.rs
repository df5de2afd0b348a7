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

impl ListArguments {
    /// A listing of a folder.
    pub(crate) fn of(path: String) -> Self {
        Self { path }
    }
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
        if listed.total == 0 && listed.placeholders == 0 {
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
        if listed.placeholders > 0 {
            text.push_str(&format!(
                "[{} empty folders are left out: they only keep names that are protected from being \
                 taken while a confined command runs]\n",
                listed.placeholders
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
    /// Empty folders that stand only while a confined command runs, which are not among them.
    placeholders: usize,
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
        let standing = self.target.roots().placeholders();
        let is_own = |entry: &&Entry| !standing.contains(&self.target.path.join(&entry.name));
        let entries: Vec<_> = listing.entries.iter().filter(is_own).map(line).collect();
        let placeholders = listing.entries.len() - entries.len();
        Ok(Listed {
            path: self.target.shown.clone(),
            entries,
            total: listing.total - placeholders,
            total_is_exact: !listing.more,
            placeholders,
        })
    }
}

impl PlannedList {
    fn failure(&self, error: &FileError) -> ToolFailure {
        match error {
            FileError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotADirectory => {
                self.target.no_folder()
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

    /// What only keeps a name from being taken while a command runs is nothing of the project.
    #[tokio::test]
    async fn placeholders_are_no_folders_of_the_project() {
        use std::sync::Arc;

        use bridle_world::Roots;
        use rustix::fs::{FlockOperation, flock};

        let mut ws = Workspace::new(&[("a", "x"), (".zed/own", "x")]);
        let records = ws.base.join("records");
        ws.roots = Arc::new(Roots::clone(&ws.roots).with_records(records.clone()));
        let before = ws.text("list", json!({ "path": "." })).await;
        fs_err::create_dir(&records).unwrap();
        let names = [".envrc", ".vscode"].map(|name| ws.path(name));
        let paths = names.each_ref().map(|path| format!("{}\0", path.display())).concat();
        names.iter().for_each(|path| fs_err::create_dir(path).unwrap());
        fs_err::write(records.join("1-1.placeholders"), paths).unwrap();
        let all = ws.text("list", json!({ "path": "." })).await;
        assert!(all.starts_with(".envrc/\n.vscode/\n.zed/\n"), "nobody holds them: {all}");
        // Like the supervisor of a command that runs.
        let record = fs_err::File::open(records.join("1-1.placeholders")).unwrap();
        flock(&record, FlockOperation::NonBlockingLockExclusive).unwrap();
        let text = ws.text("list", json!({ "path": "." })).await;
        let (own, note) = text.split_once('[').unwrap();
        assert_eq!(own, before);
        assert!(note.starts_with("2 empty folders are left out: "), "{text}");
        for (tool, arguments) in [
            ("read", json!({ "path": ".envrc" })),
            ("write", json!({ "path": ".envrc", "content": "x" })),
        ] {
            let error = ws.error(tool, arguments).await;
            assert!(error.contains("only keeps that name from being taken"), "{error}");
        }
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
