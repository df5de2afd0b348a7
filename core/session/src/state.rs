//! What a log folds to besides its surface: everything a driver needs to go on from it.
//!
//! The fold is kept up to date by each append, so reading it costs nothing. It holds nothing that
//! the events do not say, and it decides nothing: the rules over it are in `admission`.

use crate::content::UserSource;
use crate::event::SurfaceOp;
use crate::id::{MessageId, Route, SeriesNumber, StepNumber, ToolCallId, TurnNumber};
use crate::vocabulary::{
    AssistantMessage, EventData, InboxSpliced, RequestContext, RequestHeader, Usage, UserMessage,
};

/// The state of a session after its last event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The turn that started last; 0 before the first. From `turn/start`.
    pub turn: TurnNumber,
    /// Whether that turn has no `turn/end` yet.
    pub turn_open: bool,
    /// The step of that turn that started last; 0 before its first. From `step/start`.
    pub step: StepNumber,
    /// Whether that step has no `step/end` yet.
    pub step_open: bool,
    /// The tool calls of the last answer that have no `tool/result`, in the model's order.
    pub open_calls: Vec<OpenCall>,
    /// Input that was queued and has not left the queue, oldest first. From `agent/inbox/spliced`.
    pub inbox: Vec<UserMessage>,
    /// The frame of the current series. The last `request/header`.
    pub request: Option<RequestHeader>,
    /// What the current route can take. The last `request/context`.
    pub context: Option<RequestContext>,
    /// The id of the mode. The last `permission/mode`.
    pub mode: Option<String>,
    /// The chosen model. The last `model/selected`.
    pub route: Option<Route>,
    /// The title. The last `title/set`.
    pub title: Option<String>,
    /// What the last answer cost. The last `assistant/message`.
    pub usage: Option<Usage>,
    /// Whether a person has said anything. From `user/message` with a human source.
    pub has_human_message: bool,
}

/// A tool call that waits for its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenCall {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name as the model wrote it.
    pub name: String,
    /// Whether a `tool/call` says that the call was taken up.
    pub started: bool,
}

impl SessionState {
    /// The series of the last request; 0 before the first.
    pub fn series(&self) -> SeriesNumber {
        self.request.as_ref().map(|request| request.series).unwrap_or_default()
    }

    /// The open call with this id.
    pub fn open_call(&self, id: &ToolCallId) -> Option<&OpenCall> {
        self.open_calls.iter().find(|call| call.id == *id)
    }

    pub(crate) fn queued(&self, id: &MessageId) -> bool {
        self.inbox.iter().any(|message| message.id == *id)
    }

    /// Takes in one admitted event.
    pub(crate) fn apply(&mut self, data: &EventData, op: Option<&SurfaceOp>) {
        match data {
            EventData::TurnStart(start) => {
                (self.turn, self.turn_open) = (start.turn, true);
                (self.step, self.step_open) = (StepNumber::default(), false);
            }
            EventData::TurnEnd(_) => self.turn_open = false,
            EventData::StepStart(start) => (self.step, self.step_open) = (start.step, true),
            EventData::StepEnd(_) => self.step_open = false,
            EventData::UserMessage(message) => {
                self.has_human_message |= message.source == UserSource::Human;
            }
            EventData::AssistantMessage(answer) => self.answered(answer),
            EventData::ToolCall(taken) => {
                let mut calls = self.open_calls.iter_mut();
                if let Some(call) = calls.find(|call| call.id == taken.id) {
                    call.started = true;
                }
            }
            EventData::ToolResult(result) if op == Some(&SurfaceOp::Append) => {
                self.open_calls.retain(|call| call.id != result.id);
            }
            EventData::RequestHeader(header) => self.request = Some(header.clone()),
            EventData::RequestContext(context) => self.context = Some(context.clone()),
            EventData::InboxSpliced(splice) => self.spliced(splice),
            EventData::PermissionMode(mode) => self.mode = Some(mode.mode.clone()),
            EventData::ModelSelected(selected) => self.route = Some(selected.route.clone()),
            EventData::TitleSet(title) => self.title = Some(title.title.clone()),
            EventData::SystemMessage(_)
            | EventData::ToolResult(_)
            | EventData::AssistantAttempt(_)
            | EventData::ApprovalAsked(_)
            | EventData::ApprovalDecided(_)
            | EventData::LlmRetry(_)
            | EventData::LlmRetryStarted(_)
            | EventData::Unknown(_) => (),
        }
    }

    fn answered(&mut self, answer: &AssistantMessage) {
        self.usage = Some(answer.usage);
        self.open_calls.extend(answer.tool_calls().map(|(id, name, _)| OpenCall {
            id: id.clone(),
            name: name.to_owned(),
            started: false,
        }));
    }

    fn spliced(&mut self, splice: &InboxSpliced) {
        self.inbox.retain(|message| !splice.removed.contains(&message.id));
        self.inbox.extend(splice.inserted.iter().cloned());
    }
}
