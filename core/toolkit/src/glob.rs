//! `glob`: files by name.

use bridle_agent::{Display, ToolFailure, ToolKind, ToolOutcome};
use bridle_session::Content;
use bridle_world::path_text;
use bridle_world::search::{NamesFound, NamesQuery, search_names};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::search::failure;
use crate::target::{Target, fenced, one_line, shown};

/// The most paths that are returned.
const MAX_PATHS: usize = 200;

const DESCRIPTION: &str = "\
Finds files by a glob, sorted by path. Without a / in it the glob is matched against file names at \
any depth (`*.rs`); with one, against the whole path below the folder (`src/**/*.rs`). Files named \
by ignore files and .git are left out, links are not followed. At most 200 paths.";

/// Arguments of `glob`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GlobArguments {
    /// The glob: `*`, `?`, `**`, `[a-z]`, `{a,b}`.
    pattern: String,
    /// The folder to look in. Without it: the working directory.
    path: Option<String>,
}

impl Arguments for GlobArguments {
    const TOOL: &'static str = "glob";
    const SHAPE: &'static str = "{pattern, path?}";
}

impl FileArguments for GlobArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Find";
    const KIND: ToolKind = ToolKind::Search;

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall>, ToolFailure> {
        let target = Target::resolve(world, self.path.as_deref().unwrap_or("."))?;
        Ok(Box::new(PlannedGlob { target, pattern: self.pattern }))
    }
}

struct PlannedGlob {
    target: Target,
    pattern: String,
}

impl FileCall for PlannedGlob {
    fn target(&self) -> &Target {
        &self.target
    }

    fn display(&self) -> Display {
        let verb = format!("Find {} in", one_line(&self.pattern));
        self.target.display(&verb, ToolKind::Search, None)
    }

    fn run(&self, token: &CancellationToken) -> Result<ToolOutcome, ToolFailure> {
        self.target.require_present()?;
        let query = NamesQuery {
            folder: &self.target.path,
            excluded: self.target.roots().excluded(),
            glob: &self.pattern,
            limit: MAX_PATHS,
        };
        let found = search_names(&query, token).map_err(failure)?;
        let text = self.render(&found);
        let mut display = self.display();
        display.text = Some(fenced("", &text));
        let paths: Vec<String> = found.paths.iter().map(|path| path_text(path)).collect();
        let value = json!({
            "paths": paths, "total": found.total, "total_is_exact": !found.at_least,
        });
        Ok(ToolOutcome::new(value, vec![Content::text(text)], display))
    }
}

impl PlannedGlob {
    fn render(&self, found: &NamesFound) -> String {
        let at_least = if found.at_least { "at least " } else { "" };
        if found.paths.is_empty() {
            let cut = if found.at_least { " in the part that was searched" } else { "" };
            return format!("No file matches {}{cut}.\n", self.pattern);
        }
        let mut text: String =
            found.paths.iter().map(|path| shown(self.target.roots(), path) + "\n").collect();
        if found.paths.len() < found.total || found.at_least {
            let (shown, total) = (found.paths.len(), found.total);
            text.push_str(&format!("[{shown} of {at_least}{total} files; narrow the glob]\n"));
        }
        text
    }
}
