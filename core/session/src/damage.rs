//! How a log goes on behind a place where stored events were lost.
//!
//! The events before and behind a gap were checked against a log without one, so some of them no
//! longer fit. None is refused and none is dropped from the log: the state is moved to where the
//! event says it was, and a message that has lost its partner stays on the surface as text, so
//! that what a provider is sent is paired again. A log without a gap never comes here.

use std::collections::HashSet;
use std::sync::Arc;

use crate::content::{Block, Content, UserSource};
use crate::event::{Event, SurfaceOp};
use crate::fold::TurnBoundary;
use crate::id::{MessageId, Seq, ToolCallId};
use crate::session::{AppendError, Session};
use crate::state::SessionState;
use crate::surface::Plan;
use crate::vocabulary::{AssistantMessage, EventData, JobStarted, LogGap, ToolResult, UserMessage};

/// How much of a call's argument text is kept when the call becomes text, in characters.
const SHOWN_ARGUMENTS: usize = 1_000;

/// What a reader of a stored log finds, in the order of the file.
#[derive(Clone, Debug)]
pub enum Record {
    /// An event.
    Event(Event),
    /// Bytes that are no events. Whether any were lost there shows at the next one.
    Damage {
        /// What the damaged bytes hash to.
        hash: String,
    },
}

impl From<Event> for Record {
    fn from(event: Event) -> Self {
        Self::Event(event)
    }
}

/// Events that a log once held and has lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Which ones, and what is in their place.
    pub lost: LogGap,
    /// Whether the log itself says so. From `log/gap`.
    pub recorded: bool,
}

impl LogGap {
    /// What the model and a person are told.
    pub fn notice(&self) -> String {
        let Self { first, last, .. } = self;
        if first == last {
            return format!("Event {first} of this session was damaged on the disk and is lost.");
        }
        format!("Events {first}–{last} of this session were damaged on the disk and are lost.")
    }

    /// Whether it lost this event.
    pub fn contains(&self, seq: Seq) -> bool {
        (self.first..=self.last).contains(&seq)
    }

    /// What stands for the lost events on the surface.
    fn note(&self, after: &Session) -> Event {
        let text = format!(
            "[{} What was said and done there is unknown: look at the present state before you \
             rely on it.]",
            self.notice()
        );
        let message = UserMessage {
            id: MessageId::new(format!("gap-{}-{}", self.first, self.last)),
            content: vec![Content::text(text)],
            source: UserSource::Context { name: "damage".to_owned() },
        };
        Event {
            seq: self.first,
            time: after.last_time(),
            data: message.into(),
            surface: Some(SurfaceOp::Append),
            ignorable: false,
        }
    }
}

impl Session {
    /// Takes in that these events are missing. Calls that wait for a result wait in vain.
    pub(crate) fn lose(&mut self, lost: LogGap) {
        self.disown_calls(|_| true);
        let note = Arc::new(lost.note(self));
        self.surface.apply(Plan::Append, &note);
        self.state.lose(lost);
    }

    /// Takes in an event that was appended to the log when it was whole and fits no more.
    pub(crate) fn commit_behind_damage(&mut self, event: Arc<Event>) -> Result<(), AppendError> {
        self.state.presume(&event.data);
        self.settle_for(&event);
        if let Ok(plan) = self.check(event.seq, &event.data, event.surface.as_ref()) {
            self.commit(event, plan);
            return Ok(());
        }
        let node = match &event.data {
            // Their call is lost, and they stand for nothing else.
            EventData::ToolCall(_)
            | EventData::ApprovalAsked(_)
            | EventData::ApprovalDecided(_) => return self.keep(event),
            EventData::ToolResult(result) => {
                Arc::new(Event { data: orphan(result, event.seq).into(), ..(*event).clone() })
            }
            _ => Arc::clone(&event),
        };
        self.state.admit(&node.data, node.surface.as_ref()).map_err(|rule| {
            AppendError::Inadmissible { type_name: event.data.type_name().to_owned(), rule }
        })?;
        let plan = self.surface.plan_behind_damage(&node, &self.state.gaps)?;
        self.state.apply(&node);
        self.surface.apply(plan, &node);
        self.log.push(event);
        Ok(())
    }

    fn keep(&mut self, event: Arc<Event>) -> Result<(), AppendError> {
        self.state.apply(&event);
        self.log.push(event);
        Ok(())
    }

