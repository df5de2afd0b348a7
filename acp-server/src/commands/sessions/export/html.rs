//! A session as one web page that needs nothing else: no other file, no network, and no script to
//! be read. Whatever the session says is text in it.
//!
//! The page's own style and script are named by their hashes in its content policy, so a browser
//! runs and loads nothing besides them.

mod call;
mod entry;
mod writer;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bridle_store::BlobStore;
use sha2::{Digest as _, Sha256};

use self::writer::Html;
use super::super::print::minute;
use super::super::report::{Report, Section, first_line};
use super::super::words;
use crate::tally;
use crate::text::shorten;

const STYLE: &str = include_str!("html/page.css");
const SCRIPT: &str = include_str!("html/page.js");

/// The longest prompt in the table of turns and in a heading, in characters.
const HEADING_LIMIT: usize = 100;

/// The whole page.
pub(in crate::commands::sessions) fn render(report: &Report<'_>, blobs: &dyn BlobStore) -> String {
    let mut html = Html::new(blobs);
    head(&mut html, report);
    html.raw("<body><a class=\"skip\" href=\"#turns\">Skip to the turns</a>");
    banner(&mut html, report);
    html.raw("<div class=\"columns\">");
    contents(&mut html, report);
    html.raw("<main id=\"turns\">");
    if report.sections.is_empty() {
        html.raw("<p class=\"empty\">Nothing has been said in this session yet.</p>");
    }
    report.sections.iter().for_each(|part| section(&mut html, report, part));
    html.raw("</main></div><footer>Exported by Bridle ").text(env!("CARGO_PKG_VERSION"));
    html.raw(". Session ").text(report.header.id.as_str()).raw("</footer><script>");
    html.raw(SCRIPT).raw("</script></body></html>\n");
    html.into_string()
}

fn title<'a>(report: &Report<'a>) -> &'a str {
    report.title.unwrap_or("Session without a title")
}

fn head(html: &mut Html<'_>, report: &Report<'_>) {
    html.raw("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">");
    html.raw("<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; ");
    html.raw("img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-");
    html.text(&hash(STYLE)).raw("'; script-src 'sha256-").text(&hash(SCRIPT)).raw("'\">");
    html.raw("<meta name=\"referrer\" content=\"no-referrer\">");
    html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    html.raw("<meta name=\"color-scheme\" content=\"light dark\"><title>").text(title(report));
    html.raw("</title><style>").raw(STYLE).raw("</style></head>");
}

/// As a content policy names an inline style or script.
fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text))
}

fn banner(html: &mut Html<'_>, report: &Report<'_>) {
    html.raw("<header class=\"banner\"><p class=\"eyebrow\">Bridle session</p><h1>");
    html.text(title(report)).raw("</h1><dl>");
    let header = report.header;
    fact(html, "Folder", &header.cwd.to_string_lossy());
    fact(html, "Began", &format!("{} UTC", minute(header.created_at)));
    fact(html, "Last change", &format!("{} UTC", minute(report.updated_at)));
    fact(html, "Model", &words::models(report));
    fact(html, "Turns", &tally::number(report.turns as u64));
    let (calls, failed) = (report.calls.all, report.calls.failed);
    let failed = if failed > 0 { format!(", {failed} without success") } else { String::new() };
    fact(html, "Tool calls", &format!("{}{failed}", tally::number(calls as u64)));
    fact(html, "Usage", &tally::spent(report.usage.total, &report.usage.cost));
    if let Some(parent) = &header.parent {
        let from = format!("{} (its first {} events)", parent.id, parent.inherited);
        fact(html, "Forked from", &from);
    }
    html.raw("</dl></header>");
}

fn fact(html: &mut Html<'_>, name: &str, value: &str) {
    html.raw("<div><dt>").text(name).raw("</dt><dd>").text(value).raw("</dd></div>");
}

fn contents(html: &mut Html<'_>, report: &Report<'_>) {
    html.raw("<nav aria-label=\"Turns\"><details class=\"contents\" open><summary>");
    html.text(&words::count(report.turns, "turn")).raw("</summary><ol>");
    for section in &report.sections {
        let Some(turn) = section.turn else { continue };
        html.raw("<li value=\"").number(turn.0).raw("\"><a href=\"#turn-").number(turn.0);
        html.raw("\">").text(&heading(section)).raw("</a></li>");
    }
    html.raw("</ol></details></nav>");
}

fn heading(section: &Section<'_>) -> String {
    let line = section.prompt().map(first_line).filter(|line| !line.is_empty());
    shorten(line.unwrap_or("(no text)"), HEADING_LIMIT)
}

fn section(html: &mut Html<'_>, report: &Report<'_>, section: &Section<'_>) {
    match section.turn {
        Some(turn) => {
            html.raw("<section class=\"turn\" id=\"turn-").number(turn.0).raw("\"><h2><span>");
            html.number(turn.0).raw("</span> ").text(&heading(section)).raw("</h2>");
            html.raw("<p class=\"when\">").text(&minute(section.started_at)).raw(" UTC");
            if let Some((ended_at, _)) = section.ended {
                let took = ended_at.0.saturating_sub(section.started_at.0);
                let took = std::time::Duration::from_millis(took);
                html.raw(" · ").text(&words::duration(took));
            }
            if section.calls.all > 0 {
                html.raw(" · ").text(&words::count(section.calls.all, "tool call"));
            }
            html.raw("</p>");
        }
        None => {
            html.raw("<section class=\"between\"><p class=\"when\">");
            html.text(&minute(section.started_at)).raw(" UTC</p>");
        }
    }
    section.entries.iter().for_each(|part| entry::write(html, report, part));
    html.raw("</section>");
}
