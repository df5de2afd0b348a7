//! What a log folds to besides its surface: everything a driver needs to go on from it.
//!
//! The fold is kept up to date by each append, so reading it costs nothing. It holds nothing that
//! the events do not say, and it decides nothing: the rules over it are in `admission`.

use crate::content::{Block, TimedBlock, UserSource};
use crate::damage::Gap;
use crate::event::SurfaceOp;
use crate::id::{MessageId, Route, SeriesNumber, StepNumber, ToolCallId, TurnNumber};
use crate::vocabulary::{
    AssistantMessage, AssistantPartial, EventData, InboxSpliced, LogGap, RequestContext,
    RequestHeader, Usage, UserMessage,
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
    /// The answer that is being streamed, as far as it is recorded: its pieces joined. From
    /// `assistant/partial`; void once the attempt is settled or has failed.
    pub partial: Option<AssistantPartial>,
    /// Input that was queued and has not left the queue, oldest first. From `agent/inbox/spliced`.
    pub inbox: Vec<UserMessage>,
    /// The frame of the current series. The last `request/header`.
    pub request: Option<RequestHeader>,
    /// What the current route can take. The last `request/context`.
    pub context: Option<RequestContext>,
    /// The id of the mode. The last `permission/mode`, unless events behind it are lost.
    pub mode: Option<String>,
    /// The chosen model. The last `model/selected`.
    pub route: Option<Route>,
    /// The title. The last `title/set`.
    pub title: Option<String>,
    /// What the last answer cost. The last `assistant/message`.
    pub usage: Option<Usage>,
    /// Whether a person has said anything. From `user/message` with a human source.
    pub has_human_message: bool,
    /// Which events are lost, oldest first. From holes in the positions; `log/gap` records them.
    pub gaps: Vec<Gap>,
    /// Whether events of the current series may be lost, so that the next request needs a new
    /// one. Until a `request/header` behind the `log/gap`.
    pub series_broken: bool,
    /// Whether a `log/gap` was ever recorded, also for events that are back.
    pub(crate) gap_recorded: bool,
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

impl OpenCall {
    pub(crate) fn is(&self, id: &ToolCallId, name: &str) -> bool {
        self.id == *id && self.name == name
    }
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

    /// Whether stored events may not fit, because they were appended when the log held others.
    pub(crate) fn is_damaged(&self) -> bool {
        self.gap_recorded || !self.gaps.is_empty()
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
            EventData::TurnEnd(_) => (self.turn_open, self.partial) = (false, None),
            EventData::StepStart(start) => (self.step, self.step_open) = (start.step, true),
            EventData::StepEnd(_) => (self.step_open, self.partial) = (false, None),
            EventData::AssistantPartial(piece) => self.streamed(piece),
            EventData::AssistantAttempt(_) => self.partial = None,
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
            EventData::RequestHeader(header) => {
                self.request = Some(header.clone());
                self.series_broken &= self.gaps.iter().any(|gap| !gap.recorded);
            }
            EventData::LogGap(gap) => self.record_gap(gap),
            EventData::RequestContext(context) => self.context = Some(context.clone()),
            EventData::InboxSpliced(splice) => self.spliced(splice),
            EventData::PermissionMode(mode) => self.mode = Some(mode.mode.clone()),
            EventData::ModelSelected(selected) => self.route = Some(selected.route.clone()),
            EventData::TitleSet(title) => self.title = Some(title.title.clone()),
            EventData::SystemMessage(_)
            | EventData::ToolResult(_)
            | EventData::ApprovalAsked(_)
            | EventData::ApprovalDecided(_)
            | EventData::LlmRetry(_)
            | EventData::LlmRetryStarted(_)
            | EventData::Unknown(_) => (),
        }
    }

    fn record_gap(&mut self, said: &LogGap) {
        self.gap_recorded = true;
        for gap in &mut self.gaps {
            let covered = said.contains(gap.lost.first) && said.contains(gap.lost.last);
            gap.recorded |= covered;
        }
    }

    fn streamed(&mut self, piece: &AssistantPartial) {
        let Some(so_far) = self.partial.as_mut().filter(|so_far| so_far.id == piece.id) else {
            self.partial = Some(piece.clone());
            return;
        };
        let mut fresh = piece.blocks.iter();
        if piece.continues
            && let Some(TimedBlock { block: Block::Text { text }, ended_at, .. }) =
                so_far.blocks.last_mut()
            && let Some(TimedBlock { block: Block::Text { text: more }, ended_at: later, .. }) =
                fresh.next()
        {
            text.push_str(more);
            *ended_at = *later;
        }
        so_far.blocks.extend(fresh.cloned());
        so_far.usage = piece.usage;
    }

    fn answered(&mut self, answer: &AssistantMessage) {
        self.usage = Some(answer.usage);
        self.partial = None;
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
