//! `code_nav`: where a symbol is defined, used, implemented or called, and what a rename would change.

use std::path::PathBuf;

use async_trait::async_trait;
use bridle_agent::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answer::{Entry, Place, call_items, calls, edits, hover, outline, places};
use crate::ask::{At, Question, Reply, Trouble, read};
use crate::desk::{Desk, NoResult};
use crate::preview::preview;
use crate::servers::Candidate;
use crate::symbol::{Symbol, quoted};
use crate::symbols::search;
use crate::tool::{Ask, Told};
use crate::view::{self, DeskView, Ignored, Page, Row, in_no_file, trust};

/// How many places a symbol may stand for before the model has to choose.
const MAX_CANDIDATES: usize = 20;

/// Of how many overloads calls are asked for.
const MAX_CALL_ITEMS: usize = 4;

/// The longest text of a hover, in characters.
const MAX_HOVER: usize = 4_000;

/// The arguments.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nav {
    op: Op,
    symbol: String,
    #[serde(default)]
    path: Option<String>,
    #[serde(default)]
    line: Option<usize>,
    #[serde(default)]
    new_name: Option<String>,
    #[serde(default)]
    limit: Option<usize>,
    #[serde(default)]
    offset: Option<usize>,
}

#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
enum Op {
    Definition,
    TypeDefinition,
    Implementations,
    References,
    Hover,
    IncomingCalls,
    OutgoingCalls,
    RenamePreview,
}

impl Op {
    fn name(self) -> &'static str {
        match self {
            Self::Definition => "definition",
            Self::TypeDefinition => "type definition",
            Self::Implementations => "implementations",
            Self::References => "references",
            Self::Hover => "hover",
            Self::IncomingCalls => "incoming calls",
            Self::OutgoingCalls => "outgoing calls",
            Self::RenamePreview => "rename preview",
        }
    }
}

/// What is asked about, and whom.
struct Subject {
    candidate: Candidate,
    at: At,
    /// Where the project has it, when it was found by its name.
    named: Option<Place>,
}

#[async_trait]
impl Ask for Nav {
    const TOOL: &'static str = "code_nav";
    const KIND: ToolKind = ToolKind::Search;
    const DESCRIPTION: &'static str = "Asks a language server about a symbol: where it is defined \
        (`definition`, `type_definition`), implemented, used (`references`), called from or calling \
        (`incoming_calls`, `outgoing_calls`), what it is (`hover`), and what a rename would change \
        (`rename_preview`: nothing is changed). Name the symbol by its text on a line of a file; \
        `name#2` is the second on that line. Without `line` it is looked for in the file, without \
        `path` in the project. Worth it where text search is ambiguous, and before a signature is \
        changed; `search` and `read` do for the rest. The answer says whether it is complete.";

    fn schema() -> Value {
        let text = |description: &str| json!({"type": "string", "description": description});
        let number = |description: &str| json!({"type": "integer", "minimum": 0, "description": description});
        let ops = [
            "definition",
            "type_definition",
            "implementations",
            "references",
            "hover",
            "incoming_calls",
            "outgoing_calls",
            "rename_preview",
        ];
        json!({
            "type": "object",
            "properties": {
                "op": {"type": "string", "enum": ops},
                "symbol": text("The symbol's text: `name`, `a.b.name`, or `name#2` for the second on its line."),
                "path": text("The file that it stands in."),
                "line": {"type": "integer", "minimum": 1, "description": "The line that it stands on, from 1."},
                "new_name": text("For `rename_preview`: the new name."),
                "limit": number("How many results to show; 100 without it, 0 for how many there are in which files."),
                "offset": number("How many results to skip."),
            },
            "required": ["op", "symbol"],
            "additionalProperties": false,
        })
    }

    fn paths(&self) -> Vec<&str> {
        self.path.iter().map(String::as_str).collect()
    }

    fn title(&self) -> String {
        let at = match (&self.path, self.line) {
            (Some(path), Some(line)) => format!(" in {path}:{line}"),
            (Some(path), None) => format!(" in {path}"),
            (None, _) => String::new(),
        };
        format!("Code: {} of {}{at}", self.op.name(), self.symbol)
    }

