//! `code_nav`: where a symbol is defined, used, implemented or called, and what a rename would change.

use std::path::PathBuf;

use async_trait::async_trait;
use bridle_agent::ToolKind;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answer::changes::edits;
use crate::answer::entries::{Calls, call_items, calls};
use crate::answer::{Place, hover, places};
use crate::ask::{At, Question};
use crate::desk::{Desk, NoResult};
use crate::preview::preview;
use crate::reply::{Reply, Trouble};
use crate::subject::{self, Subject, labelled};
use crate::symbol::Symbol;
use crate::tool::{Ask, Told};
use crate::view::{self, DeskView, Ignored, Page, Row, in_no_file, trust};

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
        let subject = match subject::find(&symbol, files.first(), self.line, desk, token).await? {
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

fn call_rows(call: Calls, origin: Option<&PathBuf>, incoming: bool) -> Vec<Row> {
    let label = Some(labelled(&call.entry));
    // The places of calls are in the caller: there, or where the calls are asked of.
    let caller = if incoming { Some(&call.entry.place.path) } else { origin };
    let row = |range| {
        let path = caller.cloned().unwrap_or_else(|| call.entry.place.path.clone());
        Row { place: Place { path, range }, label: label.clone() }
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
