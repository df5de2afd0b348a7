//! The tool calls of one answer: planned and judged in the model's order, run (overlapping where
//! declared safe), and recorded in the model's order whatever finished first.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bridle_session::{
    Block, Content, MessageId, ToolCall, ToolCallId, ToolErrorCode, ToolResult, UserMessage,
    UserSource,
};
use futures::FutureExt as _;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::gate::Passage;
use super::halt::Halt;
use super::spill::preview;
use crate::display::{Display, ToolKind};
use crate::guard::{RepeatGuard, Repeats};
use crate::hooks::{Body, CallInfo, Ran, ToolFinished, ToolPost, ToolRun, Verdict};
use crate::tool::{
    Access, Concurrency, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolOutcome,
};
use crate::update::{AgentUpdate, ToolStatus};

/// How many parallel-safe calls run at once.
const PARALLEL_LIMIT: usize = 8;

/// A call as the model made it.
#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) id: ToolCallId,
    pub(super) name: String,
    pub(super) arguments: String,
}

impl Call {
    pub(super) fn of(block: &Block) -> Option<Self> {
        match block {
            Block::ToolCall { id, name, arguments } => {
                Some(Self { id: id.clone(), name: name.clone(), arguments: arguments.clone() })
            }
            _ => None,
        }
    }
}

/// How the calls of an answer ended.
pub(super) enum CallsEnd {
    /// The model is owed another answer.
    Done,
    /// A tool said that the turn ends with it.
    Concluded,
    /// This tool was called again and again without progress.
    Repeating(String),
}

/// A call on its way to its result.
struct Slot {
    call: Call,
    display: Display,
    state: State,
}

enum State {
    Running(Arc<CallInfo>, JoinHandle<Result<ToolOutcome, ToolFailure>>),
    Refused(Box<ToolFailure>),
}

