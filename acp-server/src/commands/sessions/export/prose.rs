//! Markdown that a model or a tool wrote, made safe to stand in a document of ours.
//!
//! Raw HTML in it is text. A link is a link only where it leads to a web page or a mailbox, and an
//! image is a link: a document that is opened asks nobody for anything.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html};

/// What links may begin with.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// Turning HTML into text can uncover other HTML; after so many rounds the rest loses every `<`.
const MAX_ROUNDS: usize = 4;

fn parser(markdown: &str) -> Parser<'_> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(markdown, options)
}

/// The text as HTML for the inside of an element, with headings below those of the page.
pub(super) fn html(markdown: &str) -> String {
    let mut links = Links::default();
    let events = parser(markdown).filter_map(|event| safe(event, &mut links));
    let mut out = String::with_capacity(markdown.len() * 3 / 2);
    html::push_html(&mut out, events);
    out
}

/// The links and images that are open; true for those that are shown as links.
#[derive(Default)]
struct Links(Vec<bool>);

impl Links {
    /// Whether a link to there may begin here.
    fn open(&mut self, to: &str) -> bool {
        let is_known = SCHEMES.iter().any(|scheme| {
            to.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
        });
        let is_link = is_known && !self.0.contains(&true);
        self.0.push(is_link);
        is_link
    }

    fn close(&mut self) -> bool {
        self.0.pop().unwrap_or(false)
    }
}

fn safe<'a>(event: Event<'a>, links: &mut Links) -> Option<Event<'a>> {
    Some(match event {
        Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
        Event::Start(Tag::HtmlBlock) => Event::Start(Tag::Paragraph),
        Event::End(TagEnd::HtmlBlock) => Event::End(TagEnd::Paragraph),
        Event::Start(Tag::Link { ref dest_url, .. }) => {
            return links.open(dest_url).then_some(event);
        }
        Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
            return links.open(&dest_url).then_some(Event::Start(Tag::Link {
                link_type,
                dest_url,
                title,
                id,
            }));
        }
        Event::End(TagEnd::Link | TagEnd::Image) => {
            return links.close().then_some(Event::End(TagEnd::Link));
        }
        Event::Start(Tag::Heading { level, .. }) => Event::Start(Tag::Heading {
            level: below(level),
            id: None,
            classes: Vec::new(),
            attrs: Vec::new(),
        }),
        Event::End(TagEnd::Heading(level)) => Event::End(TagEnd::Heading(below(level))),
        // Alignments become style attributes, which the page does not allow.
        Event::Start(Tag::Table(columns)) => Event::Start(Tag::Table(
            columns.into_iter().map(|_| pulldown_cmark::Alignment::None).collect(),
        )),
        event => event,
    })
}

fn below(level: HeadingLevel) -> HeadingLevel {
    match level {
        HeadingLevel::H1 => HeadingLevel::H3,
        HeadingLevel::H2 => HeadingLevel::H4,
        HeadingLevel::H3 => HeadingLevel::H5,
        _ => HeadingLevel::H6,
    }
}

/// The same Markdown, except that HTML in it is text and that a fence at its end is closed: what
/// stands behind it is not part of it.
pub(super) fn contained(markdown: &str) -> String {
    let mut text = markdown.to_owned();
    for _ in 0..MAX_ROUNDS {
        let Some(harmless) = without_html(&text) else { return closed(text) };
        text = harmless;
    }
    text.replace('<', "&lt;")
}

/// `None` when there is no HTML in it.
fn without_html(markdown: &str) -> Option<String> {
    let ranges: Vec<Range<usize>> = parser(markdown)
        .into_offset_iter()
        .filter(|(event, _)| matches!(event, Event::Html(_) | Event::InlineHtml(_)))
        .map(|(_, range)| range)
        .collect();
    if ranges.is_empty() {
        return None;
    }
    let mut out = String::with_capacity(markdown.len() * 5 / 4);
    let mut done = 0;
    for range in ranges {
        out.push_str(markdown.get(done..range.start).unwrap_or_default());
        out.push_str(&markdown.get(range.clone()).unwrap_or_default().replace('<', "&lt;"));
        done = range.end;
    }
    out.push_str(markdown.get(done..).unwrap_or_default());
    Some(out)
}