    /// Gives up the calls whose results the event proves to be lost.
    fn settle_for(&mut self, event: &Event) {
        match (&event.data, &event.surface) {
            (EventData::ToolResult(result), Some(SurfaceOp::Append)) => {
                let open = &self.state.open_calls;
                let due = open.iter().position(|call| call.is(&result.id, &result.name));
                let lost = open.iter().take(due.unwrap_or(open.len()));
                let lost: HashSet<_> = lost.map(|call| call.id.clone()).collect();
                self.disown_calls(|id| lost.contains(id));
            }
            (EventData::AssistantPartial(_) | EventData::StepEnd(_) | EventData::TurnEnd(_), _)
            | (_, Some(_)) => {
                self.disown_calls(|_| true);
            }
            _ => (),
        }
    }

    /// Turns open calls into text of the answer that made them.
    fn disown_calls(&mut self, lost: impl Fn(&ToolCallId) -> bool) {
        let (gone, open) = std::mem::take(&mut self.state.open_calls)
            .into_iter()
            .partition::<Vec<_>, _>(|call| lost(&call.id));
        self.state.open_calls = open;
        if !gone.is_empty() {
            let gone: HashSet<_> = gone.into_iter().map(|call| call.id).collect();
            self.surface.rewrite_last_answer(|answer| without_calls(answer, &gone));
        }
    }
}

impl SessionState {
    /// Moves to the state in which the event was appended, as far as it tells.
    fn presume(&mut self, data: &EventData) {
        match data {
            EventData::TurnStart(start) => {
                (self.turns.turn_open, self.turns.step_open) = (false, false);
                self.turns.turn.0 = start.turn.0.saturating_sub(1);
            }
            EventData::TurnEnd(end) => {
                (self.turns.turn, self.turns.turn_open) = (end.turn, true);
                self.turns.step_open = false;
            }
            EventData::StepStart(start) => {
                (self.turns.turn, self.turns.turn_open) = (start.turn, true);
                (self.turns.step.0, self.turns.step_open) = (start.step.0.saturating_sub(1), false);
            }
            EventData::RequestHeader(header) => self.request = Some(header.clone()),
            EventData::InboxSpliced(splice) => {
                let inbox = &mut self.inbox;
                inbox.messages.retain(|old| splice.inserted.iter().all(|new| new.id != old.id));
                let unknown: Vec<_> =
                    splice.removed.iter().filter(|id| !inbox.holds(id)).map(lost_input).collect();
                inbox.messages.extend(unknown);
            }
            EventData::CompactionStart(_) => self.compacting = None,
            EventData::CompactionEnd(_) => {
                self.compacting = self.compacting.or(Some(Seq::default()));
            }
            EventData::JobStarted(started) => self.jobs.retain(|job| job.id != started.id),
            EventData::JobEnded(ended) if !self.runs(&ended.id) => {
                self.jobs.push(JobStarted { id: ended.id.clone(), title: String::new() });
            }
            data => {
                if let Some((turn, step)) = data.step() {
                    self.turns = TurnBoundary { turn, turn_open: true, step, step_open: true };
                }
            }
        }
    }
}

/// Queued input of which only its removal is known.
fn lost_input(id: &MessageId) -> UserMessage {
    UserMessage { id: id.clone(), content: Vec::new(), source: UserSource::Human }
}

/// A result whose call is lost, as text.
fn orphan(result: &ToolResult, seq: Seq) -> UserMessage {
    let head = format!("[The result of a call of {} that was damaged:]", result.name);
    let content = [Content::text(head)].into_iter().chain(result.content.iter().cloned());
    UserMessage {
        id: MessageId::new(format!("result-{seq}")),
        content: content.collect(),
        source: UserSource::Context { name: "damage".to_owned() },
    }
}

/// The answer with some of its calls as text. What is still a call stays last, where providers
/// want it.
fn without_calls(answer: &AssistantMessage, gone: &HashSet<ToolCallId>) -> AssistantMessage {
    let mut answer = answer.clone();
    for timed in &mut answer.blocks {
        if let Block::ToolCall { id, name, arguments } = &timed.block
            && gone.contains(id)
        {
            let shown: String = arguments.chars().take(SHOWN_ARGUMENTS).collect();
            let cut = if shown.len() < arguments.len() { "…" } else { "" };
            let text = format!("[I called {name} with {shown}{cut}. What came of it was damaged.]");
            timed.block = Block::Text { text };
        }
    }
    answer.blocks.sort_by_key(|timed| matches!(timed.block, Block::ToolCall { .. }));
    answer
}
