//! One compaction from its start to its end.
//!
//! `compaction/start` is the lock, `compaction/end` says what came of it; between them only what is
//! to stay on the surface is put there. A request for a summary is the conversation as it stands with
//! one more message, so that it reads the provider's cache. Where leaving out parts of old results is
//! enough, no model is asked. What fails leaves the surface as it was. Design: compaction.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bridle_model::{FailureCode, ModelFailure};
use bridle_session::{
    CompactionEnd, CompactionOutcome, CompactionStart, CompactionTrigger, Draft, Message,
    MessageId, Span, StepNumber, SurfaceOp, Usage, UserMessage,
};
use tokio_util::sync::CancellationToken;

use super::summary::useless;
use crate::compaction::{
    Checkpoint, Outliving, Plan, Pruned, Sizes, Unread, instruction, omission, prunable, text_of,
};
use crate::context::ContextSource;
use crate::driver::Driver;
use crate::driver::contexts::is_of;
use crate::driver::fill::uncorrected;
use crate::driver::halt::Halt;
use crate::tool::Tool;
use crate::update::{AgentUpdate, Compaction, Meter};

/// How often a summary is asked for in a turn before it is given up.
const TRIES: u32 = 2;

/// Of what a summary takes the place of, it may be so many percent.
const WORTHWHILE: u64 = 80;

/// A conversation is pruned without asking a model where that leaves so many percent of what it may
/// grow to.
const ROOMY: u64 = 50;

/// A conversation is shortened before it must be only where at least so many percent of what it may grow
/// to would go, and where a summary was of no use, has come since: none is shortened again and again for
/// little.
const SUBSTANTIAL: u64 = 25;

/// What came of it.
#[derive(Debug)]
pub(in crate::driver) enum Shortened {
    Yes,
    /// There is nothing that could go.
    Nothing,
    No(ModelFailure),
}

/// One compaction: why, and what it needs to know at each step.
pub(in crate::driver) struct Job<'a> {
    trigger: CompactionTrigger,
    focus: Option<&'a str>,
    step: StepNumber,
    sizes: Sizes,
    /// By how much the next request is too long for the window; 0 where it is not, as far as is known.
    excess: u64,
    /// How often it was tried.
    tries: u32,
    /// What was wrong with the last try, and whether it was that the request was too long.
    again: Option<String>,
    is_too_long: bool,
}

impl<'a> Job<'a> {
    pub(super) fn new(trigger: CompactionTrigger, step: StepNumber, sizes: Sizes) -> Self {
        let (focus, again) = (None, None);
        Self { trigger, focus, step, sizes, excess: 0, tries: 0, again, is_too_long: false }
    }

    /// Before a request of so many tokens.
    pub(super) fn before(size: u64, step: StepNumber, sizes: Sizes) -> Self {
        let excess = size.saturating_sub(sizes.request);
        Self { excess, ..Self::new(CompactionTrigger::Pressure, step, sizes) }
    }

    /// The same, of which the person wants the summary to dwell on something.
    pub(super) fn dwelling_on(self, focus: Option<&'a str>) -> Self {
        Self { focus, ..self }
    }
}

/// What one try came to.
enum Tried {
    Done,
    Failed(ModelFailure, Again),
}

/// Whether what failed is worth another try.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Again {
    /// As something was wrong with the summary or its request, which the next is told of.
    Better,
    /// After a while.
    Later(Duration),
    Never,
}

impl Driver {
    pub(super) async fn shorten(
        &mut self,
        mut job: Job<'_>,
        token: &CancellationToken,
    ) -> Result<Shortened, Halt> {
        let is_asked = job.trigger == CompactionTrigger::Person;
        job.tries = if is_asked { 0 } else { self.failed_summaries };
        let mut last = ModelFailure::new(
            FailureCode::ContextOverflow,
            format!("summaries have failed {TRIES} times in this turn"),
        );
        let mut again = Again::Later(Duration::ZERO);
        // Who has asked for it waits for a provider as they would for an answer.
        while job.tries < TRIES || (is_asked && matches!(again, Again::Later(_))) {
            let Some(plan) = self.worthwhile(&job) else { return Ok(Shortened::Nothing) };
            job.tries = job.tries.saturating_add(1);
            match self.try_once(&job, plan, token).await? {
                Tried::Done => {
                    (self.failed_summaries, self.useless_at) = (0, 0);
                    return Ok(Shortened::Yes);
                }
                // There are fewer each time.
                Tried::Failed(failure, _) if self.give_up_images(&failure).await? => {
                    job.tries = job.tries.saturating_sub(1);
                }
                Tried::Failed(failure, next) => {
                    if next == Again::Never {
                        job.tries = TRIES;
                    }
                    if !is_asked {
                        self.failed_summaries = job.tries;
                    }
                    job.again = Some(failure.message.clone());
                    job.is_too_long = failure.code == FailureCode::ContextOverflow;
                    (last, again) = (failure, next);
                    if let Again::Later(wait) = next
                        && (is_asked || job.tries < TRIES)
                    {
                        let wait = self.clock.sleep(wait);
                        self.unless_cancelled(wait, token).await?;
                    }
                }
            }
        }
        if !matches!(again, Again::Later(_)) {
            self.useless_at = self.recorder.session().state().context_size.tokens();
        }
        Ok(Shortened::No(last))
    }

