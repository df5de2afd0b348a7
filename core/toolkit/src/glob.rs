//! `glob`: files by name.

use bridle_agent::{Display, ToolFailure, ToolKind};
use bridle_world::search::{NamesQuery, search_names};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::file_tool::{FileArguments, FileCall, FileWorld};
use crate::search::{failure, not_looked_into};
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
}

impl FileArguments for GlobArguments {
    const DESCRIPTION: &'static str = DESCRIPTION;
    const VERB: &'static str = "Find";
    const KIND: ToolKind = ToolKind::Search;

    type Value = Names;

    fn render(names: &Names) -> String {
        let at_least = if names.total_is_exact { "" } else { "at least " };
        let mut text = names.paths.iter().map(|path| format!("{path}\n")).collect::<String>();
        let (shown, total) = (names.paths.len(), names.total);
        if shown == 0 {
            let cut = if names.total_is_exact { "" } else { " in the part that was searched" };
            text = format!("No file matches {}{cut}.\n", names.pattern);
        } else if shown < total || !names.total_is_exact {
            text.push_str(&format!("[{shown} of {at_least}{total} files; narrow the glob]\n"));
        }
        names.notes.iter().for_each(|note| text.push_str(&format!("[{note}]\n")));
        text
    }

    fn plan(self, world: &FileWorld) -> Result<Box<dyn FileCall<Self::Value>>, ToolFailure> {
        let target = Target::resolve(world, self.path.as_deref().unwrap_or("."))?;
        Ok(Box::new(PlannedGlob { target, pattern: self.pattern }))
    }
}

/// Files by name.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Names {
    pattern: String,
    /// Relative to the working directory where they lie below it.
    paths: Vec<String>,
    total: usize,
    total_is_exact: bool,
    /// What was not looked into.
    notes: Vec<String>,
}

struct PlannedGlob {
    target: Target,
    pattern: String,
}

impl FileCall<Names> for PlannedGlob {
    fn targets(&self) -> Vec<&Target> {
        vec![&self.target]
    }

    fn display(&self) -> Display {
        let verb = format!("Find {} in", one_line(&self.pattern));
        self.target.display(&verb, ToolKind::Search, None)
    }

    fn shown(&self, names: &Names) -> Option<String> {
        Some(fenced("", &GlobArguments::render(names)))
    }

    fn run(&self, token: &CancellationToken) -> Result<Names, ToolFailure> {
        self.target.require_folder()?;
        let query = NamesQuery {
            folder: &self.target.path,
            excluded: self.target.roots().excluded(),
            glob: &self.pattern,
            limit: MAX_PATHS,
        };
        let found = search_names(&query, token).map_err(|error| failure(&self.target, error))?;
        Ok(Names {
            pattern: self.pattern.clone(),
            paths: found.paths.iter().map(|path| shown(self.target.roots(), path)).collect(),
            total: found.total,
            total_is_exact: !found.at_least,
            notes: not_looked_into(self.target.roots(), &found.unreadable),
        })
    }
}
