//! A session as plain Markdown: answers as the model wrote them, everything else quoted or fenced,
//! so that no content can pass for the frame around it.

use bridle_agent::{Call, Compaction, Entry, NoticeLevel, Shown};
use bridle_session::{Block, Content, UserMessage};

use super::super::diff::{self, Hunk};
use super::super::print::minute;
use super::super::report::{Report, Section, first_line};
use super::super::words;
use super::prose;
use crate::tally;
use crate::text::{shorten, unbroken, visible, visible_block};

/// The longest prompt in a heading, in characters.
const HEADING_LIMIT: usize = 80;

/// The whole document.
pub(in crate::commands::sessions) fn render(report: &Report<'_>) -> String {
    let mut text = format!("# {}\n\n", inline(report.title.unwrap_or("Session without a title")));
    let header = report.header;
    let rows = [
        ("Folder", code(&header.cwd.to_string_lossy())),
        ("Session", code(header.id.as_str())),
        ("Began", format!("{} UTC", minute(header.created_at))),
        ("Last change", format!("{} UTC", minute(report.updated_at))),
        ("Model", inline(&words::models(report))),
        ("Turns", report.turns.to_string()),
        ("Tool calls", report.calls.all.to_string()),
        ("Usage", tally::spent(report.usage.total, &report.usage.cost)),
    ];
    for (name, value) in rows {
        text.push_str(&format!("- {name}: {value}\n"));
    }
    report.sections.iter().for_each(|part| section(&mut text, part));
    text
}

fn section(text: &mut String, section: &Section<'_>) {
    let at = minute(section.started_at);
    match (section.turn, section.prompt()) {
        (Some(turn), Some(prompt)) => {
            let prompt = inline(&shorten(first_line(prompt), HEADING_LIMIT));
            text.push_str(&format!("\n## {turn}. {prompt}\n\n*{at} UTC*\n"));
        }
        (Some(turn), None) => text.push_str(&format!("\n## Turn {turn}\n\n*{at} UTC*\n")),
        (None, _) => text.push_str(&format!("\n---\n\n*{at} UTC*\n")),
    }
    section.entries.iter().for_each(|part| entry(text, part));
}

fn entry(text: &mut String, entry: &Entry<'_>) {
    match &entry.shown {
        Shown::Prompt(message) | Shown::NotSent(message, _) | Shown::Queued(message) => {
            prompt(text, message);
        }
        Shown::Context { name, message } => {
            text.push_str(&format!("\n*Bridle told the model ({}):*\n", inline(name)));
            parts(text, message);
        }
        Shown::Compacted(_, Compaction::Done { summary: Some(summary), .. }) => {
            text.push_str("\n*What the model reads in the place of what stands above:*\n");
            quote(text, summary);
        }
        Shown::Thought { text: thought, .. } => {
            text.push_str("\n*Reasoning:*\n");
            quote(text, thought);
        }
        Shown::Text { text: answer, .. } => said(text, answer),
        Shown::Unsettled(partial) => {
            for timed in &partial.blocks {
                if let Block::Text { text: answer } = &timed.block {
                    said(text, answer);
                }
            }
        }
        Shown::Call(part) => call(text, part),
        Shown::Answered { message, .. } => {
            let broken = if message.interrupted { "Broken off. " } else { "" };
            let (route, used) = (inline(&message.route.to_string()), tally::tokens(message.usage));
            text.push_str(&format!("\n*{broken}{route}: {used}*\n"));
        }
        Shown::Todo(todo) => {
            text.push('\n');
            for item in &todo.items {
                text.push_str(&format!("- {} {}\n", words::mark(item.status), inline(&item.text)));
            }
        }
        Shown::Title(title) => text.push_str(&format!("\n*Title: {}*\n", inline(title))),
        _ => {}
    }
    if let Some(notice) = entry.shown.notice() {
        let mark = if notice.level == NoticeLevel::Info { "*" } else { "**" };
        text.push_str(&format!("\n{mark}{}{mark}\n", inline(&words::sentence(&notice))));
    }
}

