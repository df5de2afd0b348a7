//! What a log folds to besides its surface: everything a driver needs to go on from it.
//!
//! The fold is kept up to date by each append, so reading it costs nothing. It is made of the
//! domain folds, and adds what only the session's own rules need. It holds nothing that the events
//! do not say, and it decides nothing: the rules over it are in `admission`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use crate::blob::BlobHash;
use crate::content::{Block, TimedBlock};
use crate::damage::Gap;
use crate::event::{Event, SurfaceOp};
use crate::fold::{
    ContextSize, Fold as _, Inbox, Modes, Plan, Spending, Summary, Todo, TurnBoundary,
};
use crate::id::{EventCount, JobId, Route, Seq, SeriesNumber, ToolCallId, UnixMillis};
use crate::vocabulary::{
    AssistantMessage, AssistantPartial, EventData, FileObserved, ImageOffload, ImageScaled,
    JobStarted, LlmRetry, LogGap, OffloadReason, RequestContext, RequestHeader, TurnEndReason,
};

/// The state of a session after its last event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// Where in its turns and steps the log stands.
    pub turns: TurnBoundary,
    /// Title, cost, and what else a list shows.
    pub summary: Summary,
    /// What the last turn and all of them have used up.
    pub spending: Spending,
    /// How full the context is.
    pub context_size: ContextSize,
    /// Input that waits.
    pub inbox: Inbox,
    /// The modes that a person chose.
    pub modes: Modes,
    /// Whether the model is to plan only.
    pub plan: Plan,
    /// What is to be done.
    pub todo: Todo,
    /// What the agent works towards. The last `goal/change`.
    pub goal: Option<String>,
    /// The tool calls of the last answer that have no `tool/result`, in the model's order.
    pub open_calls: Vec<OpenCall>,
    /// The answer that is being streamed, as far as it is recorded: its pieces joined. From
    /// `assistant/partial`; void once the attempt is settled or has failed.
    pub partial: Option<AssistantPartial>,
    /// The frame of the current series. The last `request/header`.
    pub request: Option<RequestHeader>,
    /// What the current route can take. The last `request/context`.
    pub context: Option<RequestContext>,
    /// The chosen model. The last `model/selected`.
    pub route: Option<Route>,
    /// The id of the chosen thinking level. The last `thinking/selected`.
    pub thinking: Option<String>,
    /// The repeated try that was planned and has not begun, where nothing but the end of the
    /// process kept it from it. From `llm/retry`.
    pub planned_retry: Option<PlannedRetry>,
    /// Where the compaction began that has not ended. From `compaction/start` and `compaction/end`.
    pub compacting: Option<Seq>,
    /// Whether a compaction has changed what stands on the surface since the last `request/header`,
    /// so that the next request begins a series.
    pub shortened: bool,
    /// The jobs that run, oldest first. From `job/started` and `job/ended`.
    pub jobs: Vec<JobStarted>,
    /// The files that the agent has seen, and the hash of what each one held then. From
    /// `file/observed`.
    pub observed: Arc<BTreeMap<PathBuf, String>>,
    /// What the last turn may have changed. From `file/kept` since the last `turn/start`.
    pub kept: BTreeSet<PathBuf>,
    /// The messages of whose images a note of text stands for some. From `image/offload`.
    pub offloaded: Arc<BTreeMap<Seq, Offloaded>>,
    /// Why images are not shown any more that an answer of the current series has seen, so that the
    /// next request begins a series.
    pub unshown: Option<OffloadReason>,
    /// The last answer since the last `request/header`.
    answered: Option<Seq>,
    /// What is shown in the place of which image. From `image/scaled`.
    pub scaled: Arc<BTreeMap<BlobHash, ImageScaled>>,
    /// How many events a fork inherited; 0 for a session that is no fork. The last
    /// `session/seed-end`, or the header where that event is lost.
    pub inherited: EventCount,
    /// Whether what is open was open in the parent: nothing has begun behind the last
    /// `session/seed-end`.
    pub cut_by_fork: bool,
    /// Which events are lost, oldest first. From holes in the positions; `log/gap` records them.
    pub gaps: Vec<Gap>,
    /// Whether events of the current series may be lost, so that the next request needs a new
    /// one. Until a `request/header` behind the `log/gap`.
    pub series_broken: bool,
    /// Whether a `log/gap` was ever recorded, also for events that are back.
    pub(crate) gap_recorded: bool,
}

