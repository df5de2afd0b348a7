//! From the agent's updates to the protocol's, the same for a live turn and for a replay.

mod pictures;
mod tools;

use crate::text;
use agent_client_protocol::v1::schema::{
    CompactionStatus, CompactionUpdate, ContentBlock, ContentChunk, Cost, EmbeddedResource,
    EmbeddedResourceResource, Meta, Notice as WireNotice, NoticeSeverity, Plan, PlanEntry,
    PlanEntryPriority, PlanEntryStatus, PlanRemoved, PlanUpdate, PlanUpdateContent, ResourceLink,
    SessionInfoUpdate, SessionUpdate, StopReason, TextResourceContents, Usage, UsageUpdate,
};
use bridle_agent::{AgentUpdate, Compaction, Meter, Notice, NoticeLevel, TurnOutcome};
use bridle_session::{Content, Failure, MessageId, TodoItem, TodoStatus};
use serde_json::{Value, json};

use super::clients::ClientTraits;
use super::outbox;

/// The key of a chunk's `_meta` that marks it as a notice; the value is the severity.
const NOTICE: &str = "bridle.dev/notice";

/// The id of the plan that is the to-do list; a session has no other.
const LIST: &str = "todo";

/// The key of a compaction's `_meta` with its sizes in tokens: `before`, and `window` or `after`.
const COMPACTION: &str = "bridle.dev/compaction";

pub(super) use self::pictures::Pictures;
pub(super) use self::tools::question;

/// What a client is sent for an update that stands for itself. Empty for those that need more
/// than the update: the mode and the model (whose lists belong to the session), notices, compactions,
/// to-do lists and streams of output (whose form depends on the client) and the end of a turn (which
/// is an answer).
pub(super) fn updates(update: AgentUpdate) -> Vec<SessionUpdate> {
    match update {
        AgentUpdate::UserMessage { id, content } => content
            .into_iter()
            .map(|part| SessionUpdate::UserMessageChunk(chunk(&id, block(part))))
            .collect(),
        AgentUpdate::MessageChunk { id, text } => {
            vec![SessionUpdate::AgentMessageChunk(chunk(&id, ContentBlock::from(text)))]
        }
        AgentUpdate::ThoughtChunk { id, text } => {
            vec![SessionUpdate::AgentThoughtChunk(chunk(&id, ContentBlock::from(text)))]
        }
        AgentUpdate::ToolCall { id, name, arguments, status, display } => {
            vec![tools::call(&id, name, &arguments, status, display)]
        }
        AgentUpdate::ToolCallUpdate { id, status, display } => {
            vec![tools::update(&id, status, display)]
        }
        AgentUpdate::ToolProgress { id, text } => vec![tools::progress(&id, &text)],
        AgentUpdate::Usage(Meter { used, window, cost, .. }) => {
            // A sum that is only a part of the cost would be taken for the whole.
            let cost = cost.whole().map(|sum| Cost::new(sum.amount.units(), sum.currency.clone()));
            vec![SessionUpdate::UsageUpdate(UsageUpdate::new(used, window).cost(cost))]
        }
        AgentUpdate::Title(title) => {
            let title = text::visible(&title).into_owned();
            vec![SessionUpdate::SessionInfoUpdate(SessionInfoUpdate::new().title(title))]
        }
        AgentUpdate::Mode(_)
        | AgentUpdate::Model(_)
        | AgentUpdate::Effort(_)
        | AgentUpdate::Fill(_)
        | AgentUpdate::Compaction(..)
        | AgentUpdate::Todo(_)
        | AgentUpdate::Notice { .. }
        | AgentUpdate::BlockEnded
        | AgentUpdate::ToolOutput { .. }
        // The client knows what it sent.
        | AgentUpdate::Joined { .. }
        | AgentUpdate::Replay(_)
        | AgentUpdate::TurnEnded { .. } => Vec::new(),
    }
}

/// What of a stored session a client is shown. A notice has its place between the messages there,
/// so a client that shows no notices gets it as one of them.
pub(super) fn replayed(
    update: AgentUpdate,
    client: &ClientTraits,
    pictures: &Pictures,
) -> Vec<SessionUpdate> {
    match update {
        AgentUpdate::UserMessage { id, content } => {
            let shown = |part| pictures.block(&part).unwrap_or_else(|| block(part));
            let parts = content.into_iter().map(shown);
            parts.map(|part| SessionUpdate::UserMessageChunk(chunk(&id, part))).collect()
        }
        AgentUpdate::Compaction(id, it) if client.compaction => vec![compaction(id, it)],
        AgentUpdate::Compaction(_, it) => {
            let Notice { level, title, detail } = it.notice();
            let notice = AgentUpdate::Notice { level, title, detail };
            replayed(notice, client, pictures)
        }
        AgentUpdate::Notice { level, title, detail } if client.notices => {
            vec![notice(level, &title, detail.as_deref())]
        }
        AgentUpdate::Notice { level, title, detail } => {
            vec![notice_message(level, &title, detail.as_deref())]
        }
        AgentUpdate::Todo(items) => vec![plan(items, client)],
        update => updates(update),
    }
}

