//! Repair of a log that ends in the middle: its process died, its turn failed, a fork cut it, or it
//! was damaged.
//!
//! It only adds: nothing that is in the log is touched, and nothing is run again. What it adds
//! follows from the log alone, so two programs that repair the same log agree.

use std::sync::Arc;

use crate::content::{Block, Content, TimedBlock, UserSource};
use crate::event::{Draft, Event, SurfaceOp};
use crate::projection::Message;
use crate::session::Session;
use crate::state::{OpenCall, SessionState};
use crate::vocabulary::{
    AssistantMessage, AssistantPartial, CompactionEnd, CompactionOutcome, CompactionStart,
    InboxSpliced, JobEnded, JobOutcome, StepEnd, ToolErrorCode, ToolResult, TurnEnd, TurnEndReason,
    UserMessage,
};

const NOT_STARTED: &str = "This call was not run: Bridle was stopped before it began. \
    It has changed nothing. Call the tool again if the call is still needed.";

const OUTCOME_UNKNOWN: &str = "The outcome of this call is unknown: Bridle was stopped while it \
    was under way, so its effect may be complete, partial or absent. Look at the current state \
    before you repeat it.";

/// The parent of a fork goes on from where the fork was cut, so the call may be run there.
const NOT_STARTED_IN_FORK: &str = "This call was not run here: this session was forked from \
    another before it began. The other session may have run it. Look at the current state before \
    you call the tool again.";

const OUTCOME_UNKNOWN_IN_FORK: &str = "The outcome of this call is unknown here: this session was \
    forked from another while it was under way, so its effect may be complete, partial or absent. \
    Look at the current state before you repeat it.";

/// What must be appended, in this order, so that the log is at rest.
pub(crate) fn repair(session: &Session) -> Vec<Draft> {
    let state = session.state();
    let gaps = state.gaps.iter().filter(|gap| !gap.recorded);
    let mut drafts: Vec<Draft> = gaps.map(|gap| Draft::new(gap.lost.clone())).collect();
    drafts.extend(settle(session));
    if state.turns.turn_open {
        let forked = state.cut_by_fork;
        let reason = if forked { TurnEndReason::Forked } else { TurnEndReason::Interrupted };
        drafts.push(Draft::new(TurnEnd { turn: state.turns.turn, reason }));
    }
    let ended = |id| Draft::new(JobEnded { id, outcome: JobOutcome::Lost });
    drafts.extend(state.jobs.iter().map(|job| ended(job.id.clone())));
    drafts.extend(discarded(state).map(Draft::new));
    drafts
}

/// What must be appended, in this order, so that the turn can end.
pub(crate) fn settle(session: &Session) -> Vec<Draft> {
    let state = session.state();
    let answer = state.partial.as_ref().and_then(interrupted).map(Draft::new);
    let results = state.open_calls.iter().map(|call| lost_result(call, state.cut_by_fork));
    let mut drafts: Vec<_> = answer.into_iter().chain(results.map(Draft::new)).collect();
    if state.compacting.is_some() {
        let outcome = broken_off(session);
        drafts.push(Draft::new(CompactionEnd { outcome, usage: None }));
    }
    if state.turns.step_open {
        drafts.push(Draft::new(StepEnd { turn: state.turns.turn, step: state.turns.step }));
    }
    drafts
}

/// How a compaction ended that says no end. What it had put in place holds, so it is as good as
/// done; the size is what the beginning says, less the estimate of what is gone and plus that of what
/// came, and never less than the estimate of what is left.
fn broken_off(session: &Session) -> CompactionOutcome {
    let Some((start, CompactionStart { tokens, .. })) = session.open_compaction() else {
        return CompactionOutcome::Interrupted;
    };
    let (mut gone, mut came) = (0_u64, None);
    for event in session.events().iter().rev().take_while(|event| event.seq > start.seq) {
        let Some(SurfaceOp::Replace { covers, .. }) = &event.surface else { continue };
        let covered = covers.iter().filter_map(|seq| session.event(*seq));
        gone = gone.saturating_add(covered.map(size).sum());
        came = Some(size(event).saturating_add(came.unwrap_or_default()));
    }
    let Some(came) = came else { return CompactionOutcome::Interrupted };
    let percent = session.state().context_size.percent();
    let corrected = |tokens: u64| tokens.saturating_mul(percent) / 100;
    let left = tokens.saturating_sub(corrected(gone)).saturating_add(corrected(came));
    let surface = session.projection().messages().map(|message| message.tokens()).sum();
    CompactionOutcome::Compacted { tokens: left.max(corrected(surface)) }
}

/// About how many tokens a model reads of an event.
fn size(event: &Arc<Event>) -> u64 {
    Message::of(event).map_or(0, |message| message.tokens())
}

/// Nobody has read what a person has queued, and nobody waits for it any more. What Bridle itself
/// has to tell the model stays true and waits on, but it tells of this session and of no fork.
fn discarded(state: &SessionState) -> Option<InboxSpliced> {
    let reason = match state.cut_by_fork {
        true => InboxSpliced::DISCARDED_BY_FORK,
        false => InboxSpliced::DISCARDED_BY_RESTART,
    };
    let goes = |message: &&UserMessage| state.cut_by_fork || message.source == UserSource::Human;
    let queued = state.inbox.messages.iter();
    let removed: Vec<_> = queued.filter(goes).map(|message| message.id.clone()).collect();
    (!removed.is_empty()).then(|| InboxSpliced::removed(removed, reason))
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

fn lost_result(call: &OpenCall, cut_by_fork: bool) -> ToolResult {
    let (error, text) = match (call.started, cut_by_fork) {
        (true, false) => (ToolErrorCode::ToolOutcomeUnknown, OUTCOME_UNKNOWN),
        (true, true) => (ToolErrorCode::ToolOutcomeUnknown, OUTCOME_UNKNOWN_IN_FORK),
        (false, false) => (ToolErrorCode::ToolNotStarted, NOT_STARTED),
        (false, true) => (ToolErrorCode::ToolNotStarted, NOT_STARTED_IN_FORK),
    };
    ToolResult {
        id: call.id.clone(),
        name: call.name.clone(),
        content: vec![Content::text(text)],
        error: Some(error),
        presentation: None,
    }
}