/// A repeated try of a request that has not begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedRetry {
    /// The plan.
    pub retry: LlmRetry,
    /// When the try may begin.
    pub due: UnixMillis,
}

/// The images of a message that a note of text stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloaded {
    /// How many, from its first on; `None` for all of them.
    pub first: Option<u32>,
    /// Why.
    pub reason: OffloadReason,
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

    /// Whether this job has started and not ended.
    pub(crate) fn runs(&self, id: &JobId) -> bool {
        self.jobs.iter().any(|job| job.id == *id)
    }

    /// Whether stored events may not fit, because they were appended when the log held others.
    pub(crate) fn is_damaged(&self) -> bool {
        self.gap_recorded || !self.gaps.is_empty()
    }

    /// Takes in one admitted event.
    pub(crate) fn apply(&mut self, event: &Event) {
        self.turns.apply(event);
        self.summary.apply(event);
        self.spending.apply(event);
        self.context_size.apply(event);
        self.inbox.apply(event);
        self.modes.apply(event);
        self.plan.apply(event);
        self.todo.apply(event);
        self.plan_retry(event);
        self.shorten(event);
        self.show(event);
        match &event.data {
            EventData::TurnStart(_) => {
                self.cut_by_fork = false;
                self.kept.clear();
            }
            EventData::InboxSpliced(_) => self.cut_by_fork = false,
            EventData::TurnEnd(_) | EventData::StepEnd(_) | EventData::AssistantAttempt(_) => {
                self.partial = None;
            }
            EventData::AssistantPartial(piece) => self.streamed(piece),
            EventData::AssistantMessage(answer) => self.answered(answer),
            EventData::ToolCall(taken) => {
                let mut calls = self.open_calls.iter_mut();
                if let Some(call) = calls.find(|call| call.is(&taken.id, &taken.name)) {
                    call.started = true;
                }
            }
            EventData::ToolResult(result) if event.surface == Some(SurfaceOp::Append) => {
                self.open_calls.retain(|call| call.id != result.id);
            }
            EventData::RequestHeader(header) => {
                self.request = Some(header.clone());
                self.series_broken &= self.gaps.iter().any(|gap| !gap.recorded);
            }
            EventData::RequestContext(context) => self.context = Some(context.clone()),
            EventData::ModelSelected(selected) => self.route = Some(selected.route.clone()),
            EventData::ThinkingSelected(selected) => self.thinking = Some(selected.level.clone()),
            EventData::GoalChange(change) => self.goal.clone_from(&change.goal),
            EventData::JobStarted(job) => self.jobs.push(job.clone()),
            EventData::JobEnded(ended) => self.jobs.retain(|job| job.id != ended.id),
            EventData::FileObserved(seen) => self.saw(seen),
            EventData::FileKept(kept) => {
                self.kept.insert(kept.path.clone());
            }
            EventData::SeedEnd(seed) => {
                (self.inherited, self.cut_by_fork) = (seed.inherited, true);
            }
            EventData::LogGap(gap) => self.record_gap(gap),
            EventData::SystemMessage(_)
            | EventData::UserMessage(_)
            | EventData::DeveloperMessage(_)
            | EventData::CompactionStart(_)
            | EventData::CompactionEnd(_)
            | EventData::StepStart(_)
            | EventData::ToolResult(_)
            | EventData::ApprovalAsked(_)
            | EventData::ApprovalDecided(_)
            | EventData::PermissionMode(_)
            | EventData::SandboxMode(_)
            | EventData::PlanMode(_)
            | EventData::LlmRetry(_)
            | EventData::LlmRetryStarted(_)
            | EventData::TodoWrite(_)
            | EventData::TitleSet(_)
            | EventData::FeedbackRecord(_)
            | EventData::ImageOffload(_)
            | EventData::ImageScaled(_)
            | EventData::Unknown(_) => (),
        }
    }

    /// Takes in that events are lost.
    pub(crate) fn lose(&mut self, lost: LogGap) {
        self.summary.lose();
        self.modes.lose();
        self.gaps.push(Gap { lost, recorded: false });
        self.series_broken = true;
        self.partial = None;
        self.planned_retry = None;
    }

    /// Follows compactions, and what they have done to the surface.
    fn shorten(&mut self, event: &Event) {
        match (&event.data, &event.surface) {
            (EventData::CompactionStart(_), _) => self.compacting = Some(event.seq),
            (EventData::CompactionEnd(_), _) => self.compacting = None,
            (EventData::RequestHeader(_), _) => self.shortened = false,
            (_, Some(SurfaceOp::Replace { .. })) => self.shortened |= self.compacting.is_some(),
            _ => {}
        }
    }

    /// Follows what is shown in the place of images.
    fn show(&mut self, event: &Event) {
        match &event.data {
            EventData::ImageOffload(offload) => self.offload(offload),
            EventData::AssistantMessage(_) => self.answered = Some(event.seq),
            EventData::RequestHeader(_) => (self.answered, self.unshown) = (None, None),
            EventData::ImageScaled(scaled) => {
                Arc::make_mut(&mut self.scaled).insert(scaled.image.clone(), scaled.clone());
            }
            _ => {}
        }
    }

    fn offload(&mut self, ImageOffload { messages, reason, of_last }: &ImageOffload) {
        let offloaded = Arc::make_mut(&mut self.offloaded);
        for message in messages {
            let first = of_last.filter(|_| messages.last() == Some(message));
            let known = offloaded.entry(*message).or_insert(Offloaded { first, reason: *reason });
            // What is given up stays so, for the reason that it was given up for.
            match (known.first, first) {
                (Some(_), None) => *known = Offloaded { first, reason: *reason },
                (Some(before), Some(now)) => known.first = Some(before.max(now)),
                (None, _) => {}
            }
        }
        let is_seen = |message: &Seq| self.answered.is_some_and(|answer| *message < answer);
        if messages.iter().any(is_seen) {
            self.unshown = Some(*reason);
        }
    }

    fn saw(&mut self, file: &FileObserved) {
        let observed = Arc::make_mut(&mut self.observed);
        match &file.hash {
            Some(hash) => observed.insert(file.path.clone(), hash.clone()),
            None => observed.remove(&file.path),
        };
    }

    fn record_gap(&mut self, said: &LogGap) {
        self.gap_recorded = true;
        for gap in &mut self.gaps {
            if !(said.contains(gap.lost.first) && said.contains(gap.lost.last)) {
                continue;
            }
            gap.recorded = true;
            // A fork does not have the damaged bytes; what they hash to is only in the record.
            if gap.lost.hash.is_empty() {
                gap.lost.hash.clone_from(&said.hash);
            }
        }
    }

    fn plan_retry(&mut self, event: &Event) {
        match &event.data {
            EventData::LlmRetry(retry) => {
                let due = UnixMillis(event.time.0.saturating_add(retry.delay_ms));
                self.planned_retry = Some(PlannedRetry { retry: retry.clone(), due });
            }
            EventData::TurnEnd(end) if end.reason == TurnEndReason::Interrupted => {}
            EventData::LlmRetryStarted(_)
            | EventData::AssistantMessage(_)
            | EventData::TurnEnd(_)
            | EventData::ModelSelected(_) => self.planned_retry = None,
            _ => {}
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
        self.partial = None;
        self.open_calls.extend(answer.tool_calls().map(|(id, name, _)| OpenCall {
            id: id.clone(),
            name: name.to_owned(),
            started: false,
        }));
    }
}
