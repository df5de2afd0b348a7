//! `bridle sessions show`: a session for a person at a terminal, or its events for a program.

use std::io::{self, BufWriter, Write};

use bridle_agent::{Call, Entry, Shown};
use bridle_session::{Block, Content, Seq, Session, UserMessage};
use bridle_store::FileStore;
use clap::Args;

use super::print::{self, minute};
use super::reference::Reference;
use super::report::{Report, Section};
use super::{Exit, diff, read, words};
use crate::tally;
use crate::text::{unbroken, visible, visible_block, visible_json};

/// How many lines of a call's output are shown; `--json` and the exports have all of it.
const OUTPUT_LINES: usize = 12;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The session: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    session: Reference,
    /// Only the last N turns.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Print the header and the events as they are stored, one JSON object a line.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let id = arguments.session.resolve(store)?;
    let session = read(store, &id)?.session;
    let mut report = Report::of(&session);
    if let Some(turns) = arguments.last {
        report.keep_last(usize::try_from(turns).unwrap_or(usize::MAX));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let first = arguments.last.and(report.sections.first()).map_or(Seq(0), |section| section.first);
    match arguments.json {
        true => events(&mut out, &session, first)?,
        false => text(&mut out, &report)?,
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn events(out: &mut impl Write, session: &Session, first: Seq) -> io::Result<()> {
    print::json(out, &**session.header())?;
    for event in session.events().iter().filter(|event| event.seq >= first) {
        let line = event.to_line().map_err(io::Error::from)?;
        writeln!(out, "{}", visible_json(&line))?;
    }
    Ok(())
}

/// The readable form.
pub(super) fn text(out: &mut impl Write, report: &Report<'_>) -> io::Result<()> {
    let header = report.header;
    writeln!(out, "{}", visible(report.title.unwrap_or("(no title)")))?;
    writeln!(out, "{}  {}", header.id, visible(&header.cwd.to_string_lossy()))?;
    writeln!(
        out,
        "{} to {} UTC, {}, {}",
        minute(header.created_at),
        minute(report.updated_at),
        visible(&words::models(report)),
        words::count(report.turns, "turn"),
    )?;
    writeln!(out, "{}", tally::spent(report.usage.total, &report.usage.cost))?;
    report.sections.iter().try_for_each(|part| section(out, part))
}

fn section(out: &mut impl Write, section: &Section<'_>) -> io::Result<()> {
    match section.turn {
        Some(turn) => writeln!(out, "\n── turn {turn} ── {} ──", minute(section.started_at))?,
        None => writeln!(out, "\n── {} ──", minute(section.started_at))?,
    }
    section.entries.iter().try_for_each(|part| entry(out, part))
}

fn entry(out: &mut impl Write, entry: &Entry<'_>) -> io::Result<()> {
    match &entry.shown {
        Shown::Prompt(message) | Shown::NotSent(message, _) | Shown::Queued(message) => {
            prompt(out, message)?;
        }
        Shown::Context { name, .. } => writeln!(out, "\n  (told the model: {})", visible(name))?,
        Shown::Thought { text, .. } => {
            writeln!(out)?;
            block(out, "  · ", text)?;
        }
        Shown::Text { text, .. } => {
            writeln!(out)?;
            block(out, "", text.trim_end())?;
        }
        Shown::Unsettled(partial) => {
            writeln!(out)?;
            for timed in &partial.blocks {
                if let Block::Text { text } = &timed.block {
                    block(out, "", text.trim_end())?;
                }
            }
        }
        Shown::Call(part) => call(out, part)?,
        Shown::Answered { message, .. } if message.interrupted => {
            writeln!(out, "  (broken off here)")?;
        }
        Shown::Todo(todo) => {
            writeln!(out)?;
            for item in &todo.items {
                writeln!(out, "  {} {}", words::mark(item.status), visible(&item.text))?;
            }
        }
        Shown::Title(title) => writeln!(out, "\n  (title: {})", visible(title))?,
        _ => {}
    }
    match entry.shown.notice() {
        Some(notice) => writeln!(out, "\n  ! {}", unbroken(&words::sentence(&notice))),
        None => Ok(()),
    }
}

fn prompt(out: &mut impl Write, message: &UserMessage) -> io::Result<()> {
    writeln!(out)?;
    for part in &message.content {
        match part {
            Content::Text { text } => block(out, "> ", text)?,
            Content::Resource { uri, .. } => writeln!(out, "> [attached: {}]", visible(uri))?,
            Content::Link { uri, name } => {
                writeln!(out, "> [link: {} {}]", visible(name), visible(uri))?;
            }
            Content::Blob { preview, .. } => block(out, "> ", preview)?,
            Content::Image { mime_type, .. } => writeln!(out, "> [image: {}]", visible(mime_type))?,
        }
    }
    Ok(())
}

fn call(out: &mut impl Write, call: &Call<'_>) -> io::Result<()> {
    let display = call.display();
    let took = call.took.map(|took| format!(", {}", words::duration(took))).unwrap_or_default();
    writeln!(
        out,
        "\n  * {}{} ({}{took})",
        words::kind(&display).map(|kind| format!("{kind} ")).unwrap_or_default(),
        visible(&display.title),
        words::status(call),
    )?;
    for asked in &call.questions {
        writeln!(out, "    asked: {}: {}", visible(&asked.question.title), words::decision(asked))?;
    }
    for change in &display.diffs {
        let (added, removed) = diff::changed_lines(change);
        writeln!(out, "    {} +{added} -{removed}", visible(&change.path.to_string_lossy()))?;
    }
    let text = display.text.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    for line in lines.iter().take(OUTPUT_LINES) {
        writeln!(out, "    {}", visible_block(line))?;
    }
    match lines.len().checked_sub(OUTPUT_LINES) {
        Some(more @ 1..) => writeln!(out, "    … {} more", words::count(more, "line")),
        _ => Ok(()),
    }
}

/// Every line of a text behind a mark.
fn block(out: &mut impl Write, mark: &str, text: &str) -> io::Result<()> {
    text.lines().try_for_each(|line| writeln!(out, "{mark}{}", visible_block(line)))
}
