//! `list`: the entries of a folder.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::files::{Entry, EntryKind, FileError, Listing, list};
use bridle_world::{Roots, name_text, path_text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::target::{Target, fenced, outline};

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
    const SHAPE: &'static str = "{path}";
}

/// The tool.
pub(crate) struct List {
    roots: Arc<Roots>,
    spec: ToolSpec,
}

impl List {
    pub(crate) fn new(roots: Arc<Roots>) -> Self {
        Self { roots, spec: ListArguments::spec(DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for List {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: &str,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = ListArguments::decode(arguments)?;
        let roots = self.roots.clone();
        let target = blocking(move || Target::resolve(&roots, &arguments.path)).await?;
        Ok(Box::new(PlannedList { target }))
    }

    fn outline(&self, arguments: &str) -> Display {
        outline(&self.roots, arguments, "List", "list", ToolKind::Read)
    }
}

struct PlannedList {
    target: Target,
}

#[async_trait]
impl PlannedCall for PlannedList {
    fn display(&self) -> Display {
        self.target.display("List", ToolKind::Read, None)
    }

    fn access(&self) -> Vec<Access> {
        self.target.read_access()
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        blocking(move || self.list()).await
    }
}

impl PlannedList {
    fn list(&self) -> Result<ToolOutcome, ToolFailure> {
        let listing = list(&self.target.path, MAX_ENTRIES).map_err(|error| self.failure(&error))?;
        let text = self.render(&listing);
        let mut display = self.display();
        display.text = Some(fenced("", &text));
        let value = json!({
            "path": path_text(&self.target.path), "shown": listing.entries.len(), "total": listing.total,
            "total_is_exact": !listing.more,
        });
        Ok(ToolOutcome { value, content: vec![Content::text(text)], display })
    }

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

    fn render(&self, listing: &Listing) -> String {
        if listing.total == 0 {
            return format!("{} is empty.\n", self.target.shown);
        }
        let mut text: String = listing.entries.iter().map(line).collect();
        let (shown, total) = (listing.entries.len(), listing.total);
        if shown < total || listing.more {
            let at_least = if listing.more { "at least " } else { "" };
            text.push_str(&format!(
                "[{shown} of {at_least}{total} entries; use `glob` for more]\n"
            ));
        }
        text
    }
}

fn line(entry: &Entry) -> String {
    let name = name_text(&entry.name);
    match &entry.kind {
        EntryKind::Folder => format!("{name}/\n"),
        EntryKind::File(size) => format!("{name}  {size}\n"),
        EntryKind::Link(target) => format!("{name} -> {}\n", path_text(target)),
        EntryKind::Special => format!("{name}  (special file)\n"),
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
