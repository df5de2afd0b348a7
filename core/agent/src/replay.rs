//! A stored session as the updates a client would have seen.

use bridle_session::{Session, TurnEndReason, UserMessage};

use crate::notice::Notice;
use crate::transcript::{Call, Shown, transcript};
use crate::update::{AgentUpdate, Compaction};

/// Everything a person saw, as updates. Tool calls come with their final status. A log that is
/// not at rest is shown as its repair will leave it.
pub fn replay(session: &Session) -> Vec<AgentUpdate> {
    let mut session = session.clone();
    for draft in session.repair() {
        let time = session.last_time();
        if let Err(error) = session.append(draft, time) {
            tracing::error!(%error, "a repair does not fit its own log");
        }
    }
    replay_as_it_stands(&session)
}

/// The same of a log that is being written to: what is open is shown as open.
pub(crate) fn replay_as_it_stands(session: &Session) -> Vec<AgentUpdate> {
    transcript(session).into_iter().flat_map(|entry| updates(&entry.shown)).collect()
}

fn updates(shown: &Shown<'_>) -> Vec<AgentUpdate> {
    match shown {
        Shown::Prompt(message) => vec![said(message)],
        Shown::NotSent(message, _) => [said(message)].into_iter().chain(told(shown)).collect(),
        Shown::Thought { id, text, .. } => {
            vec![AgentUpdate::ThoughtChunk { id: (*id).clone(), text: (*text).to_owned() }]
        }
        Shown::Text { id, text } => {
            vec![AgentUpdate::MessageChunk { id: (*id).clone(), text: (*text).to_owned() }]
        }
        Shown::Call(call) => called(call),
        Shown::Answered { meter, .. } => {
            (meter.used > 0).then(|| AgentUpdate::Usage(meter.clone())).into_iter().collect()
        }
        // A turn that did not come to its end says so; a cancel was the person's own doing.
        Shown::TurnEnded(
            TurnEndReason::Interrupted
            | TurnEndReason::Forked
            | TurnEndReason::Blocked { .. }
            | TurnEndReason::Error { .. },
        )
        | Shown::Lost(_) => told(shown).into_iter().collect(),
        Shown::Compacted(start, compaction) => {
            vec![AgentUpdate::Compaction(Compaction::id_of(*start), compaction.clone())]
        }
        Shown::Todo(todo) => vec![AgentUpdate::Todo(todo.items.clone())],
        Shown::Title(title) => vec![AgentUpdate::Title((*title).to_owned())],
        Shown::TurnStarted(_)
        | Shown::TurnEnded(_)
        | Shown::Queued(_)
        | Shown::Context { .. }
        | Shown::Unsettled(_)
        | Shown::Told(_) => Vec::new(),
    }
}

fn said(message: &UserMessage) -> AgentUpdate {
    AgentUpdate::UserMessage { id: message.id.clone(), content: message.content.clone() }
}

fn told(shown: &Shown<'_>) -> Option<AgentUpdate> {
    let Notice { level, title, detail } = shown.notice()?;
    Some(AgentUpdate::Notice { level, title, detail })
}

fn called(call: &Call<'_>) -> Vec<AgentUpdate> {
    let display = call.display();
    let said = display.said_beside(call.id);
    let called = AgentUpdate::ToolCall {
        id: call.id.clone(),
        name: call.name.to_owned(),
        arguments: call.arguments.to_owned(),
        status: call.status,
        display,
    };
    [called].into_iter().chain(said).collect()
}
