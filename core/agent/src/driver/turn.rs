//! One turn: from a claimed prompt to the agent having nothing more to do for it.

use std::panic::AssertUnwindSafe;

use bridle_model::StopReason;
use bridle_session::{
    Content, Failure, MessageId, Seq, StepEnd, StepNumber, StepStart, TitleSet, TurnEnd,
    TurnEndReason, TurnStart, UserMessage, UserSource,
};
use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::calls::{Call, CallsEnd};
use super::halt::{Halt, outcome};
use super::inbox::Claimed;
use super::references::StepStartInput;
use super::request::Answer;
use crate::agent::Phase;
use crate::guard::RepeatGuard;
use crate::hooks::{PreStep, StepDecision, StepInput, StoppingTurn, TurnStopping};
use crate::mailbox::Epoch;
use crate::recorder::RecordError;
use crate::update::{AgentUpdate, NoticeLevel, TurnOutcome};

/// The most steps of a turn that no budget ends.
const MAX_STEPS: u64 = 10_000;

/// How often hooks may give a turn that would stop something more to do: one that always does
/// would never let it end.
const MAX_PROLONGED: u32 = 8;

/// The longest title that is made of a prompt, in characters.
const TITLE_LIMIT: usize = 80;

impl Driver {
    /// Runs the turn that this input begins, and reports its end to everything it took, whatever
    /// happens in it. Does nothing when the input was cancelled first.
    pub(super) async fn turn(&mut self, id: &MessageId, epoch: Epoch) {
        let Some(token) = self.control.begin_turn(id, epoch) else { return };
        let outcome = self.guarded_turn(&token).await;
        self.control.end_turn();
        self.tell_fill().await;
        for prompt in std::mem::take(&mut self.awaited) {
            self.end(prompt, outcome.clone()).await;
        }
    }

    /// A turn whose every way out, a panic included, leaves the log at rest and durable.
    async fn guarded_turn(&mut self, token: &CancellationToken) -> TurnOutcome {
        self.turn = self.turn.next();
        self.failed_summaries = 0;
        self.enter_step(StepNumber::default());
        let body = AssertUnwindSafe(self.turn_body(token)).catch_unwind().await;
        let reason = match body {
            Ok(Ok(reason)) => reason,
            Ok(Err(halt)) => halt.reason(self.control.cause()),
            Err(_) => {
                tracing::error!("the turn panicked");
                // Bodies that it left running end, too.
                token.cancel();
                Halt::Failed(internal("the turn failed inside Bridle; the session goes on"))
                    .reason("")
            }
        };
        if let Err(error) = self.settle_turn(&reason).await {
            let failure = error.failure();
            return match outcome(&reason) {
                TurnOutcome::Cancelled => TurnOutcome::Cancelled,
                _ => TurnOutcome::Failed(failure),
            };
        }
        outcome(&reason)
    }

    fn enter_step(&self, step: StepNumber) {
        self.control.enter(Phase::Running { turn: self.turn, step });
    }

    /// Closes what the body left open, then the turn, and makes it durable.
    async fn settle_turn(&mut self, reason: &TurnEndReason) -> Result<(), RecordError> {
        self.close_what_is_open()?;
        self.recorder.append(TurnEnd { turn: self.turn, reason: reason.clone() })?;
        self.recorder.flush().await
    }

    /// Closes what was begun between the turns, and makes the log durable.
    pub(super) async fn come_to_rest(&mut self) -> Result<(), RecordError> {
        self.close_what_is_open()?;
        self.recorder.flush().await
    }

    fn close_what_is_open(&mut self) -> Result<(), RecordError> {
        for draft in self.recorder.session().settle() {
            self.recorder.append_draft(draft)?;
        }
        Ok(())
    }

    async fn turn_body(&mut self, token: &CancellationToken) -> Result<TurnEndReason, Halt> {
        let started = self.recorder.append(TurnStart { turn: self.turn });
        // Also when the log takes nothing any more: whoever waits for this input must hear of it.
        let Claimed { messages: mut input, awaited } = self.claim(true);
        self.awaited = awaited;
        started?;
        self.set_title(&input).await?;
        self.put_done_list_away().await?;
        self.warm_up(token).await;
        self.assemble()?;
        let mut guard = RepeatGuard::default();
        let mut step = StepNumber::default();
        // Whether the model is to go on also when there is nothing new to tell it.
        let mut is_owed = false;
        let mut prolonged = 0;
        loop {
            step = step.next();
            self.enter_step(step);
            let StepStartInput { messages, changes } = self.step_input(step, input, token).await?;
            let messages = match self.before_step(step, messages, token).await? {
                StepDecision::Enter(messages) => messages,
                StepDecision::Reject { message, limit } => {
                    self.notice(NoticeLevel::Warning, message.as_str(), None).await;
                    return Ok(TurnEndReason::Blocked { message, limit });
                }
            };
            if messages.is_empty() && !is_owed {
                return Ok(TurnEndReason::Completed);
            }
            self.make_changes(changes).await?;
            match self.step(step, messages, &mut guard, token).await? {
                None => is_owed = true,
                Some(TurnEndReason::Completed) => {
                    is_owed = false;
                    if let Some(more) = self.before_stopping(step, token).await? {
                        if prolonged == MAX_PROLONGED {
                            let why = format!("hooks gave it more to do {prolonged} times");
                            return Ok(self.end_at_limit(&why).await);
                        }
                        prolonged += 1;
                        self.inject(more);
                    }
                    if !self.inbox.has_next_step() {
                        return Ok(TurnEndReason::Completed);
                    }
                }
                Some(reason) => return Ok(reason),
            }
            input = self.claim_joining().await;
        }
    }

