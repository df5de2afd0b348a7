//! What a person saw, one element each.

use bridle_agent::{Compaction, Entry, NoticeLevel, Shown};
use bridle_session::{AssistantPartial, Block, Content, UserMessage};

use super::super::super::report::Report;
use super::super::super::words;
use super::call;
use super::writer::Html;
use crate::tally;

pub(super) fn write(html: &mut Html<'_>, report: &Report<'_>, entry: &Entry<'_>) {
    match &entry.shown {
        Shown::Prompt(message) => said(html, "prompt", message),
        Shown::NotSent(message, _) | Shown::Queued(message) => said(html, "prompt unsent", message),
        Shown::Context { name, message } => {
            html.raw("<details class=\"context\"><summary>Bridle told the model: ").text(name);
            html.raw("</summary>");
            said(html, "told", message);
            html.raw("</details>");
        }
        Shown::Compacted(_, Compaction::Done { summary: Some(summary), .. }) => {
            html.raw(
                "<details class=\"context\"><summary>What the model reads in the place of what ",
            );
            html.raw("stands above</summary><div class=\"prose\">");
            html.prose(summary).raw("</div></details>");
        }
        Shown::Thought { text, took, .. } => {
            html.raw("<details class=\"thought\"><summary>Reasoning <span class=\"took\">");
            html.text(&words::duration(*took)).raw("</span></summary><div class=\"prose\">");
            html.prose(text).raw("</div></details>");
        }
        Shown::Text { text, .. } => answer(html, text),
        Shown::Unsettled(partial) => unsettled(html, partial),
        Shown::Call(part) => call::write(html, part),
        Shown::Answered { message, .. } => {
            html.raw("<p class=\"usage\">");
            if message.interrupted {
                html.raw("<strong>Broken off.</strong> ");
            }
            if report.usage.routes.len() > 1 {
                html.text(&message.route.to_string()).raw(" · ");
            }
            html.text(&tally::tokens(message.usage));
            html.raw("</p>");
        }
        Shown::Todo(todo) => {
            html.raw("<ul class=\"todo\">");
            for item in &todo.items {
                html.raw("<li>").raw(words::mark(item.status)).raw(" ").text(&item.text);
                html.raw("</li>");
            }
            html.raw("</ul>");
        }
        Shown::Title(title) => {
            html.raw("<p class=\"mark\">Title: ").text(title).raw("</p>");
        }
        _ => {}
    }
    notice(html, entry);
}

fn notice(html: &mut Html<'_>, entry: &Entry<'_>) {
    let Some(notice) = entry.shown.notice() else { return };
    html.raw(match notice.level {
        NoticeLevel::Info => "<p class=\"mark\">",
        NoticeLevel::Warning => "<p class=\"notice warning\"><strong>Warning:</strong> ",
        NoticeLevel::Error => "<p class=\"notice error\"><strong>Error:</strong> ",
    });
    html.text(&notice.title);
    if let Some(detail) = &notice.detail {
        html.raw(" <span>").text(detail).raw("</span>");
    }
    html.raw("</p>");
}

fn said(html: &mut Html<'_>, class: &'static str, message: &UserMessage) {
    html.raw("<div class=\"").raw(class).raw("\">");
    for part in &message.content {
        content(html, part);
    }
    html.raw("</div>");
}

/// One part of a message, as it was typed.
pub(super) fn content(html: &mut Html<'_>, part: &Content) {
    match part {
        Content::Text { text } => html.raw("<p class=\"typed\">").text(text).raw("</p>"),
        Content::Resource { uri, text, .. } => html
            .raw("<details class=\"attached\"><summary>Attached: ")
            .text(uri)
            .raw("</summary><pre>")
            .text(text)
            .raw("</pre></details>"),
        Content::Link { uri, name } => html
            .raw("<p class=\"attached\">Link: ")
            .text(name)
            .raw(" <code>")
            .text(uri)
            .raw("</code></p>"),
        Content::Blob { blob, preview, .. } => html
            .raw("<pre>")
            .text(preview)
            .raw("</pre><p class=\"attached\">Shortened; all ")
            .text(&words::bytes(blob.bytes))
            .raw(" are in the blob <code>")
            .text(blob.hash.as_str())
            .raw("</code>.</p>"),
        Content::Image { blob, mime_type } => html.image(blob, mime_type),
    };
}

fn answer(html: &mut Html<'_>, text: &str) {
    html.raw("<div class=\"answer prose\">").prose(text).raw("</div>");
}

fn unsettled(html: &mut Html<'_>, partial: &AssistantPartial) {
    for timed in &partial.blocks {
        if let Block::Text { text } = &timed.block {
            answer(html, text);
        }
    }
}
