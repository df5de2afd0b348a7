//! A stored session as the updates a client would have seen.

use std::collections::{HashMap, HashSet};

use bridle_session::{
    AssistantMessage, Block, Content, EventData, Gap, InboxSpliced, MessageId, Seq, Session,
    ToolCallId, ToolResult, TurnEndReason, UserMessage, UserSource,
};

use crate::display::{Display, ToolKind};
use crate::update::{AgentUpdate, NoticeLevel, ToolStatus};

/// Everything a person saw, in order, from the log's events (never from the surface: compaction
/// must not erase what was shown). Tool calls come with their final status. A log that is not at
/// rest is shown as its repair will leave it.
pub fn transcript(session: &Session) -> Vec<AgentUpdate> {
    let repair = session.repair();
    let stored = session.events().iter().map(|event| (event.seq, &event.data));
    let events = stored.chain(repair.iter().map(|draft| (Seq(session.len().0), &draft.data)));
    let mut replay = Replay::of(events.clone().map(|(_, data)| data));
    let mut gaps = session.state().gaps.iter().peekable();
    for (seq, data) in events {
        while let Some(gap) = gaps.next_if(|gap| gap.lost.first < seq) {
            replay.updates.push(lost(gap));
        }
        replay.show(data);
    }
    replay.updates
}

/// What is shown so far, and what the rest of the log says about it.
#[derive(Default)]
struct Replay<'a> {
    updates: Vec<AgentUpdate>,
    window: u64,
    results: HashMap<&'a ToolCallId, &'a ToolResult>,
    /// Input that was queued, by its id.
    queued: HashMap<&'a MessageId, &'a UserMessage>,
    /// Input that a model was sent.
    sent: HashSet<&'a MessageId>,
}

impl<'a> Replay<'a> {
    fn of(events: impl Iterator<Item = &'a EventData>) -> Self {
        let mut replay = Self::default();
        for data in events {
            match data {
                EventData::ToolResult(result) => drop(replay.results.insert(&result.id, result)),
                EventData::InboxSpliced(splice) => {
                    replay.queued.extend(splice.inserted.iter().map(|input| (&input.id, input)));
                }
                EventData::UserMessage(message) => drop(replay.sent.insert(&message.id)),
                _ => {}
            }
        }
        replay
    }

    fn show(&mut self, data: &EventData) {
        match data {
            EventData::UserMessage(message) if message.source == UserSource::Human => {
                self.updates.push(said(message));
            }
            EventData::AssistantMessage(message) => {
                answer(message, &self.results, &mut self.updates);
                let used = message.usage.context();
                if used > 0 {
                    self.updates.push(AgentUpdate::Usage { used, size: self.window });
                }
            }
            EventData::InboxSpliced(splice) if splice.reason == InboxSpliced::DISCARDED => {
                splice.removed.iter().for_each(|id| self.show_unsent(id));
            }
            EventData::TurnEnd(end) => self.updates.extend(broken_off(&end.reason)),
            EventData::RequestContext(context) => self.window = context.window,
            EventData::TitleSet(title) => {
                self.updates.push(AgentUpdate::Title(title.title.clone()));
            }
            _ => {}
        }
    }

    /// Input that was still queued when the process died.
    fn show_unsent(&mut self, id: &MessageId) {
        // Where events are lost, the removal that says that it was read can be among them.
        let Some(message) = self.queued.get(id).filter(|_| !self.sent.contains(id)) else { return };
        self.updates.push(said(message));
        self.updates.push(AgentUpdate::Notice {
            level: NoticeLevel::Warning,
            title: "This message was not sent: Bridle was stopped before its turn came.".to_owned(),
            detail: Some("Send it again if it still holds.".to_owned()),
        });
    }
}

fn said(message: &UserMessage) -> AgentUpdate {
    AgentUpdate::UserMessage { id: message.id.clone(), content: message.content.clone() }
}

/// A turn that did not come to its end says so; a cancel was the person's own doing.
fn broken_off(reason: &TurnEndReason) -> Option<AgentUpdate> {
    let (level, title, detail) = match reason {
        TurnEndReason::Interrupted => {
            (NoticeLevel::Warning, "This turn was broken off: Bridle was stopped.", None)
        }
        TurnEndReason::Error { failure } => {
            (NoticeLevel::Error, "This turn failed.", Some(failure.message.clone()))
        }
        _ => return None,
    };
    Some(AgentUpdate::Notice { level, title: title.to_owned(), detail })
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
