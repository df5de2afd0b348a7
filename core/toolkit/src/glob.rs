//! `glob`: files by name.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::search::{NamesFound, NamesQuery, search_names};
use bridle_world::{Roots, path_text};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::arguments::Arguments;
use crate::blocking::blocking;
use crate::search::{failure, outline_search};
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

/// The tool.
pub(crate) struct Glob {
    roots: Arc<Roots>,
    spec: ToolSpec,
}

impl Glob {
    pub(crate) fn new(roots: Arc<Roots>) -> Self {
        Self { roots, spec: GlobArguments::spec(DESCRIPTION) }
    }
}

#[async_trait]
impl Tool for Glob {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: &str,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = GlobArguments::decode(arguments)?;
        let roots = self.roots.clone();
        blocking(move || {
            let target = Target::resolve(&roots, arguments.path.as_deref().unwrap_or("."))?;
            let planned = PlannedGlob { roots, target, pattern: arguments.pattern };
            Ok(Box::new(planned) as Box<dyn PlannedCall>)
        })
        .await
    }

    fn outline(&self, arguments: &str) -> Display {
        outline_search(&self.roots, arguments, "Find", "glob")
    }
}

struct PlannedGlob {
    roots: Arc<Roots>,
    target: Target,
    pattern: String,
}

#[async_trait]
impl PlannedCall for PlannedGlob {
    fn display(&self) -> Display {
        let verb = format!("Find {} in", one_line(&self.pattern));
        self.target.display(&verb, ToolKind::Search, None)
    }

    fn access(&self) -> Vec<Access> {
        self.target.read_access()
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        blocking(move || self.find(&context.token)).await
    }
}

impl PlannedGlob {
    fn find(&self, token: &CancellationToken) -> Result<ToolOutcome, ToolFailure> {
        self.target.require_present()?;
        let query = NamesQuery {
            folder: &self.target.path,
            excluded: self.roots.excluded(),
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
        Ok(ToolOutcome { value, content: vec![Content::text(text)], display })
    }

    fn render(&self, found: &NamesFound) -> String {
        let at_least = if found.at_least { "at least " } else { "" };
        if found.paths.is_empty() {
            let cut = if found.at_least { " in the part that was searched" } else { "" };
            return format!("No file matches {}{cut}.\n", self.pattern);
        }
        let mut text: String =
            found.paths.iter().map(|path| shown(&self.roots, path) + "\n").collect();
        if found.paths.len() < found.total || found.at_least {
            let (shown, total) = (found.paths.len(), found.total);
            text.push_str(&format!("[{shown} of {at_least}{total} files; narrow the glob]\n"));
        }
        text
    }
}
