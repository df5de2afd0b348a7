//! Repair of a log whose process died in mid-turn, or that was damaged.
//!
//! It only adds: nothing that is in the log is touched, and nothing is run again. What it adds
//! follows from the log alone, so two programs that repair the same log agree.

use crate::content::{Block, Content, TimedBlock};
use crate::event::Draft;
use crate::state::{OpenCall, SessionState};
use crate::vocabulary::{
    AssistantMessage, AssistantPartial, InboxSpliced, StepEnd, ToolErrorCode, ToolResult, TurnEnd,
    TurnEndReason,
};

const NOT_STARTED: &str = "This call was not run: Bridle was stopped before it began. \
    It has changed nothing. Call the tool again if the call is still needed.";

const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: Bridle was stopped while it \
    was under way, so its effect may be complete, partial or absent. Look at the current state \
    before you repeat it.";

/// What must be appended, in this order, so that the log is at rest.
pub(crate) fn repair(state: &SessionState) -> Vec<Draft> {
    let gaps = state.gaps.iter().filter(|gap| !gap.recorded);
    let mut drafts: Vec<Draft> = gaps.map(|gap| Draft::new(gap.lost.clone())).collect();
    drafts.extend(state.partial.as_ref().and_then(interrupted).map(Draft::new));
    drafts.extend(state.open_calls.iter().map(|call| Draft::new(lost_result(call))));
    if state.step_open {
        drafts.push(Draft::new(StepEnd { turn: state.turn, step: state.step }));
    }
    if state.turn_open {
        let reason = TurnEndReason::Interrupted;
        drafts.push(Draft::new(TurnEnd { turn: state.turn, reason }));
    }
    if !state.inbox.is_empty() {
        drafts.push(Draft::new(InboxSpliced {
            inserted: Vec::new(),
            removed: state.inbox.iter().map(|message| message.id.clone()).collect(),
            reason: InboxSpliced::DISCARDED.to_owned(),
        }));
    }
    drafts
}

/// What was streamed of an answer, if a person read any text of it.
fn interrupted(partial: &AssistantPartial) -> Option<AssistantMessage> {
    let is_text = |timed: &TimedBlock| matches!(&timed.block, Block::Text { text } if !text.trim().is_empty());
    partial.blocks.iter().any(is_text).then(|| AssistantMessage {
        id: partial.id.clone(),
        blocks: partial.blocks.clone(),
        route: partial.route.clone(),
        stop: "interrupted".to_owned(),
        usage: partial.usage,
        interrupted: true,
    })
}

fn lost_result(call: &OpenCall) -> ToolResult {
    let (error, text) = if call.started {
        (ToolErrorCode::ToolOutcomeUnknown, OUTCOME_UNKNOWN)
    } else {
        (ToolErrorCode::ToolNotStarted, NOT_STARTED)
    };
    ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: vec![Content::text(text)],
        error: Some(error),
        presentation: None,
    }
}