fn prompt(text: &mut String, message: &UserMessage) {
    text.push_str("\n**Prompt**\n");
    parts(text, message);
}

fn parts(text: &mut String, message: &UserMessage) {
    for part in &message.content {
        match part {
            Content::Text { text: said } => quote(text, said),
            Content::Resource { uri, text: attached, .. } => {
                text.push_str(&format!("\nAttached: {}\n", code(uri)));
                fence(text, "", attached);
            }
            Content::Link { uri, name } => {
                text.push_str(&format!("\nLink: {} {}\n", inline(name), code(uri)));
            }
            Content::Blob { blob, preview, .. } => {
                text.push_str(&format!("\nBlob {} (shortened):\n", code(blob.hash.as_str())));
                fence(text, "", preview);
            }
            Content::Image { blob, mime_type } => {
                let (kind, name) = (code(mime_type), code(blob.hash.as_str()));
                text.push_str(&format!("\nImage {kind}, blob {name}\n"));
            }
        }
    }
}

/// An answer, with its raw HTML made text and an open fence closed.
fn said(text: &mut String, answer: &str) {
    text.push('\n');
    text.push_str(&prose::contained(&visible_block(answer)));
    text.push('\n');
}

fn call(text: &mut String, call: &Call<'_>) {
    let display = call.display();
    let took = call.took.map(|took| format!(", {}", words::duration(took))).unwrap_or_default();
    text.push_str(&format!(
        "\n### {}{}\n\n*{} ({}){took}*\n",
        words::kind(&display).map(|kind| format!("{kind} ")).unwrap_or_default(),
        code(&display.title),
        words::status(call),
        inline(call.name),
    ));
    for asked in &call.questions {
        let (question, answer) = (code(&asked.question.title), words::decision(asked));
        text.push_str(&format!("\nAsked: {question}: {answer}\n"));
    }
    text.push_str("\nArguments:\n");
    fence(text, "json", &words::pretty(call.arguments));
    for change in &display.diffs {
        text.push_str(&format!("\n{}:\n", code(&change.path.to_string_lossy())));
        let hunks = diff::hunks(change);
        fence(text, "diff", &hunks.iter().map(unified).collect::<String>());
    }
    if let Some(output) = &display.text {
        text.push_str("\nResult:\n");
        quote(text, output);
    }
}

fn unified(hunk: &Hunk) -> String {
    let lines = hunk.lines.iter().map(|line| format!("{}{}\n", line.sign.mark(), line.text));
    format!("{}\n{}", hunk.head, lines.collect::<String>())
}

/// A block quote, which ends whatever was opened in it.
fn quote(text: &mut String, quoted: &str) {
    text.push('\n');
    for line in prose::contained(&visible_block(quoted)).lines() {
        text.push_str(&format!("> {line}\n"));
    }
}

/// A code block whose fence is longer than any in it.
fn fence(text: &mut String, language: &str, content: &str) {
    let content = visible_block(content);
    let fence = "`".repeat(longest_run(&content).saturating_add(1).max(3));
    text.push_str(&format!("\n{fence}{language}\n{}\n{fence}\n", content.trim_end_matches('\n')));
}

/// Code on one line.
fn code(content: &str) -> String {
    let content = visible(content);
    let tick = "`".repeat(longest_run(&content).saturating_add(1));
    let space = if content.starts_with('`') || content.ends_with('`') { " " } else { "" };
    format!("{tick}{space}{content}{space}{tick}")
}

fn longest_run(content: &str) -> usize {
    content.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

/// Words on one line, in which nothing is Markdown.
fn inline(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in unbroken(words).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '#' | '|' | '&' | '!' | '~')
        {
            text.push('\\');
        }
        text.push(c);
    }
    text
}
