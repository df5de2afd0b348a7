//! One step's request: attempts, streaming, and the settled answer.

use std::panic::AssertUnwindSafe;

use bridle_model::{
    Assembled, Assembler, Chunk, FailureCode, ModelFailure, ModelRequest, ModelSource,
    PreparedCall, StopReason,
};
use bridle_session::{
    AssistantAttempt, AssistantMessage, Block, EventData, MessageId, Route, Session, StepNumber,
    ToolCallId, Usage, UserMessage,
};
use futures::{FutureExt as _, StreamExt as _};
use tokio_util::sync::CancellationToken;

use super::calls::Call;
use super::halt::{Halt, stored};
use super::partial::Keeper;
use super::quiet::Quiet;
use super::{Driver, pause};
use crate::hooks::{OnRequest, OnStream, RequestInput, StreamInput};
use crate::plant::Plant;
use crate::update::{AgentUpdate, Meter, NoticeLevel, TurnOutcome};

/// How often in a step a conversation is shortened because the provider finds it too long.
const MAX_OVERFLOWS: u32 = 2;

/// What a step's request came to.
pub(super) enum Answer {
    /// An answer is on the log.
    Settled { stop: StopReason, calls: Vec<Call> },
    /// The model said nothing, twice.
    Empty,
}

/// How one attempt ended.
enum Attempt {
    Answered(Assembled),
    Failed { failure: ModelFailure, partial: Assembler, shown: bool },
}

/// What an attempt was waiting for.
enum Woken<T> {
    Stream(T),
    PartialDue,
    Quiet,
    Cancelled,
}

