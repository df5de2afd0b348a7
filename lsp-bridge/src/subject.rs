//! What a question is about: from the text of a symbol, with or without a file and a line, to the place to ask
//! about and the server to ask; or to a list of what may be meant.

use std::path::PathBuf;

use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::answer::Place;
use crate::answer::entries::{Entry, outline};
use crate::ask::{At, Question, read};
use crate::desk::{Desk, NoResult};
use crate::reply::Trouble;
use crate::servers::Candidate;
use crate::symbol::{Symbol, quoted};
use crate::symbols::search;
use crate::tool::Told;
use crate::view::{self, DeskView, Ignored, Page, Row, in_no_file, trust};

/// How many places a symbol may stand for before the model has to choose.
const MAX_CANDIDATES: usize = 20;

/// What is asked about, and whom.
pub(crate) struct Subject {
    pub(crate) candidate: Candidate,
    pub(crate) at: At,
    /// Where the project has it, when it was found by its name.
    pub(crate) named: Option<Place>,
}

/// What is meant; or a list of what may be.
pub(crate) async fn find(
    symbol: &Symbol,
    file: Option<&PathBuf>,
    line: Option<usize>,
    desk: &Desk,
    token: &CancellationToken,
) -> Result<Result<Subject, Told>, NoResult> {
    let Some(file) = file else { return by_name(symbol, desk, token).await };
    let candidate = desk.navigator(file, token).await?;
    let file = file.clone();
    if let Some(line) = line {
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
            // Some servers give the beginning of the whole item.
            let at = At::Symbol { file, line: one.place.range.start.line, symbol: symbol.clone() };
            Ok(Ok(Subject { candidate, at, named: None }))
        }
        [] => in_text(symbol, file, candidate, desk).await,
        several => Ok(Err(choose(several, desk).await)),
    }
}

/// Where it stands in the text of a file, if that is one place.
async fn in_text(
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
        [] => Err(NoResult::Wrong(format!("`{}` is not in {}", symbol.name, desk.shown(&file)))),
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
        several => Ok(Err(choose(several, desk).await)),
    }
}

async fn choose(entries: &[Entry], desk: &Desk) -> Told {
    let rows = entries
        .iter()
        .map(|entry| Row { place: entry.place.clone(), label: Some(labelled(entry)) });
    let page = Page { limit: MAX_CANDIDATES, offset: 0 };
    let who = "say which with `path` and `line`".to_owned();
    let what = ("symbol of that name", "symbols of that name");
    view::list(&DeskView::of(desk), rows.collect(), what, who, page, Ignored::Shown).await
}

fn is_named(entry: &Entry, symbol: &Symbol) -> bool {
    // Some servers add parameters to the name.
    let name = entry.name.split(['(', '<']).next().unwrap_or_default().trim();
    name == symbol.name || name.rsplit(['.', ':']).next() == Some(symbol.name.as_str())
}

/// An entry in words.
pub(crate) fn labelled(entry: &Entry) -> String {
    match &entry.container {
        Some(container) if *container != entry.name => {
            format!("{} {} in {container}", entry.kind, entry.name)
        }
        _ => format!("{} {}", entry.kind, entry.name),
    }
}