    /// What would go; `None` when it is not worth it.
    pub(super) fn worthwhile(&self, job: &Job<'_>) -> Option<Plan> {
        let plan = self.cut(job)?;
        if job.trigger != CompactionTrigger::Pressure {
            return Some(plan);
        }
        let least = job.sizes.trigger.saturating_mul(SUBSTANTIAL) / 100;
        let size = self.recorder.session().state().context_size.tokens();
        let is_new = self.useless_at == 0 || size >= self.useless_at.saturating_add(least);
        // Anything is enough with which it fits, with the summary, into a window that it is too long for.
        let most =
            if job.excess > 0 { job.excess.saturating_add(job.sizes.headroom) } else { least };
        let is_enough = plan.gain() >= uncorrected(least.min(most), self.percent());
        (is_new && is_enough).then_some(plan)
    }

    fn cut(&self, job: &Job<'_>) -> Option<Plan> {
        let sources = self.scope.all::<dyn ContextSource>();
        let speaks = |name: &str| sources.iter().any(|source| is_of(name, source.name()));
        let tail = uncorrected(job.sizes.tail, self.percent());
        Plan::of(&self.recorder.session().projection(), tail, speaks)
    }

    async fn try_once(
        &mut self,
        job: &Job<'_>,
        plan: Plan,
        token: &CancellationToken,
    ) -> Result<Tried, Halt> {
        let pruned = prunable(&self.recorder.session().projection(), &plan.covers);
        let saved: u64 = pruned.iter().map(|pruned| pruned.saved).sum();
        let left = self.size_without(saved);
        let is_roomy = left <= job.sizes.trigger.saturating_mul(ROOMY) / 100;
        if job.trigger != CompactionTrigger::Person && saved > 0 && is_roomy {
            self.prune(job, pruned, left).await?;
            return Ok(Tried::Done);
        }
        let call = self.resolve(job.step, 1, token).await?;
        let retry = call.retry().clone();
        // Whatever else has changed begins its series here, so that this request is lawful, too.
        self.frame(&call, 1, &mut Vec::new())?;
        let omits = self.omitted(job);
        let start = self.recorder.session().len();
        let id = MessageId::new(format!("compaction-{start}"));
        let ask = instruction(id, job.sizes.headroom, job.focus, job.again.as_deref());
        let is_partial = omits.is_some_and(|(_, is_lost)| is_lost);
        self.begin_compaction(job, Some(ask), omits.map(|(span, _)| span)).await?;
        let (answer, usage) = match self.summarise(call, token).await {
            Ok(summarised) => summarised,
            Err(halt) => {
                self.end_compaction(broken_off(&halt), None, None).await?;
                return Err(halt);
            }
        };
        let failure = match answer {
            Ok(summary) => match self.replace(job, &plan, &summary, is_partial, usage).await? {
                Ok(()) => return Ok(Tried::Done),
                Err(why) => useless(why),
            },
            Err(failure) => failure,
        };
        if failure.code == FailureCode::Cancelled || token.is_cancelled() {
            self.end_compaction(CompactionOutcome::Cancelled, usage, None).await?;
            return Err(Halt::Cancelled);
        }
        let message = failure.message.clone();
        self.end_compaction(CompactionOutcome::Failed { message }, usage, None).await?;
        let again = match failure.code {
            FailureCode::ContextOverflow | FailureCode::MalformedResponse => Again::Better,
            _ => {
                let delay = retry.delay(job.tries, &failure, fastrand::f64());
                delay.map_or(Again::Never, Again::Later)
            }
        };
        Ok(Tried::Failed(failure, again))
    }

    /// What a request for a summary leaves out, and whether that is then in no summary: nothing, as
    /// long as there is room for all of it; then what stays in any case because no answer has followed
    /// it yet; then the oldest part.
    fn omitted(&self, job: &Job<'_>) -> Option<(Span, bool)> {
        let session = self.recorder.session();
        let size = session.state().context_size.tokens();
        // Where it was found too long, the provider counts otherwise than was thought.
        let halvings =
            u32::from(job.is_too_long) + u32::from(job.trigger == CompactionTrigger::Overflow);
        let room = match halvings {
            0 => job.sizes.request,
            _ => job.sizes.trigger.min(size) >> halvings,
        };
        if size <= room {
            return None;
        }
        let surface = session.projection();
        match Unread::of(&surface) {
            Some(unread) if size.saturating_sub(self.corrected(unread.tokens)) <= room => {
                Some((unread.span, false))
            }
            _ => omission(&surface, uncorrected(room, self.percent())).map(|span| (span, true)),
        }
    }

