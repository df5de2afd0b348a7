//! What an event must satisfy to enter the log, given everything before it.
//!
//! Only facts that hold for every honest history are rules here: a log that breaks one could not
//! be sent to a model or not be repaired. What a driver should do is not a rule.

use std::path::Path;

use crate::content::{Block, Content};
use crate::event::SurfaceOp;
use crate::id::{StepNumber, ToolCallId, TurnNumber};
use crate::state::SessionState;
use crate::vocabulary::{
    AssistantMessage, AssistantPartial, DeveloperMessage, EventData, FileKept, FileObserved,
    ImageOffload, ImageScaled, InboxSpliced, RequestHeader, ToolCall, ToolResult, UserMessage,
};

type Rule = Result<(), &'static str>;

impl SessionState {
    /// Checks an event against the log so far; the error is the rule that it breaks.
    pub(crate) fn admit(&self, data: &EventData, op: Option<&SurfaceOp>) -> Rule {
        match data {
            EventData::TurnStart(start) => self.admit_turn_start(start.turn),
            EventData::TurnEnd(end) => self.admit_turn_end(end.turn),
            EventData::StepStart(start) => self.admit_step_start(start.turn, start.step),
            EventData::StepEnd(end) => {
                self.in_step(end.turn, end.step)?;
                self.calls_settled()
            }
            EventData::AssistantPartial(partial) => self.admit_partial(partial),
            EventData::AssistantAttempt(attempt) => self.in_step(attempt.turn, attempt.step),
            EventData::LlmRetry(retry) => self.in_step(retry.turn, retry.step),
            EventData::LlmRetryStarted(retry) => self.in_step(retry.turn, retry.step),
            EventData::SystemMessage(message) => {
                self.calls_settled()?;
                hold(!message.text.is_empty(), "has no text")
            }
            EventData::UserMessage(message) => {
                self.calls_settled()?;
                admit_user(message)
            }
            EventData::DeveloperMessage(message) => {
                self.calls_settled()?;
                admit_developer(message)
            }
            EventData::AssistantMessage(answer) => {
                self.calls_settled()?;
                admit_answer(answer)
            }
            EventData::ToolCall(call) => self.admit_call(call),
            EventData::ToolResult(result) => self.admit_result(result, op),
            EventData::RequestHeader(header) => self.admit_header(header),
            EventData::InboxSpliced(splice) => self.admit_splice(splice),
            EventData::ApprovalAsked(asked) => self.call_open(&asked.call),
            EventData::ApprovalDecided(decided) => self.call_open(&decided.call),
            EventData::PermissionMode(mode) => hold(!mode.mode.is_empty(), "names no mode"),
            EventData::SandboxMode(mode) => hold(!mode.mode.is_empty(), "names no mode"),
            EventData::ThinkingSelected(set) => hold(!set.level.is_empty(), "names no level"),
            EventData::TitleSet(title) => one_line(&title.title),
            EventData::FeedbackRecord(feedback) => says_something(&feedback.text),
            EventData::TodoWrite(list) => {
                list.items.iter().try_for_each(|item| says_something(&item.text))
            }
            EventData::GoalChange(change) => {
                change.goal.iter().try_for_each(|goal| says_something(goal))
            }
            EventData::CompactionStart(start) => {
                hold(self.compacting.is_none(), "the compaction before it is open")?;
                start.instruction.iter().try_for_each(admit_user)
            }
            EventData::CompactionEnd(_) => {
                hold(self.compacting.is_some(), "no compaction is open")
            }
            EventData::JobStarted(job) => {
                hold(!self.runs(&job.id), "the job was started before")?;
                one_line(&job.title)
            }
            EventData::JobEnded(job) => hold(self.runs(&job.id), "no such job is running"),
            EventData::FileObserved(FileObserved { path, .. })
            | EventData::FileKept(FileKept { path, .. }) => names_a_file(path),
            EventData::ImageOffload(offload) => admit_offload(offload),
            EventData::ImageScaled(scaled) => admit_scaled(scaled),
            EventData::LogGap(gap) => hold(gap.first <= gap.last, "ends before it begins"),
            EventData::Unknown(unknown) => on_one_line(unknown.data.get()),
            EventData::RequestContext(_)
            | EventData::ModelSelected(_)
            | EventData::PlanMode(_)
            // Where it may stand follows from the header: `Session::admit_boundary`.
            | EventData::SeedEnd(_) => Ok(()),
        }
    }

    fn admit_turn_start(&self, turn: TurnNumber) -> Rule {
        hold(!self.turns.turn_open, "the turn before it is open")?;
        hold(turn == self.turns.turn.next(), "does not carry the next turn's number")
    }

    fn admit_turn_end(&self, turn: TurnNumber) -> Rule {
        hold(self.turns.turn_open && turn == self.turns.turn, "is not of the open turn")?;
        hold(!self.turns.step_open, "a step of the turn is open")?;
        self.calls_settled()
    }

    fn admit_step_start(&self, turn: TurnNumber, step: StepNumber) -> Rule {
        hold(self.turns.turn_open && turn == self.turns.turn, "is not of the open turn")?;
        hold(!self.turns.step_open, "the step before it is open")?;
        hold(step == self.turns.step.next(), "does not carry the next step's number")
    }