impl Driver {
    /// Runs the calls. Every one of them has a result on the log afterwards, also when the turn
    /// is cancelled, which is then reported as [`Halt::Cancelled`].
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<Call>,
        guard: &mut RepeatGuard,
        token: &CancellationToken,
    ) -> Result<CallsEnd, Halt> {
        let mut end = CallsEnd::Done;
        let mut batch: Vec<Slot> = Vec::new();
        for call in &calls {
            self.announce(call).await;
        }
        if let Err(halt) = self.run_each(calls, &mut batch, guard, &mut end, token).await {
            self.give_up(batch).await;
            return Err(halt);
        }
        if token.is_cancelled() { Err(Halt::Cancelled) } else { Ok(end) }
    }

    async fn run_each(
        &mut self,
        calls: Vec<Call>,
        batch: &mut Vec<Slot>,
        guard: &mut RepeatGuard,
        end: &mut CallsEnd,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        for call in calls {
            self.take_up(call, batch, guard, end, token).await?;
        }
        self.settle_batch(batch, guard, end).await
    }

    /// After the log failed: awaits the bodies that run, and ends every call that a client still
    /// sees open. Repair gives the log its results.
    async fn give_up(&mut self, batch: Vec<Slot>) {
        for slot in batch {
            if let State::Running(_, body) = slot.state
                && self.drive(body).await.is_err()
            {
                tracing::error!(tool = slot.call.name, "a tool failed while its turn ended");
            }
        }
        let open = self.recorder.session().state().open_calls.clone();
        for call in open {
            let (id, status) = (call.id, ToolStatus::Failed);
            self.send(AgentUpdate::ToolCallUpdate { id, status, display: None }).await;
        }
    }

    /// Gives every call of an answer that hit the output limit a result that says so.
    pub(super) async fn refuse_cut_off_calls(&mut self, calls: Vec<Call>) -> Result<(), Halt> {
        for call in calls {
            self.announce(&call).await;
            let display = self.outline(&call);
            let failure = ToolFailure {
                code: ToolErrorCode::AbortedBeforeDispatch,
                message: "The answer reached its output limit, so this call may be cut off; it \
                          was not run."
                    .to_owned(),
                display: None,
            };
            let mut batch = vec![Slot { call, display, state: State::Refused(Box::new(failure)) }];
            let mut guard = RepeatGuard::default();
            self.settle_batch(&mut batch, &mut guard, &mut CallsEnd::Done).await?;
        }
        Ok(())
    }

    /// Shows a call as pending.
    async fn announce(&self, call: &Call) {
        self.send(AgentUpdate::ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            status: ToolStatus::Pending,
            display: self.outline(call),
        })
        .await;
    }

    fn outline(&self, call: &Call) -> Display {
        match self.tool(&call.name) {
            Some(tool) => tool.outline(&call.arguments),
            None => Display::new(call.name.clone(), ToolKind::Other),
        }
    }

    /// Plans, judges and starts one call. An exclusive call waits for the batch before it and is
    /// settled at once, so that the next one is planned on what it left behind.
    async fn take_up(
        &mut self,
        call: Call,
        batch: &mut Vec<Slot>,
        guard: &mut RepeatGuard,
        end: &mut CallsEnd,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let display = self.outline(&call);
        if token.is_cancelled() {
            let state = State::Refused(Box::new(aborted_before()));
            batch.push(Slot { call, display, state });
            return Ok(());
        }
        self.recorder.append(ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        })?;
        let planned = match self.plan(&call, token).await {
            Ok(planned) => planned,
            Err(failure) => {
                batch.push(Slot { call, display, state: State::Refused(Box::new(failure)) });
                return Ok(());
            }
        };
        let display = planned.display();
        let exclusive = planned.concurrency() == Concurrency::Exclusive;
        if exclusive || batch.len() >= PARALLEL_LIMIT {
            self.settle_batch(batch, guard, end).await?;
        }
        let info = Arc::new(CallInfo {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
            accesses: planned.access(),
            display: display.clone(),
            mode: self.mode,
        });
        let state = match self.judge(&info, token).await? {
            Passage::Run(grant) => self.start(info, planned, grant, token).await?,
            Passage::Refuse(failure) => State::Refused(failure),
        };
        batch.push(Slot { call, display, state });
        if exclusive {
            self.settle_batch(batch, guard, end).await?;
        }
        Ok(())
    }

    async fn plan(
        &mut self,
        call: &Call,
        token: &CancellationToken,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        if !self.offers(&call.name) {
            let known: Vec<_> = self.assembly.specs.iter().map(|spec| spec.name.as_str()).collect();
            return Err(no_tool(format!(
                "There is no tool named {:?}. The tools are: {}.",
                call.name,
                known.join(", ")
            )));
        }
        let Some(tool) = self.tool(&call.name) else {
            return Err(no_tool(format!(
                "The tool {} has been switched off since the turn began. Go on without it.",
                call.name
            )));
        };
        let arguments = call.arguments.clone();
        let context = self.tool_context(&call.id, token);
        let plan = async move { Tool::plan(tool.as_ref(), &arguments, &context).await };
        let handle = self.scope.tasks().spawn(plan);
        self.drive(handle).await.unwrap_or_else(|_| Err(crashed(&call.name)))
    }

    /// Makes the intent durable if the body has effects, and starts the body.
    async fn start(
        &mut self,
        call: Arc<CallInfo>,
        planned: Box<dyn PlannedCall>,
        grant: Grant,
        token: &CancellationToken,
    ) -> Result<State, Halt> {
        if call.accesses.iter().any(has_effect) {
            self.recorder.flush().await?;
        }
        self.send(AgentUpdate::ToolCallUpdate {
            id: call.id.clone(),
            status: ToolStatus::Running,
            display: Some(call.display.clone()),
        })
        .await;
        let hooks = self.scope.hooks::<ToolRun>();
        let context = self.tool_context(&call.id, token);
        let body = Body { call: Arc::clone(&call), planned, grant, context };
        let running = async move { hooks.run(body, Body::run).await };
        Ok(State::Running(call, self.scope.tasks().spawn(running)))
    }

    fn tool_context(&self, call: &ToolCallId, token: &CancellationToken) -> ToolContext {
        ToolContext { token: token.child_token(), progress: self.progress.sink(call.clone()) }
    }

    /// Awaits the running bodies and records every result in the model's order.
    async fn settle_batch(
        &mut self,
        batch: &mut Vec<Slot>,
        guard: &mut RepeatGuard,
        end: &mut CallsEnd,
    ) -> Result<(), Halt> {
        // One by one: when the log fails, what still runs must be found in the batch and awaited.
        while !batch.is_empty() {
            let slot = batch.remove(0);
            let outcome = match slot.state {
                State::Refused(failure) => Err(*failure),
                State::Running(call, body) => {
                    let ran = self.drive(body).await;
                    let outcome = ran.unwrap_or_else(|_| Err(crashed(&slot.call.name)));
                    self.after_body(call, outcome).await
                }
            };
            self.settle_call(&slot.call, slot.display, outcome, guard, end).await?;
        }
        Ok(())
    }

    /// What the hooks make of a body that has run. They are waited for also after a cancel: the
    /// call has its result then, and it is a true one.
    async fn after_body(
        &mut self,
        call: Arc<CallInfo>,
        outcome: Result<ToolOutcome, ToolFailure>,
    ) -> Result<ToolOutcome, ToolFailure> {
        let hooks = self.scope.hooks::<ToolPost>();
        if hooks.is_empty() {
            return outcome;
        }
        let (id, name) = (call.id.clone(), call.name.clone());
        let hooked = hooks.run(Ran { call, outcome }, async |ran| Verdict::accept(ran.outcome));
        match self.drive(AssertUnwindSafe(hooked).catch_unwind()).await {
            Ok(Verdict { outcome, context }) => {
                for (number, text) in context.into_iter().enumerate() {
                    self.inject(UserMessage {
                        id: MessageId::new(format!("after-{id}-{number}")),
                        content: vec![Content::text(text)],
                        source: UserSource::Context { name: "hook".to_owned() },
                    });
                }
                outcome
            }
            Err(_) => {
                tracing::error!(tool = name, "a tool-post hook panicked");
                Err(ToolFailure::failed(
                    "The call has run, but a check of its result failed inside Bridle, so the \
                     result is not shown. Look at what it did before you repeat it.",
                ))
            }
        }
    }

    async fn settle_call(
        &mut self,
        call: &Call,
        display: Display,
        outcome: Result<ToolOutcome, ToolFailure>,
        guard: &mut RepeatGuard,
        end: &mut CallsEnd,
    ) -> Result<(), Halt> {
        // Live output still waiting to be shown would overtake the result.
        self.progress.forget(&call.id);
        let mut changes = Vec::new();
        let (content, error, mut display) = match outcome {
            Ok(outcome) => {
                if outcome.conclude && matches!(end, CallsEnd::Done) {
                    *end = CallsEnd::Concluded;
                }
                changes = outcome.changes;
                (outcome.content, None, outcome.display)
            }
            Err(failure) => {
                let display = failure
                    .display
                    .unwrap_or_else(|| Display { text: Some(failure.message.clone()), ..display });
                (vec![Content::text(failure.message)], Some(failure.code), display)
            }
        };
        let mut content = self.bounded(content).await;
        display.text = display.text.map(|text| preview(&text));
        match guard.count(&call.name, &call.arguments, &text_of(&content)) {
            Repeats::Fine => {}
            Repeats::Tell => content.push(Content::text(
                "[This call was made three times with the same result. Try something else.]",
            )),
            Repeats::End => *end = CallsEnd::Repeating(call.name.clone()),
        }
        self.recorder.append(ToolResult {
            id: call.id.clone(),
            name: call.name.clone(),
            content,
            error,
            presentation: serde_json::value::to_raw_value(&display).ok(),
        })?;
        self.scope.tell(&ToolFinished {
            session: self.recorder.session().header().id.clone(),
            call: call.id.clone(),
            name: call.name.clone(),
            error,
        });
        let status = if error.is_none() { ToolStatus::Completed } else { ToolStatus::Failed };
        let id = call.id.clone();
        let said = display.said_beside(&id);
        self.send(AgentUpdate::ToolCallUpdate { id, status, display: Some(display) }).await;
        if let Some(said) = said {
            self.send(said).await;
        }
        self.make_changes(changes).await
    }
}

/// Whether a body may change something or reach outside.
fn has_effect(access: &Access) -> bool {
    !matches!(access, Access::ReadInside | Access::ReadOutside(_))
}

pub(super) fn aborted_before() -> ToolFailure {
    ToolFailure {
        code: ToolErrorCode::AbortedBeforeDispatch,
        message: "Cancelled before it began; nothing was done.".to_owned(),
        display: None,
    }
}

fn no_tool(message: String) -> ToolFailure {
    ToolFailure { code: ToolErrorCode::UnknownTool, message, display: None }
}

/// A panic in a tool ends its call only.
fn crashed(name: &str) -> ToolFailure {
    tracing::error!(tool = name, "the tool panicked");
    ToolFailure::failed(format!(
        "The tool {name} failed inside Bridle; what it did before is unknown. Look before you \
         repeat the call."
    ))
}

fn text_of(content: &[Content]) -> String {
    let texts = content.iter().map(|part| match part {
        Content::Text { text } | Content::Resource { text, .. } => text.as_str(),
        Content::Link { uri, .. } => uri.as_str(),
        Content::Blob { blob, .. } | Content::Image { blob, .. } => blob.hash.as_str(),
    });
    texts.collect::<Vec<_>>().join("\n")
}
