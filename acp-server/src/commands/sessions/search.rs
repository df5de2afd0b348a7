//! `bridle sessions search`: what was said, in whichever session.

use std::collections::HashMap;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use bridle_session::{EventData, Seq, SessionId, TurnNumber};
use bridle_store::{FileStore, Hit, HitKind, SearchQuery, SessionStore as _, Snippet};
use clap::Args;
use serde_json::{Value, json};

use super::filter::Filter;
use super::print::{self, minute, shown_title, time};
use super::{Exit, failure, progress, say};
use crate::text::visible;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The words; each must be in one message, in any case. The last may be the beginning of one.
    #[arg(value_name = "WORDS", required = true)]
    words: Vec<String>,
    #[command(flatten)]
    filter: Filter,
    /// The most hits.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    limit: u16,
    /// Print one JSON object a line: session, title, folder, turn, seq, time, kind, snippet (text,
    /// marks as byte ranges in it, cutBefore, cutBehind).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let query = SearchQuery {
        text: arguments.words.join(" "),
        filter: arguments.filter.resolve()?,
        limit: arguments.limit.into(),
    };
    let spinner = progress::spinner("searching");
    let results = store.search(&query);
    spinner.finish_and_clear();
    let results = results.map_err(failure)?;
    let mut turns = Turns { store, starts: HashMap::new() };
    let mut out = BufWriter::new(io::stdout().lock());
    let mut shown: Option<&SessionId> = None;
    for hit in &results.hits {
        let turn = turns.of(&hit.session.header.id, hit.seq);
        if arguments.json {
            print::json(&mut out, &as_json(hit, turn))?;
            continue;
        }
        if shown.replace(&hit.session.header.id) != Some(&hit.session.header.id) {
            session(&mut out, hit)?;
        }
        tell(&mut out, hit, turn)?;
    }
    out.flush()?;
    if results.hits.is_empty() {
        say(format_args!("bridle: nothing found"));
    } else if results.more {
        say(format_args!("bridle: there is more; raise --limit, or add words or filters"));
    }
    for (_, error) in &results.unreadable {
        say(format_args!("bridle: not searched: {error}"));
    }
    Ok(if results.unreadable.is_empty() { Exit::Done } else { Exit::Failed })
}

fn session(out: &mut impl Write, hit: &Hit) -> io::Result<()> {
    let header = &hit.session.header;
    let (folder, title) = (header.cwd.to_string_lossy(), shown_title(hit.session.title()));
    writeln!(out, "{}  {}  {title}", header.id, visible(&folder))
}

fn tell(out: &mut impl Write, hit: &Hit, turn: Option<TurnNumber>) -> io::Result<()> {
    let turn = turn.map(|turn| format!("turn {turn}, ")).unwrap_or_default();
    let snippet = marked(&hit.snippet, io::stdout().is_terminal());
    writeln!(out, "  {turn}{}, {}: {snippet}", kind(hit.kind), minute(hit.time))
}

/// The words with each hit in bold, or in brackets where nothing shows bold.
fn marked(snippet: &Snippet, bold: bool) -> String {
    let (open, close) = if bold { ("\u{1b}[1m", "\u{1b}[0m") } else { ("[", "]") };
    let part = |range| visible(snippet.text.get(range).unwrap_or_default());
    let mut text = String::new();
    let mut done = 0;
    for mark in &snippet.marks {
        text.push_str(&part(done..mark.start));
        text.push_str(&format!("{open}{}{close}", part(mark.clone())));
        done = mark.end;
    }
    text.push_str(&part(done..snippet.text.len()));
    let cut = |cut| if cut { "…" } else { "" };
    format!("{}{text}{}", cut(snippet.cut_before), cut(snippet.cut_behind))
}

fn kind(kind: HitKind) -> &'static str {
    match kind {
        HitKind::Title => "title",
        HitKind::Human => "prompt",
        HitKind::Answer => "answer",
        HitKind::Tool => "tool",
    }
}

fn as_json(hit: &Hit, turn: Option<TurnNumber>) -> Value {
    let header = &hit.session.header;
    let marks = hit.snippet.marks.iter().map(|mark| [mark.start, mark.end]);
    json!({
        "session": header.id,
        "title": hit.session.title(),
        "folder": header.cwd.to_string_lossy(),
        "turn": turn,
        "seq": hit.seq,
        "time": time(hit.time),
        "kind": kind(hit.kind),
        "snippet": {
            "text": hit.snippet.text,
            "marks": marks.collect::<Vec<_>>(),
            "cutBefore": hit.snippet.cut_before,
            "cutBehind": hit.snippet.cut_behind,
        },
    })
}

/// Where the turns of the sessions that have hits begin; each log is read once.
struct Turns<'a> {
    store: &'a FileStore,
    starts: HashMap<SessionId, Vec<(Seq, TurnNumber)>>,
}

impl Turns<'_> {
    fn of(&mut self, id: &SessionId, seq: Seq) -> Option<TurnNumber> {
        let starts = self.starts.entry(id.clone()).or_insert_with(|| {
            let Ok(log) = self.store.read(id) else { return Vec::new() };
            let starts = log.session.events().iter().filter_map(|event| match &event.data {
                EventData::TurnStart(start) => Some((event.seq, start.turn)),
                _ => None,
            });
            starts.collect()
        });
        starts.iter().rev().find(|(start, _)| *start <= seq).map(|(_, turn)| *turn)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hits_are_marked_and_nothing_else_acts_on_a_terminal() {
        let snippet = Snippet {
            text: "a\u{202e}b word c".to_owned(),
            marks: std::iter::once(6..10).collect(),
            cut_before: true,
            cut_behind: false,
        };
        assert_eq!(marked(&snippet, false), r"…a\u{202e}b [word] c");
        assert_eq!(marked(&snippet, true), "…a\\u{202e}b \u{1b}[1mword\u{1b}[0m c");
    }
}