fn closed(mut markdown: String) -> String {
    let last =
        parser(&markdown).into_offset_iter().fold(
            (0_usize, None),
            |(depth, last), next| match next {
                (Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(_))), range) if depth == 0 => {
                    (1, Some(range))
                }
                (Event::Start(_), _) => (depth + 1, if depth == 0 { None } else { last }),
                (Event::End(_), _) => (depth.saturating_sub(1), last),
                _ => (depth, last),
            },
        );
    let fence = last.1.and_then(|range| open_fence(markdown.get(range)?));
    if let Some(fence) = fence {
        if !markdown.ends_with('\n') {
            markdown.push('\n');
        }
        markdown.push_str(&fence);
    }
    markdown
}

/// The fence of a code block that nothing closes.
fn open_fence(block: &str) -> Option<String> {
    let mut lines = block.trim_end().lines();
    let first = lines.next()?.trim_start();
    let mark = first.chars().next()?;
    let fence: String = first.chars().take_while(|c| *c == mark).collect();
    let last = lines.last().unwrap_or_default().trim();
    let is_closed = last.len() >= fence.len() && last.chars().all(|c| c == mark);
    (!is_closed).then_some(fence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_in_markdown_is_text() {
        let shown = html("a <b onclick=x>\n\n<script>alert(1)</script>\n\n<!-- <img src=x> -->");
        for live in ["<b", "<script", "<img", "<!--"] {
            assert!(!shown.contains(live), "{shown}");
        }
        assert!(shown.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{shown}");
    }

    #[test]
    fn links_lead_to_the_web_or_nowhere() {
        assert!(html("[a](https://x.y/\"onclick=z)").contains("href=\"https://x.y/%22onclick=z\""));
        for bad in ["javascript:alert(1)", "JaVaScRiPt:x", "data:text/html,x", "vbscript:x", "//x"]
        {
            let shown = html(&format!("[a]({bad}) <{bad}> [b]: {bad}\n\n[b][b]"));
            assert!(!shown.contains("href"), "{shown}");
        }
        let image = html("![alt](https://x.y/z.png) ![alt](file:///etc/passwd)");
        assert!(image.contains("<a href=\"https://x.y/z.png\">alt</a> alt"), "{image}");
        let nested = html("[![alt](https://x.y/z.png)](https://x.y)");
        assert_eq!(nested.matches("<a ").count(), 1, "{nested}");
        assert_eq!(nested.matches("</a>").count(), 1, "{nested}");
    }

    #[test]
    fn nothing_needs_a_style_attribute() {
        let table = html("| a | b |\n|:-:|--:|\n| 1 | 2 |");
        assert!(table.contains("<td>1</td>") && !table.contains("style"), "{table}");
        assert_eq!(html("# a"), "<h3>a</h3>\n");
    }

    #[test]
    fn contained_markdown_ends_where_it_ends() {
        assert_eq!(contained("```rust\nlet a"), "```rust\nlet a\n```");
        assert_eq!(contained("~~~~\na\n~~~\n"), "~~~~\na\n~~~\n~~~~");
        assert_eq!(contained("```\na\n```\n"), "```\na\n```\n");
        assert_eq!(contained("- ```\n  a\n\nb"), "- ```\n  a\n\nb");
        assert_eq!(contained("`<b>` <b>x</b>"), "`<b>` &lt;b>x&lt;/b>");
        assert_eq!(contained("<div>\n`x\n<p>`\n"), "&lt;div>\n`x\n&lt;p>`\n");
        let hostile = contained("<!-- \n\n<script>x</script>\n\n<div>\n\n<?\n");
        assert!(!html_events(&hostile), "{hostile}");
    }

    fn html_events(markdown: &str) -> bool {
        parser(markdown).any(|event| matches!(event, Event::Html(_) | Event::InlineHtml(_)))
    }
}