    async fn before_step(
        &mut self,
        step: StepNumber,
        messages: Vec<UserMessage>,
        token: &CancellationToken,
    ) -> Result<StepDecision, Halt> {
        if step.0 > MAX_STEPS {
            let message = format!("The turn was ended after {MAX_STEPS} model requests.");
            return Ok(StepDecision::Reject { message, limit: true });
        }
        let hooks = self.scope.hooks::<PreStep>();
        let spending = self.recorder.session().state().spending.at(self.recorder.now());
        let input = StepInput { turn: self.turn, step, messages, spending };
        let enter = async |input: StepInput| StepDecision::Enter(input.messages);
        self.decided("pre-step", hooks.run(input, enter), token).await
    }

    async fn before_stopping(
        &mut self,
        step: StepNumber,
        token: &CancellationToken,
    ) -> Result<Option<UserMessage>, Halt> {
        let hooks = self.scope.hooks::<TurnStopping>();
        let input = StoppingTurn { turn: self.turn, step };
        self.decided("turn-stopping", hooks.run(input, async |_| None), token).await
    }

    /// One request and its tool calls. `None` when the model is owed another answer.
    async fn step(
        &mut self,
        step: StepNumber,
        mut input: Vec<UserMessage>,
        guard: &mut RepeatGuard,
        token: &CancellationToken,
    ) -> Result<Option<TurnEndReason>, Halt> {
        self.recorder.append(StepStart { turn: self.turn, step })?;
        let first_new = self.recorder.session().len();
        let answer = self.request(step, &mut input, token).await?;
        let end = match answer {
            Answer::Empty => {
                self.notice(NoticeLevel::Warning, "The model gave no answer.", None).await;
                Some(TurnEndReason::Completed)
            }
            Answer::Settled { stop: StopReason::Refusal, .. } => {
                let note = "[The model refused the request that stood here; it was removed.]";
                self.withdraw(Seq(first_new.0), "refusal", note)?;
                Some(TurnEndReason::Refused)
            }
            Answer::Settled { stop, calls } => {
                self.run_step_calls(stop, calls, guard, token).await?
            }
        };
        self.recorder.append(StepEnd { turn: self.turn, step })?;
        Ok(end)
    }

    async fn run_step_calls(
        &mut self,
        stop: StopReason,
        calls: Vec<Call>,
        guard: &mut RepeatGuard,
        token: &CancellationToken,
    ) -> Result<Option<TurnEndReason>, Halt> {
        if matches!(stop, StopReason::MaxTokens | StopReason::ContextFull) {
            // The last call may be cut off in the middle of its arguments; none of them runs.
            self.refuse_cut_off_calls(calls, token).await?;
            if stop == StopReason::ContextFull && self.can_be_shortened() {
                self.go_on_in_a_shorter_conversation();
                return Ok(None);
            }
            return Ok(Some(TurnEndReason::MaxTokens));
        }
        if calls.is_empty() {
            let paused = stop == StopReason::Pause;
            return Ok((!paused).then_some(TurnEndReason::Completed));
        }
        match self.run_calls(calls, guard, token).await? {
            CallsEnd::Done => Ok(None),
            CallsEnd::Concluded => Ok(Some(TurnEndReason::Completed)),
            CallsEnd::Repeating(name) => {
                let why = format!("{name} was called with the same result six times");
                Ok(Some(self.end_at_limit(&why).await))
            }
        }
    }

    /// The window is full: the next step shortens the conversation first, and goes on with this.
    fn go_on_in_a_shorter_conversation(&mut self) {
        self.window_was_full = true;
        let text = "[Your last answer was cut off because the window was full. The conversation has \
                    been shortened since; go on where you were.]";
        self.inject(UserMessage {
            id: MessageId::new(format!("window-{}-{}", self.turn, self.recorder.session().len())),
            content: vec![Content::text(text)],
            source: UserSource::Context { name: "window".to_owned() },
        });
    }

    /// Ends a turn that would not end by itself, and says so.
    async fn end_at_limit(&self, why: &str) -> TurnEndReason {
        let message = format!("The turn was ended: {why}.");
        self.notice(NoticeLevel::Warning, message.as_str(), None).await;
        TurnEndReason::Blocked { message, limit: true }
    }

    /// The first line of the first prompt names the session.
    async fn set_title(&mut self, input: &[UserMessage]) -> Result<(), Halt> {
        if self.title.is_some() {
            return Ok(());
        }
        let mut prompts = input.iter().filter(|message| message.source == UserSource::Human);
        let Some(title) = prompts.find_map(|prompt| title_of(&prompt.content)) else {
            return Ok(());
        };
        self.recorder.append(TitleSet { title: title.clone() })?;
        self.title = Some(title.clone());
        self.send(AgentUpdate::Title(title)).await;
        Ok(())
    }
}

pub(crate) fn internal(message: &str) -> Failure {
    Failure { code: "internal".into(), message: message.into(), status: None, request_id: None }
}

fn title_of(content: &[Content]) -> Option<String> {
    let text = content.iter().find_map(|part| match part {
        Content::Text { text } => Some(text),
        _ => None,
    })?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let mut title: String = line.chars().take(TITLE_LIMIT).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    Some(title)
}
