//! Shortening the conversation: before a request that would come too near to the window, after one
//! that was refused as too long, or because a person asks.
//!
//! `compaction/start` is the lock, `compaction/end` says what came of it; between them only what is
//! to stay on the surface is put there. A request for a summary is the conversation as it stands with
//! one more message, so that it reads the provider's cache. Where leaving out parts of old results is
//! enough, no model is asked. What fails leaves the surface as it was. Design: compaction.

use std::sync::Arc;
use std::time::Duration;

use bridle_model::{FailureCode, ModelFailure, PreparedCall, RouteLimits};
use bridle_session::{
    CompactionEnd, CompactionOutcome, CompactionStart, CompactionTrigger, Draft, Message,
    MessageId, Span, StepNumber, SurfaceOp, Usage, UserMessage, UserSource,
};
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use super::summary::useless;
use crate::compaction::{
    Checkpoint, CompactionConfig, Fill, Plan, Pruned, Sizes, Unread, instruction, omission,
    prunable, text_of, tokens_of,
};
use crate::update::{AgentUpdate, Compaction, Meter, NoticeLevel, TurnOutcome};

/// How often a summary is asked for in a turn before it is given up.
const TRIES: u32 = 2;

/// Of what a summary takes the place of, it may be so many percent.
const WORTHWHILE: u64 = 80;

/// A conversation is pruned without asking a model where that leaves so many percent of what it may
/// grow to.
const ROOMY: u64 = 50;

/// A conversation is shortened by itself only where at least so many percent of what it may grow to
/// would go, so that none is shortened again and again for little.
const SUBSTANTIAL: u64 = 25;

/// What came of it.
#[derive(Debug)]
pub(super) enum Shortened {
    Yes,
    /// There is nothing that could go.
    Nothing,
    No(ModelFailure),
}

/// One compaction: why, and what it needs to know at each step.
struct Job<'a> {
    trigger: CompactionTrigger,
    focus: Option<&'a str>,
    step: StepNumber,
    sizes: Sizes,
    /// What was wrong with the last try, and whether it was that the request was too long.
    again: Option<String>,
    is_too_long: bool,
}

impl Job<'_> {
    fn new(trigger: CompactionTrigger, step: StepNumber, sizes: Sizes) -> Self {
        Self { trigger, focus: None, step, sizes, again: None, is_too_long: false }
    }
}

/// What one try came to.
enum Tried {
    Done,
    /// It failed. How long to wait before another try; `None` where none makes sense.
    Failed(ModelFailure, Option<Duration>),
}

impl Driver {
    /// Shortens the conversation before a request on `call`'s route that would be too large with
    /// `input`, or behind an answer that filled the window. Says whether it did.
    pub(super) async fn relieve(
        &mut self,
        call: &PreparedCall,
        step: StepNumber,
        input: &[UserMessage],
        token: &CancellationToken,
    ) -> Result<bool, Halt> {
        let was_full = std::mem::take(&mut self.window_was_full);
        let Some(config) = self.automatic() else { return Ok(false) };
        let Some(sizes) = config.sizes(call.limits()) else { return Ok(false) };
        let sizes = sizes.map_err(|why| unfit(call, &why))?;
        if was_full {
            let full = ModelFailure::new(FailureCode::ContextOverflow, "The window is full.");
            return self.recover(call.limits(), step, &full, token).await;
        }
        let new = self.corrected(input.iter().map(|message| Message::User(message).tokens()).sum());
        let size = self.recorder.session().state().context_size.tokens().saturating_add(new);
        // What is too long by itself fits into no conversation, however short.
        if size <= sizes.trigger || new > sizes.window {
            return Ok(false);
        }
        let job = Job::new(CompactionTrigger::Pressure, step, sizes);
        // What could not be shortened may still fit.
        Ok(matches!(self.shorten(job, token).await?, Shortened::Yes))
    }

    /// Shortens the conversation after `failure` said that a request is too long. Says whether it
    /// did; it does not where that is not to happen by itself.
    ///
    /// # Errors
    /// The failure and why nothing could be done about it.
    pub(super) async fn recover(
        &mut self,
        limits: RouteLimits,
        step: StepNumber,
        failure: &ModelFailure,
        token: &CancellationToken,
    ) -> Result<bool, Halt> {
        let sizes = self.automatic().and_then(|config| config.sizes(limits)?.ok());
        let Some(sizes) = sizes else { return Ok(false) };
        let job = || Job::new(CompactionTrigger::Overflow, step, sizes);
        let unread = Unread::of(&self.recorder.session().projection());
        let input = unread.filter(|unread| unread.is_input);
        if let Some(input) = input.filter(|it| self.corrected(it.tokens) > sizes.window) {
            return Err(self.withdraw_too_long(input, failure)?);
        }
        let why = match self.shorten(job(), token).await? {
            Shortened::Yes => return Ok(true),
            _ if self.prune_all(&job()).await? => return Ok(true),
            Shortened::Nothing => match input {
                Some(input) => return Err(self.withdraw_too_long(input, failure)?),
                None => "nothing of it can be left out".to_owned(),
            },
            Shortened::No(failure) => failure.message,
        };
        let fill = self.fill().named().map(|(name, tokens)| format!("{name} {tokens}")).join(", ");
        let message = format!(
            "{} The conversation could not be shortened: {why}. Its parts in about so many tokens: \
             {fill}. `/compact` tries again; a new session begins without all of it.",
            failure.message
        );
        Err(ModelFailure { message, ..failure.clone() }.into())
    }