    fn in_step(&self, turn: TurnNumber, step: StepNumber) -> Rule {
        let open = self.turns.turn_open && self.turns.step_open;
        hold(open && (turn, step) == (self.turns.turn, self.turns.step), "is not of the open step")
    }

    /// Providers refuse a history in which anything stands between a call and its result.
    fn calls_settled(&self) -> Rule {
        hold(self.open_calls.is_empty(), "a tool call before it has no result")
    }

    fn call_open(&self, id: &ToolCallId) -> Rule {
        hold(self.open_call(id).is_some(), "no open tool call has this id")
    }

    fn admit_partial(&self, partial: &AssistantPartial) -> Rule {
        self.in_step(partial.turn, partial.step)?;
        self.calls_settled()?;
        hold(!partial.blocks.is_empty(), "has no content")?;
        let calls = partial.blocks.iter().any(|timed| !is_safe_to_keep(&timed.block));
        hold(!calls, "holds a block that is of use only in a whole answer")
    }

    fn admit_call(&self, taken: &ToolCall) -> Rule {
        let call = self.open_call(&taken.id).ok_or("no open tool call has this id")?;
        hold(!call.started, "the call was taken up before")?;
        hold(call.name == taken.name, "the call has another name")
    }

    fn admit_result(&self, result: &ToolResult, op: Option<&SurfaceOp>) -> Rule {
        if let Some(presentation) = &result.presentation {
            on_one_line(presentation.get())?;
        }
        // A replacement carries a result that is there already; the surface checks it.
        if op != Some(&SurfaceOp::Append) {
            return Ok(());
        }
        let call = self.open_call(&result.id).ok_or("no open tool call has this id")?;
        hold(call.name == result.name, "the call has another name")?;
        let due = self.open_calls.first().map(|call| &call.id);
        hold(due == Some(&result.id), "a call before it in the model's order has no result")
    }

    fn admit_header(&self, header: &RequestHeader) -> Rule {
        let series = self.series();
        let current = header.series == series && self.request.is_some();
        hold(current || header.series == series.next(), "skips a series")
    }

    fn admit_splice(&self, splice: &InboxSpliced) -> Rule {
        hold(!(splice.inserted.is_empty() && splice.removed.is_empty()), "changes nothing")?;
        hold(splice.removed.is_empty() || !splice.reason.is_empty(), "gives no reason")?;
        let removed = &splice.removed;
        hold(removed.iter().all(|id| self.inbox.holds(id)), "removes what is not queued")?;
        hold(all_distinct(removed), "removes a message twice")?;
        let inserted: Vec<_> = splice.inserted.iter().map(|message| &message.id).collect();
        hold(!inserted.iter().any(|id| self.inbox.holds(id)), "queues a message twice")?;
        hold(all_distinct(&inserted), "queues a message twice")?;
        splice.inserted.iter().try_for_each(admit_user)
    }
}

fn admit_user(message: &UserMessage) -> Rule {
    let is_empty = |part: &Content| matches!(part, Content::Text { text } if text.is_empty());
    hold(!message.content.iter().all(is_empty), "has no content")
}

fn admit_developer(message: &DeveloperMessage) -> Rule {
    let names: Vec<_> = message.added.iter().chain(&message.removed).collect();
    hold(!names.is_empty(), "changes nothing")?;
    hold(names.iter().all(|name| !name.is_empty()), "names no tool")?;
    hold(all_distinct(&names), "names a tool twice")
}

fn admit_answer(answer: &AssistantMessage) -> Rule {
    hold(!answer.blocks.is_empty(), "has no content")?;
    let ids: Vec<_> = answer.tool_calls().map(|(id, ..)| id).collect();
    hold(all_distinct(&ids), "uses a tool call id twice")
}

fn is_safe_to_keep(block: &Block) -> bool {
    matches!(block, Block::Text { .. } | Block::Thinking { .. } | Block::RedactedThinking { .. })
}

fn admit_offload(offload: &ImageOffload) -> Rule {
    hold(!offload.messages.is_empty(), "names no message")?;
    hold(all_distinct(&offload.messages), "names a message twice")?;
    hold(offload.of_last != Some(0), "names no image of its last message")
}

fn admit_scaled(ImageScaled { from, to, .. }: &ImageScaled) -> Rule {
    let sides = [from.width, from.height, to.width, to.height];
    hold(sides.iter().all(|side| *side > 0), "a side of it has no pixels")
}

fn names_a_file(path: &Path) -> Rule {
    hold(path.is_absolute(), "names no absolute path")?;
    hold(path.to_str().is_some(), "its path is not UTF-8")
}

/// A log is read line by line, so raw JSON in it must not bring its own line ends.
fn on_one_line(raw: &str) -> Rule {
    hold(!raw.contains(['\n', '\r']), "its raw JSON is longer than one line")
}

fn says_something(text: &str) -> Rule {
    hold(!text.trim().is_empty(), "has no text")
}

fn one_line(text: &str) -> Rule {
    hold(!text.is_empty(), "has no text")?;
    hold(!text.contains(['\n', '\r']), "is longer than one line")
}

fn all_distinct<T: PartialEq>(items: &[T]) -> bool {
    let mut rest = items;
    while let Some((first, others)) = rest.split_first() {
        if others.contains(first) {
            return false;
        }
        rest = others;
    }
    true
}

fn hold(condition: bool, rule: &'static str) -> Rule {
    if condition { Ok(()) } else { Err(rule) }
}
