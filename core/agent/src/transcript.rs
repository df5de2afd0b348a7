//! A stored session as the updates a client would have seen.

use std::collections::HashMap;

use bridle_session::{
    AssistantMessage, Block, Content, EventData, Gap, Session, ToolCallId, ToolResult, UserSource,
};

use crate::display::{Display, ToolKind};
use crate::update::{AgentUpdate, NoticeLevel, ToolStatus};

/// Everything a person saw, in order, from the log's events (never from the surface: compaction
/// must not erase what was shown). Tool calls come with their final status.
pub fn transcript(session: &Session) -> Vec<AgentUpdate> {
    let events = session.events();
    let results: HashMap<&ToolCallId, &ToolResult> = events
        .iter()
        .filter_map(|event| match &event.data {
            EventData::ToolResult(result) => Some((&result.id, result)),
            _ => None,
        })
        .collect();
    let mut updates = Vec::new();
    let mut window = 0;
    let mut gaps = session.state().gaps.iter().peekable();
    for event in events {
        while let Some(gap) = gaps.next_if(|gap| gap.lost.first < event.seq) {
            updates.push(lost(gap));
        }
        match &event.data {
            EventData::UserMessage(message) if message.source == UserSource::Human => {
                let (id, content) = (message.id.clone(), message.content.clone());
                updates.push(AgentUpdate::UserMessage { id, content });
            }
            EventData::AssistantMessage(message) => {
                answer(message, &results, &mut updates);
                let used = message.usage.context();
                if used > 0 {
                    updates.push(AgentUpdate::Usage { used, size: window });
                }
            }
            EventData::RequestContext(context) => window = context.window,
            EventData::TitleSet(title) => updates.push(AgentUpdate::Title(title.title.clone())),
            _ => {}
        }
    }
    updates
}

/// Stands where the lost events would be shown.
fn lost(gap: &Gap) -> AgentUpdate {
    let title = gap.lost.notice();
    let detail = Some("What was said and done there cannot be shown.".to_owned());
    AgentUpdate::Notice { level: NoticeLevel::Warning, title, detail }
}

fn answer(
    message: &AssistantMessage,
    results: &HashMap<&ToolCallId, &ToolResult>,
    updates: &mut Vec<AgentUpdate>,
) {
    let id = &message.id;
    for timed in &message.blocks {
        match &timed.block {
            Block::Text { text } if !text.is_empty() => {
                updates.push(AgentUpdate::MessageChunk { id: id.clone(), text: text.clone() });
            }
            Block::Thinking { text, .. } if !text.is_empty() => {
                updates.push(AgentUpdate::ThoughtChunk { id: id.clone(), text: text.clone() });
            }
            Block::ToolCall { id, name, arguments } => {
                let result = results.get(id).copied();
                let completed = result.is_some_and(|result| result.error.is_none());
                updates.push(AgentUpdate::ToolCall {
                    id: id.clone(),
                    name: name.clone(),
                    arguments: arguments.clone(),
                    status: if completed { ToolStatus::Completed } else { ToolStatus::Failed },
                    display: shown(name, result),
                });
            }
            _ => {}
        }
    }
}

/// What was shown of a call: the stored display, or for a result that repair wrote its text.
fn shown(name: &str, result: Option<&ToolResult>) -> Display {
    let stored = result
        .and_then(|result| result.presentation.as_ref())
        .and_then(|raw| serde_json::from_str(raw.get()).ok());
    stored.unwrap_or_else(|| {
        let text = result.map(|result| {
            let texts = result.content.iter().filter_map(|part| match part {
                Content::Text { text } => Some(text.as_str()),
                _ => None,
            });
            texts.collect::<Vec<_>>().join("\n")
        });
        Display { text, ..Display::new(name, ToolKind::Other) }
    })
}
