//! What of a session can be found: titles, what was said, and what tools answered.

use bridle_session::{Block, Content, Event, EventData, SurfaceOp, UserSource};

/// How much of one title, input or answer can be found, in bytes.
const MAX_TEXT: usize = 64 * 1024;

/// How much of one tool result can be found, in bytes: its beginning.
const MAX_RESULT: usize = 2 * 1024;

/// Whose words a hit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitKind {
    /// A title that the session has or had.
    Title,
    /// A person's input.
    Human,
    /// An answer of the model, without its reasoning.
    Answer,
    /// The name of a tool and the beginning of its result.
    Tool,
}

/// Whether events of this type can be found, so that the others need not be decoded.
pub(crate) fn may_be_found(type_name: &str) -> bool {
    matches!(type_name, "title/set" | "user/message" | "assistant/message" | "tool/result")
}

/// The text by which an event is found. What was put in the place of other messages (a summary, a
/// shortened result) is not searched: what it stands for is.
pub(crate) fn said(event: &Event) -> Option<(HitKind, String)> {
    let (kind, limit, mut text) = match (&event.data, &event.surface) {
        (EventData::TitleSet(set), None) => (HitKind::Title, MAX_TEXT, set.title.clone()),
        (EventData::UserMessage(message), Some(SurfaceOp::Append))
            if message.source == UserSource::Human =>
        {
            (HitKind::Human, MAX_TEXT, joined(message.content.iter().map(part)))
        }
        (EventData::AssistantMessage(answer), Some(SurfaceOp::Append)) => {
            let blocks = answer.blocks.iter().filter_map(|timed| match &timed.block {
                Block::Text { text } => Some(text.as_str()),
                _ => None,
            });
            (HitKind::Answer, MAX_TEXT, joined(blocks))
        }
        (EventData::ToolResult(result), Some(SurfaceOp::Append)) => {
            let parts = result.content.iter().map(part);
            let text = joined(std::iter::once(result.name.as_str()).chain(parts));
            (HitKind::Tool, MAX_RESULT, text)
        }
        _ => return None,
    };
    text.truncate(text.floor_char_boundary(limit));
    Some((kind, text))
}

fn joined<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
    parts.join("\n")
}

fn part(part: &Content) -> &str {
    match part {
        Content::Text { text } | Content::Resource { text, .. } => text,
        Content::Link { name, .. } => name,
        Content::Blob { preview, .. } => preview,
        Content::Image { .. } => "",
    }
}