    /// Whether something of the conversation can go on the route that answered last.
    pub(super) fn can_be_shortened(&self) -> bool {
        let context = self.recorder.session().state().context.as_ref();
        let limits = context.map(|it| RouteLimits { window: it.window, max_output: it.max_output });
        let sizes = self.automatic().zip(limits).and_then(|(config, limits)| config.sizes(limits));
        let Some(Ok(sizes)) = sizes else { return false };
        let job = Job::new(CompactionTrigger::Overflow, StepNumber::default(), sizes);
        self.worthwhile(&job).is_some()
    }

    /// Takes input off the surface that is too long for the window: it would make every later request
    /// too long, too. What the turn ends with.
    fn withdraw_too_long(&mut self, input: Unread, failure: &ModelFailure) -> Result<Halt, Halt> {
        let tokens = self.corrected(input.tokens);
        let note = format!(
            "[What the user sent here was too long for the window (about {tokens} tokens) and was \
             removed before anybody read it; they have been told.]"
        );
        self.withdraw(input.span.first, "too-long", &note)?;
        let message = format!(
            "{} What you sent last (about {tokens} tokens, with what it refers to) does not fit, and \
             is withdrawn: the model does not read it, and the conversation goes on without it. Send \
             less of it, or name files and let the model read what it needs.",
            failure.message
        );
        Ok(ModelFailure { message, ..failure.clone() }.into())
    }

    /// The settings, where conversations are shortened by themselves.
    pub(super) fn automatic(&self) -> Option<Arc<CompactionConfig>> {
        self.scope.get::<CompactionConfig>().filter(|config| config.auto)
    }

    /// Shortens the conversation because a person asks, between the turns.
    pub(super) async fn compact(&mut self, focus: &str, token: &CancellationToken) -> TurnOutcome {
        match self.compact_between_turns(focus, token).await {
            Ok(()) => TurnOutcome::EndTurn,
            Err(Halt::Cancelled) => TurnOutcome::Cancelled,
            Err(Halt::Failed(failure)) => TurnOutcome::Failed(failure),
        }
    }

    async fn compact_between_turns(
        &mut self,
        focus: &str,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let Some(config) = self.scope.get::<CompactionConfig>() else {
            let title = "The row `compaction` is not active; `bridle config show` says why.";
            self.notice(NoticeLevel::Warning, title, None).await;
            return Ok(());
        };
        self.assemble()?;
        let step = StepNumber::default();
        let call = self.resolve(step, 1, token).await?;
        let sizes =
            config.sizes(call.limits()).ok_or_else(|| unfit(&call, "its window is not known"))?;
        let mut sizes = sizes.map_err(|why| unfit(&call, &why))?;
        // Somebody who asks early wants it shorter than it is, not than it may become.
        let used = self.recorder.session().state().context_size.tokens();
        sizes.tail = sizes.tail.min(used.saturating_mul(sizes.tail) / sizes.trigger.max(1));
        let focus = Some(focus.trim()).filter(|focus| !focus.is_empty());
        let job = Job { focus, ..Job::new(CompactionTrigger::Person, step, sizes) };
        match self.shorten(job, token).await? {
            Shortened::Yes => Ok(()),
            Shortened::Nothing => {
                let title = "There is nothing to shorten: the conversation is as short as it gets.";
                self.notice(NoticeLevel::Info, title, None).await;
                Ok(())
            }
            Shortened::No(failure) => Err(failure.into()),
        }
    }

    async fn shorten(
        &mut self,
        mut job: Job<'_>,
        token: &CancellationToken,
    ) -> Result<Shortened, Halt> {
        let is_asked = job.trigger == CompactionTrigger::Person;
        let mut tries = if is_asked { 0 } else { self.failed_summaries };
        let mut last = ModelFailure::new(
            FailureCode::ContextOverflow,
            format!("summaries have failed {TRIES} times in this turn"),
        );
        while tries < TRIES {
            let Some(plan) = self.worthwhile(&job) else { return Ok(Shortened::Nothing) };
            match self.try_once(&job, plan, token).await? {
                Tried::Done => {
                    self.failed_summaries = 0;
                    return Ok(Shortened::Yes);
                }
                Tried::Failed(failure, wait) => {
                    tries = if wait.is_some() { tries.saturating_add(1) } else { TRIES };
                    if !is_asked {
                        self.failed_summaries = tries;
                    }
                    if let Some(wait) = wait.filter(|wait| !wait.is_zero() && tries < TRIES) {
                        let wait = self.clock.sleep(wait);
                        self.unless_cancelled(wait, token).await?;
                    }
                    job.again = Some(failure.message.clone());
                    job.is_too_long = failure.code == FailureCode::ContextOverflow;
                    last = failure;
                }
            }
        }
        Ok(Shortened::No(last))
    }

