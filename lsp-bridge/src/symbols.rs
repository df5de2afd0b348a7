//! `code_symbols`: what a file holds, and what a project has of a name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{Location, ToolKind};
use bridle_world::search::survey;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answer::Listed;
use crate::answer::entries::{Entry, KINDS, outline, symbols};
use crate::ask::{At, Question, read};
use crate::choice::language_of;
use crate::definition::Purpose;
use crate::desk::{Desk, NoResult};
use crate::reply::{Completeness, Trouble};
use crate::servers::Candidate;
use crate::symbol::quoted;
use crate::tool::{Ask, Told};
use crate::view::{self, DeskView, Ignored, MAX_CHARS, Page, Row, in_no_file, trust};

/// How long a project is looked at to find out what it is written in.
const SURVEY_TIME: Duration = Duration::from_millis(500);

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Symbols {
    op: Op,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    query: Option<String>,
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Op {
    Outline,
    Search,
}

#[async_trait]
impl Ask for Symbols {
    const TOOL: &'static str = "code_symbols";
    const KIND: ToolKind = ToolKind::Search;
    const DESCRIPTION: &'static str = "Asks a language server what a file holds (`outline`: classes, \
        functions and so on with their lines, much shorter than the file) or where the project has \
        symbols of a name (`search`). The answer says whether it is complete.";

    fn schema() -> Value {
        let text = |description: &str| json!({"type": "string", "description": description});
        let number = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
        json!({
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ["outline", "search"]},
                "path": text("For `outline`: the file. For `search`: a file of the project that is meant."),
                "query": text("For `search`: the name, or a part of it."),
                "kind": text("Only symbols of this kind, e.g. `function` or `class`."),
                "limit": number("How many results to show; 100 without it, 0 for how many there are."),
                "offset": number("How many results to skip."),
            },
            "required": ["op"],
            "additionalProperties": false,
        })
    }

    fn paths(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    fn title(&self) -> String {
        match self.op {
            Op::Outline => format!("Code: outline of {}", self.path.as_deref().unwrap_or("a file")),
            Op::Search => {
                format!("Code: symbols like {}", self.query.as_deref().unwrap_or_default())
            }
        }
    }

    async fn answer(
        &self,
        files: &[PathBuf],
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        if let Some(kind) = self.kind.as_deref().filter(|kind| kind_of(kind).is_none()) {
            let kinds = KINDS.join(", ");
            return Err(NoResult::Wrong(format!(
                "there is no `kind` {kind:?}; it is one of: {kinds}"
            )));
        }
        match (self.op, files.first(), self.query.as_deref()) {
            (Op::Outline, None, _) => Err(NoResult::Wrong("`outline` needs `path`".to_owned())),
            (Op::Outline, Some(file), _) => self.outline(file, desk, token).await,
            (Op::Search, _, None | Some("")) => {
                Err(NoResult::Wrong("`search` needs `query`".to_owned()))
            }
            (Op::Search, file, Some(query)) => {
                let found = match file {
                    Some(file) => search_near(query, file, desk, token).await?,
                    None => search(query, desk, token).await?,
                };
                Ok(self.found(found, desk).await)
            }
        }
    }
}

impl Symbols {
    fn page(&self) -> Page {
        Page::of(self.limit, self.offset)
    }

    fn wants(&self, entry: &Entry) -> bool {
        self.kind.as_deref().is_none_or(|kind| kind_of(kind) == Some(entry.kind))
    }

    async fn outline(
        &self,
        file: &PathBuf,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let candidate = desk.navigator(file, token).await?;
        let method = "textDocument/documentSymbol";
        let question = Question { method, at: At::File(file.clone()), more: json!({}) };
        let mut reply = desk.project.ask(&candidate, &question, token).await?;
        let name = &candidate.server.name;
        let mut entries = reply.read(&candidate, |result| outline(result, file))?.list;
        entries.retain(|entry| self.wants(entry));
        let trust = trust(&reply.completeness);
        let mut text =
            format!("{}: {} symbols ({name}, {trust})\n", desk.shown(file), entries.len());
        let source = read(&desk.project.files, file).await?;
        let page = self.page();
        text.push_str(&page.is_behind(entries.len()));
        let Page { limit, offset } = page;
        let (mut locations, mut shown) = (Vec::new(), 0);
        for entry in entries.iter().skip(offset).take(limit) {
            let line = entry.place.range.start.line;
            let indent = "  ".repeat(entry.depth);
            let end = entry.whole.map(|whole| whole.end.line).filter(|end| *end > line);
            let until = end.map(|end| format!("-{}", end + 1)).unwrap_or_default();
            let quoted = source.line(line).map(quoted).unwrap_or_default();
            let row =
                format!("{indent}{}{until}: {} {}: {quoted}\n", line + 1, entry.kind, entry.name);
            if text.len() + row.len() > MAX_CHARS - 200 {
                break;
            }
            text.push_str(&row);
            shown += 1;
            locations.push(Location { path: file.clone(), line: u32::try_from(line + 1).ok() });
        }
        let left = entries.len().saturating_sub(offset + shown);
        if left > 0 {
            text.push_str(&format!(
                "{left} more are not shown (offset {} goes on)\n",
                offset + shown
            ));
        }
        Ok(Told { text, locations })
    }

