//! A tool call: folded to one line with its outcome; inside, what was asked, what went in, what
//! changed and what came out.

use bridle_agent::{Call, FileDiff, ToolStatus};
use bridle_session::Content;

use super::super::super::diff::{self, Sign};
use super::super::super::words;
use super::entry;
use super::writer::Html;

pub(super) fn write(html: &mut Html<'_>, call: &Call<'_>) {
    let display = call.display();
    html.raw("<details class=\"call ").raw(class(call.status)).raw("\"><summary>");
    if let Some(kind) = words::kind(&display) {
        html.raw("<span class=\"kind\">").raw(kind).raw("</span> ");
    }
    html.raw("<span class=\"what\">").text(&display.title);
    html.raw("</span> ");
    let (added, removed) = display.diffs.iter().fold((0, 0), |(added, removed), change| {
        let (more, less) = diff::changed_lines(change);
        (added + more, removed + less)
    });
    if !display.diffs.is_empty() {
        html.raw("<span class=\"stat\"><ins>+").number(added as u64).raw("</ins> <del>−");
        html.number(removed as u64).raw("</del></span> ");
    }
    html.raw("<span class=\"status\">").raw(words::status(call));
    if let Some(took) = call.took {
        html.raw(" · ").text(&words::duration(took));
    }
    html.raw("</span></summary><div class=\"inside\">");
    for asked in &call.questions {
        html.raw("<p class=\"asked\">Asked: ").text(&asked.question.title).raw(" <strong>");
        html.raw(words::decision(asked)).raw("</strong></p>");
    }
    for location in &display.locations {
        html.raw("<p class=\"place\"><code>").text(&location.path.to_string_lossy());
        if let Some(line) = location.line {
            html.raw(":").number(line.into());
        }
        html.raw("</code></p>");
    }
    display.diffs.iter().for_each(|part| change(html, part));
    if let Some(text) = &display.text {
        html.raw("<div class=\"prose output\">").prose(text).raw("</div>");
    }
    details(html, call);
    html.raw("</div></details>");
}

fn class(status: ToolStatus) -> &'static str {
    match status {
        ToolStatus::Pending | ToolStatus::Running => "open-call",
        ToolStatus::Completed => "completed",
        ToolStatus::Failed => "failed",
    }
}

fn change(html: &mut Html<'_>, change: &FileDiff) {
    html.raw("<figure class=\"diff\"><figcaption>").text(&change.path.to_string_lossy());
    html.raw(if change.old_text.is_none() {
        " (new)</figcaption><pre>"
    } else {
        "</figcaption><pre>"
    });
    for hunk in diff::hunks(change) {
        html.raw("<span class=\"hunk\">").text(&hunk.head).raw("</span>");
        for line in hunk.lines {
            html.raw(match line.sign {
                Sign::Kept => "<span> ",
                Sign::Removed => "<span class=\"removed\">-",
                Sign::Added => "<span class=\"added\">+",
            });
            html.text(&line.text).raw("</span>");
        }
    }
    html.raw("</pre></figure>");
}

/// What passed between the model and the tool, word for word.
fn details(html: &mut Html<'_>, call: &Call<'_>) {
    html.raw("<details class=\"raw\"><summary>Arguments of ")
        .text(call.name)
        .raw("</summary><pre>");
    html.text(&words::pretty(call.arguments)).raw("</pre></details>");
    let read = call.result.map(|result| result.content.as_slice()).unwrap_or_default();
    let (images, words): (Vec<_>, Vec<_>) =
        read.iter().partition(|part| matches!(part, Content::Image { .. }));
    images.into_iter().for_each(|part| entry::content(html, part));
    if !words.is_empty() {
        html.raw("<details class=\"raw\"><summary>What the model read</summary>");
        words.into_iter().for_each(|part| entry::content(html, part));
        html.raw("</details>");
    }
}