    /// What would go; `None` when it is not worth it.
    fn worthwhile(&self, job: &Job<'_>) -> Option<Plan> {
        let (surface, percent) = (self.recorder.session().projection(), self.percent());
        let plan = Plan::of(&surface, uncorrected(job.sizes.tail, percent))?;
        let least = match job.trigger {
            CompactionTrigger::Pressure => job.sizes.trigger.saturating_mul(SUBSTANTIAL) / 100,
            CompactionTrigger::Overflow | CompactionTrigger::Person => 0,
        };
        (plan.tokens >= uncorrected(least, percent)).then_some(plan)
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
        let wait = match failure.code {
            FailureCode::ContextOverflow | FailureCode::MalformedResponse => Some(Duration::ZERO),
            _ => retry.delay(1, &failure, fastrand::f64()),
        };
        Ok(Tried::Failed(failure, wait))
    }

    /// What a request for a summary leaves out, and whether that is then in no summary: nothing, as
    /// long as there is room for all of it; then what stays in any case because no answer has followed
    /// it yet; then the oldest part.
    fn omitted(&self, job: &Job<'_>) -> Option<(Span, bool)> {
        let session = self.recorder.session();
        let size = session.state().context_size.tokens();
        // Where it was found too long, the provider counts otherwise than was thought.
        let room = match job.is_too_long || job.trigger == CompactionTrigger::Overflow {
            true => (job.sizes.trigger / 2).min(size / 2),
            false => job.sizes.request,
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
        let session = self.recorder.session();
        // Nothing but this may change the surface meanwhile; what was summarised must be what goes.
        let now = Plan::of(&session.projection(), uncorrected(job.sizes.tail, self.percent()));
        if now.is_none_or(|now| now.covers != plan.covers) {
            return Ok(Err("the conversation has changed meanwhile"));
        }
        let words = job.sizes.tail / 2;
        let checkpoint = Checkpoint { session, covers: &plan.covers, omits, summary, words };
        let message = checkpoint.message(MessageId::new(format!("checkpoint-{}", session.len())));
        let size = Message::User(&message).tokens();
        let read = text_of(&message);
        if size.saturating_mul(100) > plan.tokens.saturating_mul(WORTHWHILE) {
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
    async fn prune_all(&mut self, job: &Job<'_>) -> Result<bool, Halt> {
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

    /// The size of the context in tokens when so much of its estimate is gone: the counted size, in
    /// the proportion of the estimates.
    fn size_without(&self, gone: u64) -> u64 {
        let session = self.recorder.session();
        let surface = session.projection();
        let all: u64 = surface.messages().map(|message| message.tokens()).sum();
        let all = all.saturating_add(tokens_of(&self.assembly.specs)).max(1);
        let size = session.state().context_size.tokens();
        size.saturating_mul(all.saturating_sub(gone)) / all
    }

    /// An estimate, corrected by how right those of this session were.
    fn corrected(&self, tokens: u64) -> u64 {
        tokens.saturating_mul(self.percent()) / 100
    }

    fn percent(&self) -> u64 {
        self.recorder.session().state().context_size.percent()
    }

    /// What fills the context now.
    pub(super) fn fill(&self) -> Fill {
        let session = self.recorder.session();
        let fill = Fill::of(&session.projection(), &self.assembly.specs);
        fill.scaled(session.state().context_size.tokens())
    }

    /// Tells what fills the context, for whoever shows it.
    pub(super) async fn tell_fill(&self) {
        let fill = self.fill();
        if fill != Fill::default() {
            self.send(AgentUpdate::Fill(fill)).await;
        }
    }

    /// The input of a step whose conversation was shortened under it: what its context sources had
    /// said may be gone with it, and is said again.
    pub(super) async fn tell_again(
        &mut self,
        step: StepNumber,
        input: &mut Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let mut said = self.changed_contexts(self.context_input(step), token).await?;
        said.retain(|message| !input.iter().any(|other| same_source(other, message)));
        input.splice(0..0, said);
        Ok(())
    }
}

fn same_source(one: &UserMessage, other: &UserMessage) -> bool {
    matches!(&one.source, UserSource::Context { .. }) && one.source == other.source
}

/// How a compaction ends that was stopped on its way.
fn broken_off(halt: &Halt) -> CompactionOutcome {
    match halt {
        Halt::Cancelled => CompactionOutcome::Cancelled,
        Halt::Failed(failure) => CompactionOutcome::Failed { message: failure.message.clone() },
    }
}

fn uncorrected(tokens: u64, percent: u64) -> u64 {
    tokens.saturating_mul(100) / percent.max(1)
}

fn unfit(call: &PreparedCall, why: &str) -> ModelFailure {
    let message = format!("The conversation cannot be shortened for {}: {why}.", call.route());
    ModelFailure::new(FailureCode::InvalidRequest, message)
}