    /// Puts the checkpoint in the place of what it covers; or says why not.
    async fn replace(
        &mut self,
        job: &Job<'_>,
        plan: &Plan,
        summary: &str,
        omits: bool,
        usage: Option<Usage>,
    ) -> Result<Result<(), &'static str>, Halt> {
        // Nothing but this may change the surface meanwhile; what was summarised must be what goes.
        if self.cut(job).is_none_or(|now| now.covers != plan.covers) {
            return Ok(Err("the conversation has changed meanwhile"));
        }
        let message = self.checkpoint(job, plan, summary, omits);
        let size = Message::User(&message).tokens();
        let read = text_of(&message);
        if size.saturating_mul(100) > plan.gain().saturating_mul(WORTHWHILE) {
            return Ok(Err("it is hardly shorter than what it stands for"));
        }
        let tokens = self.size_without(plan.tokens.saturating_sub(size));
        let (Some(first), Some(last)) = (plan.covers.first(), plan.covers.last()) else {
            return Ok(Err("there is nothing to replace"));
        };
        let op = SurfaceOp::Replace { first: *first, last: *last, covers: plan.covers.clone() };
        self.recorder.append_draft(Draft { data: message.into(), surface: Some(op) })?;
        let outcome = CompactionOutcome::Compacted { tokens };
        self.end_compaction(outcome, usage, Some(read)).await?;
        Ok(Ok(()))
    }

    /// What takes the place of what goes.
    fn checkpoint(&self, job: &Job<'_>, plan: &Plan, summary: &str, omits: bool) -> UserMessage {
        let tools: BTreeMap<_, _> = self.scope.all::<dyn Tool>().into_iter().map(named).collect();
        let outlives: Outliving<'_> =
            &|tool, arguments, read| tools.get(tool)?.outlives(arguments, read);
        let (session, covers, words) = (self.recorder.session(), &plan.covers, job.sizes.tail / 2);
        let checkpoint = Checkpoint { session, covers, omits, summary, words, outlives };
        checkpoint.message(MessageId::new(format!("checkpoint-{}", session.len())))
    }

    /// Leaves out the middle of large results, so that `left` tokens remain.
    async fn prune(&mut self, job: &Job<'_>, pruned: Vec<Pruned>, left: u64) -> Result<(), Halt> {
        self.begin_compaction(job, None, None).await?;
        for Pruned { seq, result, .. } in pruned {
            let op = SurfaceOp::Replace { first: seq, last: seq, covers: vec![seq] };
            self.recorder.append_draft(Draft { data: result.into(), surface: Some(op) })?;
        }
        self.end_compaction(CompactionOutcome::Compacted { tokens: left }, None, None).await
    }

    /// Leaves out the middle of every large result, also of those that no answer has followed yet.
    /// Says whether there was one.
    pub(super) async fn prune_all(&mut self, job: &Job<'_>) -> Result<bool, Halt> {
        let surface = self.recorder.session().projection();
        let all: Vec<_> = surface.entries().map(|(seq, _)| seq).collect();
        let pruned = prunable(&surface, &all);
        if pruned.is_empty() {
            return Ok(false);
        }
        let saved = pruned.iter().map(|pruned| pruned.saved).sum();
        let left = self.size_without(saved);
        self.prune(job, pruned, left).await?;
        Ok(true)
    }

    async fn begin_compaction(
        &mut self,
        job: &Job<'_>,
        instruction: Option<UserMessage>,
        omits: Option<Span>,
    ) -> Result<(), Halt> {
        let tokens = self.recorder.session().state().context_size.tokens();
        let start = CompactionStart { trigger: job.trigger, tokens, instruction, omits };
        let window = self.recorder.session().state().context.as_ref();
        let window = window.map_or(0, |context| context.window);
        let event = self.recorder.append(start)?;
        self.recorder.flush().await?;
        let id = Compaction::id_of(event.seq);
        self.send(AgentUpdate::Compaction(id, Compaction::Began { tokens, window })).await;
        Ok(())
    }

    async fn end_compaction(
        &mut self,
        outcome: CompactionOutcome,
        usage: Option<Usage>,
        summary: Option<String>,
    ) -> Result<(), Halt> {
        let open = self.recorder.session().open_compaction();
        let (start, before) =
            open.map(|(event, start)| (event.seq, start.tokens)).unwrap_or_default();
        self.recorder.append(CompactionEnd { outcome: outcome.clone(), usage })?;
        let ended = Compaction::ended(&outcome, before, summary);
        self.send(AgentUpdate::Compaction(Compaction::id_of(start), ended)).await;
        let meter = Meter::of(self.recorder.session().state());
        self.send(AgentUpdate::Usage(meter)).await;
        self.tell_fill().await;
        Ok(())
    }
}

fn named(tool: Arc<dyn Tool>) -> (String, Arc<dyn Tool>) {
    (tool.spec().name.clone(), tool)
}

/// How a compaction ends that was stopped on its way.
fn broken_off(halt: &Halt) -> CompactionOutcome {
    match halt {
        Halt::Cancelled => CompactionOutcome::Cancelled,
        Halt::Failed(failure) => CompactionOutcome::Failed { message: failure.message.clone() },
    }
}