/// Where a compaction stands, for a client that shows compactions.
pub(super) fn compaction(id: String, compaction: Compaction) -> SessionUpdate {
    let notice = compaction.notice();
    let (status, sizes) = match &compaction {
        Compaction::Began { tokens, window } => {
            (CompactionStatus::InProgress, json!({"before": tokens, "window": window}))
        }
        Compaction::Done { before, after, .. } => {
            (CompactionStatus::Completed, json!({"before": before, "after": after}))
        }
        Compaction::Failed { .. } => (CompactionStatus::Failed, Value::Null),
        Compaction::Cancelled => (CompactionStatus::Cancelled, Value::Null),
    };
    let update = CompactionUpdate::new(id, status);
    let update = match compaction {
        Compaction::Done { summary, .. } => {
            let texts = [Some(notice.title), summary].into_iter().flatten();
            let shown =
                texts.map(|text| ContentBlock::from(text::visible_block(&text).into_owned()));
            update.summary(shown.collect::<Vec<_>>())
        }
        Compaction::Failed { message } => update.error(text::visible_block(&message).into_owned()),
        Compaction::Began { .. } | Compaction::Cancelled => update,
    };
    if sizes.is_null() {
        return SessionUpdate::CompactionUpdate(update);
    }
    SessionUpdate::CompactionUpdate(update.meta(Meta::from_iter([(COMPACTION.to_owned(), sizes)])))
}

/// A piece of an answer that Bridle itself gives.
pub(super) fn own_message(id: &MessageId, text: String) -> SessionUpdate {
    SessionUpdate::AgentMessageChunk(chunk(id, ContentBlock::from(text)))
}

/// A notice for a client that shows notices.
pub(super) fn notice(level: NoticeLevel, title: &str, detail: Option<&str>) -> SessionUpdate {
    let severity = severity(level);
    let detail = detail.map(|detail| text::visible_block(detail).into_owned());
    SessionUpdate::Notice(
        WireNotice::new(severity, text::visible(title).into_owned()).description(detail),
    )
}

fn severity(level: NoticeLevel) -> NoticeSeverity {
    match level {
        NoticeLevel::Info => NoticeSeverity::Info,
        NoticeLevel::Warning => NoticeSeverity::Warning,
        NoticeLevel::Error => NoticeSeverity::Error,
    }
}

/// The same notice as a message of its own, for a client that shows messages only. Its `_meta`
/// holds the severity under [`NOTICE`], so that a program can tell it from the model's words.
pub(super) fn notice_message(
    level: NoticeLevel,
    title: &str,
    detail: Option<&str>,
) -> SessionUpdate {
    let text = notice_text(level, title, detail);
    let meta = Meta::from_iter([(NOTICE.to_owned(), json!(severity(level)))]);
    SessionUpdate::AgentMessageChunk(chunk(&outbox::own_id(), ContentBlock::from(text)).meta(meta))
}

fn notice_text(level: NoticeLevel, title: &str, detail: Option<&str>) -> String {
    let head = match level {
        NoticeLevel::Info => "",
        NoticeLevel::Warning => "Warning: ",
        NoticeLevel::Error => "Error: ",
    };
    let title = text::visible(title);
    match detail {
        None => format!("*{head}{title}*\n\n"),
        Some(detail) => format!("*{head}{title}*\n\n{}\n\n", text::visible_block(detail)),
    }
}

/// The stop reason of a turn.
///
/// # Errors
/// The failure of a turn that failed.
pub(super) fn stop_reason(outcome: TurnOutcome) -> Result<StopReason, Failure> {
    match outcome {
        TurnOutcome::EndTurn => Ok(StopReason::EndTurn),
        TurnOutcome::MaxTokens => Ok(StopReason::MaxTokens),
        TurnOutcome::MaxTurnRequests => Ok(StopReason::MaxTurnRequests),
        TurnOutcome::Refusal => Ok(StopReason::Refusal),
        TurnOutcome::Cancelled => Ok(StopReason::Cancelled),
        TurnOutcome::Failed(failure) => Err(failure),
    }
}

/// The tokens of a turn; `None` for one that asked no model.
pub(super) fn usage(used: bridle_session::Usage) -> Option<Usage> {
    let usage = Usage::new(used.context(), used.input, used.output);
    let usage = usage.cached_read_tokens(used.cache_read).cached_write_tokens(used.cache_write);
    (used.context() > 0).then_some(usage)
}

/// The list of what is to be done, which the protocol calls a plan. Nothing here ranks its items. A
/// client that can tell plans apart is told when there is none any more; others get an empty one.
pub(super) fn plan(items: Vec<TodoItem>, client: &ClientTraits) -> SessionUpdate {
    if client.plans && items.is_empty() {
        return SessionUpdate::PlanRemoved(PlanRemoved::new(LIST));
    }
    let entries = items.into_iter().map(|item| {
        let status = match item.status {
            TodoStatus::Pending => PlanEntryStatus::Pending,
            TodoStatus::InProgress => PlanEntryStatus::InProgress,
            TodoStatus::Completed => PlanEntryStatus::Completed,
        };
        PlanEntry::new(text::visible(&item.text).into_owned(), PlanEntryPriority::Medium, status)
    });
    let entries = entries.collect();
    if client.plans {
        SessionUpdate::PlanUpdate(PlanUpdate::new(PlanUpdateContent::items(LIST, entries)))
    } else {
        SessionUpdate::Plan(Plan::new(entries))
    }
}

fn chunk(id: &MessageId, content: ContentBlock) -> ContentChunk {
    ContentChunk::new(content)
        .message_id(agent_client_protocol::v1::schema::MessageId::new(id.as_str()))
}

fn block(content: Content) -> ContentBlock {
    match content {
        Content::Text { text } => ContentBlock::from(text),
        Content::Resource { uri, mime_type, text } => {
            let contents = TextResourceContents::new(text, uri).mime_type(mime_type);
            let resource = EmbeddedResourceResource::TextResourceContents(contents);
            ContentBlock::Resource(EmbeddedResource::new(resource))
        }
        Content::Link { uri, name } => ContentBlock::ResourceLink(ResourceLink::new(name, uri)),
        Content::Blob { preview, .. } => ContentBlock::from(preview),
        Content::Image { blob, mime_type } => {
            ContentBlock::from(format!("[An image: {mime_type}, {} bytes]", blob.bytes))
        }
    }
}