    async fn answer(
        &self,
        files: &[PathBuf],
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let symbol = Symbol::parse(&self.symbol);
        if symbol.name.is_empty() {
            return Err(NoResult::Wrong("`symbol` is empty: say which one is meant".to_owned()));
        }
        let subject = match self.subject(&symbol, files.first(), desk, token).await? {
            Ok(subject) => subject,
            Err(choice) => return Ok(choice),
        };
        match self.op {
            Op::Hover => self.hover(&subject, desk, token).await,
            Op::IncomingCalls | Op::OutgoingCalls => self.calls(&subject, desk, token).await,
            Op::RenamePreview => self.rename(&subject, desk, token).await,
            _ => self.places(&subject, desk, token).await,
        }
    }
}

impl Nav {
    fn page(&self) -> Page {
        Page::of(self.limit, self.offset)
    }

    /// What is meant; or a list of what may be.
    async fn subject(
        &self,
        symbol: &Symbol,
        file: Option<&PathBuf>,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Result<Subject, Told>, NoResult> {
        let Some(file) = file else { return self.by_name(symbol, desk, token).await };
        let candidate = desk.navigator(file, token).await?;
        let file = file.clone();
        if let Some(line) = self.line {
            let line = line.saturating_sub(1);
            let at = At::Symbol { file, line, symbol: symbol.clone() };
            return Ok(Ok(Subject { candidate, at, named: None }));
        }
        let question = Question {
            method: "textDocument/documentSymbol",
            at: At::File(file.clone()),
            more: json!({}),
        };
        // A server without an outline may do the rest.
        let outlined = desk.project.ask(&candidate, &question, token).await;
        let entries = match &outlined {
            Ok(reply) => outline(&reply.result, &file).map(|it| it.list).unwrap_or_default(),
            Err(Trouble::Cancelled) => return Err(Trouble::Cancelled.into()),
            Err(_) => Vec::new(),
        };
        let named: Vec<_> = entries.into_iter().filter(|entry| is_named(entry, symbol)).collect();
        match named.as_slice() {
            [one] => {
                let at = At::Position { file, position: one.place.range.start };
                let at = self.on_line(at, one, symbol);
                Ok(Ok(Subject { candidate, at, named: None }))
            }
            [] => self.in_text(symbol, file, candidate, desk).await,
            several => Ok(Err(self.choose(several, desk).await)),
        }
    }

    /// The symbol on the line of its entry: some servers give the beginning of the whole item.
    fn on_line(&self, at: At, entry: &Entry, symbol: &Symbol) -> At {
        match at {
            At::Position { file, .. } => {
                At::Symbol { file, line: entry.place.range.start.line, symbol: symbol.clone() }
            }
            at => at,
        }
    }

    /// Where it stands in the text of a file, if that is one place.
    async fn in_text(
        &self,
        symbol: &Symbol,
        file: PathBuf,
        candidate: Candidate,
        desk: &Desk,
    ) -> Result<Result<Subject, Told>, NoResult> {
        let source = read(&desk.project.files, &file).await?;
        let mut lines: Vec<_> = symbol
            .everywhere(&source, crate::position::Encoding::Utf8)
            .into_iter()
            .map(|position| position.line)
            .collect();
        lines.dedup();
        match lines.as_slice() {
            [] => {
                Err(NoResult::Wrong(format!("`{}` is not in {}", symbol.name, desk.shown(&file))))
            }
            [line] => {
                let at = At::Symbol { file, line: *line, symbol: symbol.clone() };
                Ok(Ok(Subject { candidate, at, named: None }))
            }
            several => {
                let mut text =
                    format!("`{}` stands on several lines; say which with `line`:\n", symbol.name);
                for line in several.iter().take(MAX_CANDIDATES) {
                    let source = source.line(*line).map(quoted).unwrap_or_default();
                    text.push_str(&format!("{}:{}: {source}\n", desk.shown(&file), line + 1));
                }
                Ok(Err(Told { text, ..Told::default() }))
            }
        }
    }

    /// What the project has of this name.
    async fn by_name(
        &self,
        symbol: &Symbol,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Result<Subject, Told>, NoResult> {
        let found = search(&symbol.name, desk, token).await?;
        let mut named: Vec<_> =
            found.entries.iter().filter(|entry| is_named(entry, symbol)).cloned().collect();
        named.retain(|entry| desk.is_inside(&entry.place.path));
        match named.as_slice() {
            [] => {
                let who = trust(&found.completeness) + &in_no_file(found.elsewhere);
                Err(NoResult::Wrong(format!(
                    "no symbol named `{}` was found in the project ({}, {who}); give `path` and `line`",
                    symbol.name, found.who
                )))
            }
            [one] => {
                let candidate = desk.navigator(&one.place.path, token).await?;
                let (file, line) = (one.place.path.clone(), one.place.range.start.line);
                let at = At::Symbol { file, line, symbol: symbol.clone() };
                Ok(Ok(Subject { candidate, at, named: Some(one.place.clone()) }))
            }
            several => Ok(Err(self.choose(several, desk).await)),
        }
    }

    async fn choose(&self, entries: &[Entry], desk: &Desk) -> Told {
        let rows = entries
            .iter()
            .map(|entry| Row { place: entry.place.clone(), label: Some(labelled(entry)) });
        let page = Page { limit: MAX_CANDIDATES, offset: 0 };
        let who = "say which with `path` and `line`".to_owned();
        let what = ("symbol of that name", "symbols of that name");
        view::list(&DeskView::of(desk), rows.collect(), what, who, page, Ignored::Shown).await
    }

    async fn places(
        &self,
        subject: &Subject,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let (method, what, ignored) = match self.op {
            Op::TypeDefinition => (
                "textDocument/typeDefinition",
                ("type definition", "type definitions"),
                Ignored::Shown,
            ),
            Op::Implementations => (
                "textDocument/implementation",
                ("implementation", "implementations"),
                Ignored::LeftOut,
            ),
            Op::References => {
                ("textDocument/references", ("reference", "references"), Ignored::LeftOut)
            }
            _ => ("textDocument/definition", ("definition", "definitions"), Ignored::Shown),
        };
        let more = match self.op {
            Op::References => json!({"context": {"includeDeclaration": true}}),
            _ => json!({}),
        };
        let mut reply = ask(subject, method, more, desk, token).await?;
        let mut places = reply.read(&subject.candidate, places)?;
        // Asked where a function is defined, some servers tell where it is declared, and the reverse.
        if let (Op::Definition, Some(named)) = (self.op, &subject.named)
            && !places
                .list
                .iter()
                .any(|one| one.path == named.path && one.range.start.line == named.range.start.line)
        {
            places.list.insert(0, named.clone());
        }
        if places.list.is_empty() && places.elsewhere == 0 {
            return Ok(nothing(what.1, subject, &reply));
        }
        let who = who(subject, &reply) + &in_no_file(places.elsewhere);
        let rows = places.list.into_iter().map(|place| Row { place, label: None }).collect();
        Ok(view::list(&DeskView::of(desk), rows, what, who, self.page(), ignored).await)
    }

    async fn hover(
        &self,
        subject: &Subject,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let mut reply = ask(subject, "textDocument/hover", json!({}), desk, token).await?;
        let texts = reply.read(&subject.candidate, hover)?.list;
        if texts.is_empty() {
            return Ok(nothing("description", subject, &reply));
        }
        let text = texts.join("\n\n");
        let cut = match text.char_indices().nth(MAX_HOVER) {
            Some((end, _)) => {
                let kept = text.get(..end).unwrap_or_default();
                format!("{kept}\n[{} more bytes are not shown]", text.len() - end)
            }
            None => text,
        };
        let text = format!("({})\n{cut}\n", who(subject, &reply));
        Ok(Told { text, ..Told::default() })
    }

    async fn calls(
        &self,
        subject: &Subject,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let prepare = "textDocument/prepareCallHierarchy";
        let mut prepared = ask(subject, prepare, json!({}), desk, token).await?;
        let (method, end, what) = match self.op {
            Op::IncomingCalls => {
                ("callHierarchy/incomingCalls", "from", ("incoming call", "incoming calls"))
            }
            _ => ("callHierarchy/outgoingCalls", "to", ("outgoing call", "outgoing calls")),
        };
        let items = prepared.read(&subject.candidate, call_items)?.list;
        if items.is_empty() {
            return Ok(nothing("function that calls could be shown of", subject, &prepared));
        }
        let (mut rows, mut last, mut elsewhere) = (Vec::new(), prepared, 0);
        for (item, origin) in items.iter().take(MAX_CALL_ITEMS) {
            let question = Question { method, at: At::Project(None), more: json!({"item": item}) };
            let mut reply = desk.project.ask(&subject.candidate, &question, token).await?;
            let read = reply.read(&subject.candidate, |result| calls(result, end))?;
            elsewhere += read.elsewhere;
            for call in read.list {
                rows.extend(call_rows(call, origin.as_ref(), self.op == Op::IncomingCalls));
            }
            last = Reply { found: last.found, ..reply };
        }
        if rows.is_empty() && elsewhere == 0 {
            return Ok(nothing(what.1, subject, &last));
        }
        let (view, who) = (DeskView::of(desk), who(subject, &last) + &in_no_file(elsewhere));
        Ok(view::list(&view, rows, what, who, self.page(), Ignored::LeftOut).await)
    }

    async fn rename(
        &self,
        subject: &Subject,
        desk: &Desk,
        token: &CancellationToken,
    ) -> Result<Told, NoResult> {
        let new_name = self.new_name.as_deref().filter(|name| !name.is_empty());
        let new_name = new_name
            .ok_or_else(|| NoResult::Wrong("`rename_preview` needs `new_name`".to_owned()))?;
        // Where it is only used, some servers rename it there alone.
        let definition = ask(subject, "textDocument/definition", json!({}), desk, token).await;
        let places = definition.ok().and_then(|reply| places(&reply.result).ok());
        let places = places.map(|places| places.list).unwrap_or_default();
        let at = match places.as_slice() {
            [one] if desk.is_inside(&one.path) => {
                At::Position { file: one.path.clone(), position: one.range.start }
            }
            _ => subject.at.clone(),
        };
        let there = Subject { candidate: subject.candidate.clone(), at, named: None };
        let more = json!({"newName": new_name});
        let mut reply = ask(&there, "textDocument/rename", more, desk, token).await?;
        let changes = reply.read(&subject.candidate, edits)?;
        if changes.list.is_empty() && changes.elsewhere == 0 {
            return Ok(nothing("change", subject, &reply));
        }
        let encoding = match subject.candidate.server.warm() {
            Some(woken) => woken.life.encoding,
            None => Default::default(),
        };
        let who = who(subject, &reply) + &in_no_file(changes.elsewhere);
        Ok(preview(&changes.list, &who, encoding, desk).await)
    }
}

fn call_rows(call: crate::answer::Calls, origin: Option<&PathBuf>, incoming: bool) -> Vec<Row> {
    let label = Some(labelled(&call.entry));
    // The places of calls are in the caller: there, or where the calls are asked of.
    let caller = if incoming { Some(&call.entry.place.path) } else { origin };
    let row = |range| {
        let path = caller.cloned().unwrap_or_else(|| call.entry.place.path.clone());
        Row { place: crate::answer::Place { path, range }, label: label.clone() }
    };
    match call.at.is_empty() {
        true => vec![Row { place: call.entry.place.clone(), label }],
        false => call.at.iter().copied().map(row).collect(),
    }
}

async fn ask(
    subject: &Subject,
    method: &'static str,
    more: Value,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Reply, Trouble> {
    let question = Question { method, at: subject.at.clone(), more };
    desk.project.ask(&subject.candidate, &question, token).await
}

/// Who says so, how far that can be trusted, and how the symbol was found.
fn who(subject: &Subject, reply: &Reply) -> String {
    let name = &subject.candidate.server.name;
    let note = reply.found.as_ref().and_then(|found| found.note.as_ref());
    let note = note.map(|note| format!("; {note}")).unwrap_or_default();
    format!("{name}, {}{note}", trust(&reply.completeness))
}

/// That there is nothing; or that this is not known.
fn nothing(what: &str, subject: &Subject, reply: &Reply) -> Told {
    let name = &subject.candidate.server.name;
    let note = reply.found.as_ref().and_then(|found| found.note.as_ref());
    let note = note.map(|note| format!(" {note}.")).unwrap_or_default();
    view::nothing(what, name, &reply.completeness, &note)
}

fn is_named(entry: &Entry, symbol: &Symbol) -> bool {
    // Some servers add parameters to the name.
    let name = entry.name.split(['(', '<']).next().unwrap_or_default().trim();
    name == symbol.name || name.rsplit(['.', ':']).next() == Some(symbol.name.as_str())
}

fn labelled(entry: &Entry) -> String {
    match &entry.container {
        Some(container) if *container != entry.name => {
            format!("{} {} in {container}", entry.kind, entry.name)
        }
        _ => format!("{} {}", entry.kind, entry.name),
    }
}