impl Driver {
    /// Asks the model until it answers, fails for good, or is cancelled.
    pub(super) async fn request(
        &mut self,
        step: StepNumber,
        input: &mut Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<Answer, Halt> {
        let mut was_empty = false;
        let mut was_silent = false;
        let mut overflows = 0_u32;
        let mut attempt = self.take_up_retry(step, token).await?.unwrap_or(1);
        loop {
            let call = self.resolve(step, attempt, token).await?;
            if self.relieve(&call, step, input, token).await? {
                self.tell_again(step, input, token).await?;
            }
            let request = self.prepare(&call, attempt, input, token).await?;
            let retry = call.retry().clone();
            let limits = call.limits();
            let route = call.route().clone();
            let id = MessageId::new(format!("answer-{}-{step}-{attempt}", self.turn));
            let mut keeper = Keeper::new(step, id.clone(), route.clone(), self.recorder.now());
            match self.attempt(call, request, &id, &mut keeper, token).await {
                Attempt::Answered(answer) if is_empty(&answer) && was_empty => {
                    return Ok(Answer::Empty);
                }
                Attempt::Answered(answer) if is_empty(&answer) => {
                    was_empty = true;
                    self.record_attempt(step, attempt, &empty_answer(), answer.usage)?;
                }
                Attempt::Answered(answer) => {
                    self.explain_refusal(step, attempt, &answer).await?;
                    return self.settle(id, answer, route, limits.window).await;
                }
                Attempt::Failed { failure, partial, .. }
                    if failure.code == FailureCode::Cancelled || token.is_cancelled() =>
                {
                    self.keep_interrupted(id, partial, route)?;
                    return Err(Halt::Cancelled);
                }
                Attempt::Failed { failure, partial, shown } => {
                    self.record_attempt(step, attempt, &failure, partial.usage())?;
                    if self.give_up_tool(&failure).await || self.give_up_images(&failure).await? {
                        attempt += 1;
                        continue;
                    }
                    if failure.code == FailureCode::ContextOverflow
                        && overflows < MAX_OVERFLOWS
                        && self.recover(limits, step, &failure, token).await?
                    {
                        self.tell_again(step, input, token).await?;
                        (overflows, attempt) = (overflows + 1, attempt + 1);
                        continue;
                    }
                    let is_silent = failure.code == FailureCode::Silent;
                    if is_silent && was_silent {
                        return Err(Halt::from(silent_twice(failure)));
                    }
                    was_silent |= is_silent;
                    let delay = retry.delay(attempt, &failure, fastrand::f64());
                    let delay =
                        self.after_failure(step, attempt, &route, &failure, delay, token).await?;
                    let delay = delay.ok_or_else(|| Halt::from(failure.clone()))?;
                    self.back_off(step, attempt + 1, &failure, delay, shown, token).await?;
                }
            }
            attempt += 1;
        }
    }

    /// Resolves the route.
    pub(super) async fn resolve(
        &mut self,
        step: StepNumber,
        attempt: u32,
        token: &CancellationToken,
    ) -> Result<PreparedCall, Halt> {
        let models = self.scope.get::<dyn ModelSource>().ok_or_else(no_models)?;
        let route = match &self.route {
            Some(route) => route.clone(),
            None => models.default_route()?,
        };
        let hooks = self.scope.hooks::<OnRequest>();
        let request = RequestInput { turn: self.turn, step, attempt, route };
        let preparing = hooks.run(request, async move |input| models.prepare(&input.route).await);
        Ok(self.unless_cancelled(preparing, token).await??)
    }

    /// Brings the frame onto the log, and makes it durable: what leaves the process is on the disk
    /// first.
    async fn prepare(
        &mut self,
        call: &PreparedCall,
        attempt: u32,
        input: &mut Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<ModelRequest, Halt> {
        let request = self.frame(call, attempt, input)?;
        let request = self.illustrated(call, request, token).await?;
        self.recorder.flush().await?;
        self.tell_frame(call).await;
        Ok(request)
    }

    /// Sends the request once and shows what comes back.
    async fn attempt(
        &mut self,
        call: PreparedCall,
        request: ModelRequest,
        id: &MessageId,
        keeper: &mut Keeper,
        token: &CancellationToken,
    ) -> Attempt {
        let hooks = self.scope.hooks::<OnStream>();
        let input = StreamInput { call, request, token: token.child_token() };
        let opening = hooks.run(input, async |input| input.call.stream(input.request, input.token));
        let opened = self.unless_cancelled(opening, token).await;
        let mut chunks = opened.unwrap_or_else(|_| futures::stream::empty().boxed());
        let mut assembler = Assembler::new();
        let mut shown = false;
        let mut quiet = Quiet::new(self.clock.as_ref());
        loop {
            // A chunk that is there comes first: text is recorded late only when the stream stalls.
            let next = async {
                tokio::select! {
                    biased;
                    // Whatever the adapter makes of its token, the request is dropped.
                    () = token.cancelled() => Woken::Cancelled,
                    next = AssertUnwindSafe(chunks.next()).catch_unwind() => Woken::Stream(next),
                    () = pause(&mut keeper.pause) => Woken::PartialDue,
                    () = &mut quiet.alarm => Woken::Quiet,
                }
            };
            let next = match self.drive(next).await {
                Woken::Stream(next) => next,
                Woken::PartialDue => {
                    self.record_partial(keeper, &mut assembler);
                    continue;
                }
                Woken::Quiet => {
                    self.tell_quiet(&mut quiet, token).await;
                    continue;
                }
                Woken::Cancelled => {
                    let failure = ModelFailure::new(FailureCode::Cancelled, "cancelled");
                    return Attempt::Failed { failure, partial: assembler, shown };
                }
            };
            let failure = match next {
                Ok(Some(Ok(chunk))) => {
                    quiet = Quiet::new(self.clock.as_ref());
                    assembler.push(&chunk, self.recorder.now());
                    if matches!(chunk, Chunk::Stop(_)) {
                        return Attempt::Answered(assembler.finish());
                    }
                    self.keep_partial(keeper, &mut assembler, text_of(&chunk));
                    shown |= self.show(chunk, id, token).await;
                    continue;
                }
                Ok(Some(Err(failure))) => failure,
                Ok(None) => broken("the answer ended without an end mark"),
                Err(_) => {
                    tracing::error!("the model adapter panicked");
                    broken("the model adapter failed inside Bridle")
                }
            };
            return Attempt::Failed { failure, partial: assembler, shown };
        }
    }

    /// Shows a chunk live; says whether a person saw text of the answer.
    async fn show(&self, chunk: Chunk, id: &MessageId, token: &CancellationToken) -> bool {
        let id = id.clone();
        let (update, is_text) = match chunk {
            Chunk::TextDelta { text, .. } if !text.is_empty() => {
                (AgentUpdate::MessageChunk { id, text }, true)
            }
            Chunk::ThinkingDelta { text, .. } if !text.is_empty() => {
                (AgentUpdate::ThoughtChunk { id, text }, false)
            }
            Chunk::BlockEnd { block: Block::Text { .. } | Block::Thinking { .. }, .. } => {
                (AgentUpdate::BlockEnded, false)
            }
            // Tool calls are announced when the answer is settled: one that is cut off never
            // leaves an open call behind at the client.
            _ => return false,
        };
        // A client that reads slowly holds the answer back, but never its cancel.
        tokio::select! {
            biased;
            () = self.send(update) => is_text,
            () = token.cancelled() => false,
        }
    }

    async fn settle(
        &mut self,
        id: MessageId,
        mut answer: Assembled,
        route: Route,
        window: u64,
    ) -> Result<Answer, Halt> {
        let session = self.recorder.session();
        answer.make_call_ids_unique(|id| has_call(session, id));
        let stop = answer.stop.unwrap_or(StopReason::EndTurn);
        let calls: Vec<_> =
            answer.blocks.iter().filter_map(|timed| Call::of(&timed.block)).collect();
        let usage = answer.usage;
        // A model may refuse without a word; its reason and its usage are on the log by then.
        if !answer.blocks.is_empty() {
            self.recorder.append(AssistantMessage {
                id,
                blocks: answer.blocks,
                route,
                stop: stop.as_str().to_owned(),
                usage: answer.usage,
                interrupted: false,
            })?;
        }
        if Plant::EarlyEnd.is_in() && calls.is_empty() {
            for prompt in std::mem::take(&mut self.awaited) {
                self.end(prompt, TurnOutcome::EndTurn).await;
            }
        }
        let mut meter = Meter::of(self.recorder.session().state());
        // An answer without a block leaves no message, and the provider has counted it all the same.
        meter.used = if usage.context() > 0 { usage.context() } else { meter.used };
        meter.window = window;
        self.send(AgentUpdate::Usage(meter)).await;
        if let Some(miss) = self.missed_cache(&usage) {
            self.notice(NoticeLevel::Info, miss.to_string(), None).await;
        }
        Ok(Answer::Settled { stop, calls })
    }

    /// Keeps what a person saw of an answer that was cancelled, as far as it is safe to send back.
    fn keep_interrupted(
        &mut self,
        id: MessageId,
        partial: Assembler,
        route: Route,
    ) -> Result<(), Halt> {
        let kept = partial.finish_interrupted(self.recorder.now());
        if is_empty(&kept) {
            return Ok(());
        }
        self.recorder.append(AssistantMessage {
            id,
            blocks: kept.blocks,
            route,
            stop: "interrupted".to_owned(),
            usage: kept.usage,
            interrupted: true,
        })?;
        Ok(())
    }

    pub(super) fn record_attempt(
        &mut self,
        step: StepNumber,
        attempt: u32,
        failure: &ModelFailure,
        usage: Usage,
    ) -> Result<(), Halt> {
        let failure = stored(failure);
        let usage = (usage != Usage::default()).then_some(usage);
        let turn = self.turn;
        self.recorder.append(AssistantAttempt { turn, step, attempt, failure, usage })?;
        Ok(())
    }
}

/// How many bytes of text a person is shown of the chunk.
fn text_of(chunk: &Chunk) -> usize {
    match chunk {
        Chunk::TextDelta { text, .. } | Chunk::ThinkingDelta { text, .. } => text.len(),
        _ => 0,
    }
}

/// Whether an answer holds neither text nor a call (reasoning alone is no answer).
fn is_empty(answer: &Assembled) -> bool {
    answer.stop != Some(StopReason::Refusal)
        && !answer.blocks.iter().any(|timed| match &timed.block {
            Block::Text { text } => !text.trim().is_empty(),
            Block::ToolCall { .. } | Block::Opaque { .. } => true,
            Block::Thinking { .. } | Block::RedactedThinking { .. } => false,
        })
}

/// Whether an answer of the session has a call with this id.
fn has_call(session: &Session, id: &ToolCallId) -> bool {
    session.events().iter().any(|event| match &event.data {
        EventData::AssistantMessage(answer) => answer.tool_calls().any(|(used, ..)| used == id),
        _ => false,
    })
}

fn no_models() -> ModelFailure {
    ModelFailure::new(
        FailureCode::UnknownModel,
        "no model source is active; `bridle config show` says why",
    )
}

/// Asking a third time would let a person wait for very long; the text says for how long it was.
fn silent_twice(failure: ModelFailure) -> ModelFailure {
    let message = format!(
        "{}, in each of two tries; nothing more is tried for this prompt. Check the provider's \
         status, then prompt again.",
        failure.message
    );
    ModelFailure { message, ..failure }
}

fn empty_answer() -> ModelFailure {
    broken("the answer was empty")
}

/// What came is no answer.
pub(super) fn broken(message: &str) -> ModelFailure {
    ModelFailure::new(FailureCode::MalformedResponse, message)
}