    async fn found(&self, found: Search, desk: &Desk) -> Told {
        let Search { mut entries, elsewhere, completeness, who } = found;
        entries.retain(|entry| self.wants(entry));
        let query = self.query.as_deref().unwrap_or_default();
        if entries.is_empty() && elsewhere == 0 {
            return view::nothing(&format!("symbols like `{query}`"), &who, &completeness, "");
        }
        let row = |entry: Entry| {
            let container = entry.container.map(|it| format!(" in {it}")).unwrap_or_default();
            let label = format!("{} {}{container}", entry.kind, entry.name);
            Row { place: entry.place, label: Some(label) }
        };
        let rows = entries.into_iter().map(row).collect();
        let who = format!("{who}, {}{}", trust(&completeness), in_no_file(elsewhere));
        let (what, page) = (("symbol", "symbols"), self.page());
        view::list(&DeskView::of(desk), rows, what, who, page, Ignored::LeftOut).await
    }
}

/// The kind that a model means, in either case and number, with `_` for a blank; `None` for one that there
/// is not.
fn kind_of(text: &str) -> Option<&'static str> {
    let text = text.to_ascii_lowercase().replace('_', " ");
    let is_it = |kind: &&&str| **kind == text || text.strip_suffix('s') == Some(**kind);
    KINDS.iter().find(is_it).copied()
}

/// What a search in the project found.
pub(crate) struct Search {
    pub(crate) entries: Vec<Entry>,
    /// How many more there are that are in no file of this machine.
    pub(crate) elsewhere: usize,
    pub(crate) completeness: Completeness,
    /// Who was asked.
    pub(crate) who: String,
}

/// Asks the servers that run for the session's folders, or the one of what most of their files are.
pub(crate) async fn search(
    query: &str,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Search, NoResult> {
    let running = desk.project.servers.running_for(&desk.project.roots);
    let (mut all, mut failures): (Option<Search>, Vec<String>) = (None, Vec::new());
    for server in running {
        if server.definition().purpose == Purpose::Diagnostics {
            continue;
        }
        let candidate = Candidate { server, language: String::new() };
        let found = match ask(query, None, &candidate, desk, token).await {
            Ok(found) => found,
            // One that has no such search says nothing of the others.
            Err(NoResult::Trouble(Trouble::Unsupported(_))) => continue,
            Err(why) => {
                failures.push(why.to_string());
                continue;
            }
        };
        all = Some(match all.take() {
            None => found,
            Some(before) => before.with(found),
        });
    }
    if token.is_cancelled() {
        return Err(Trouble::Cancelled.into());
    }
    match all {
        Some(found) if failures.is_empty() => Ok(found),
        Some(found) => {
            let completeness = match found.completeness {
                Completeness::Complete => Completeness::Partial(failures.join("; ")),
                unsure => unsure,
            };
            Ok(Search { completeness, ..found })
        }
        None => {
            let file = representative(desk).await?;
            search_near(query, &file, desk, token).await
        }
    }
}

async fn search_near(
    query: &str,
    file: &Path,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Search, NoResult> {
    let candidate = desk.navigator(file, token).await?;
    ask(query, Some(file.to_owned()), &candidate, desk, token).await
}

async fn ask(
    query: &str,
    file: Option<PathBuf>,
    candidate: &Candidate,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Search, NoResult> {
    let more = json!({"query": query});
    let question = Question { method: "workspace/symbol", at: At::Project(file), more };
    let mut reply = desk.project.ask(candidate, &question, token).await?;
    let Listed { list: mut entries, elsewhere, .. } = reply.read(candidate, symbols)?;
    // The same name first, then what is nearest to it.
    entries.sort_by_key(|entry| (entry.name != query, entry.name.len(), entry.place.clone()));
    let who = candidate.server.name.clone();
    Ok(Search { entries, elsewhere, completeness: reply.completeness, who })
}

impl Search {
    fn with(mut self, other: Self) -> Self {
        self.entries.extend(other.entries);
        self.elsewhere += other.elsewhere;
        let completeness = match self.completeness {
            Completeness::Complete => other.completeness,
            unsure => unsure,
        };
        Self { completeness, who: format!("{} and {}", self.who, other.who), ..self }
    }
}

/// A file of the kind that there are most of: servers know no project before one is open.
async fn representative(desk: &Desk) -> Result<PathBuf, NoResult> {
    let (servers, roots) = (desk.project.servers.clone(), desk.roots.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let never = CancellationToken::new();
        let found = survey(roots.all(), roots.excluded(), SURVEY_TIME, &never);
        let definitions = &servers.settings().servers;
        let mut kinds: BTreeMap<String, (usize, PathBuf)> = BTreeMap::new();
        for (path, _) in found.files {
            let navigates = |path: &Path| {
                let mut all = definitions.iter().filter(|it| it.purpose == Purpose::Everything);
                all.find_map(|definition| language_of(path, definition))
            };
            if let Some(language) = navigates(&path).map(str::to_owned) {
                kinds.entry(language).or_insert((0, path)).0 += 1;
            }
        }
        // What is written about code is not the code.
        let is_code =
            |language: &str| !["markdown", "json", "yaml", "toml", "html"].contains(&language);
        let most =
            kinds.into_iter().max_by_key(|(language, (count, _))| (is_code(language), *count));
        most.map(|(_, (_, path))| path)
    });
    let found = looking.await.ok().flatten();
    found.ok_or_else(|| {
        NoResult::Wrong("the project has no files that a server is known for".to_owned())
    })
}
