//! The tool calls of one answer: planned and judged in the model's order, run (overlapping where
//! declared safe), and recorded in the model's order whatever finished first.

use std::collections::VecDeque;
use std::sync::Arc;

use bridle_session::{Block, Content, ToolCall, ToolCallId, ToolErrorCode, ToolResult};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::body::{Ready, Running, failed};
use super::gate::Passage;
use super::halt::Halt;
use super::spill::preview;
use crate::display::{Display, ToolKind};
use crate::guard::{RepeatGuard, Repeats};
use crate::hooks::{CallInfo, ToolFinished};
use crate::plant::Plant;
use crate::schema::read_arguments;
use crate::tool::{Concurrency, PlannedCall, Tool, ToolFailure, ToolOutcome};
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

/// The calls of one message that were taken up and have no result yet, in the model's order.
struct Batch<'a> {
    slots: VecDeque<Slot>,
    /// One permit for each body that may run now.
    room: Arc<Semaphore>,
    guard: &'a mut RepeatGuard,
    end: CallsEnd,
    token: &'a CancellationToken,
}

/// A call on its way to its result.
struct Slot {
    call: Call,
    display: Display,
    state: State,
}

enum State {
    Running(Running),
    Refused(Box<ToolFailure>),
}

impl Slot {
    fn refused(call: Call, display: Display, failure: ToolFailure) -> Self {
        Self { call, display, state: State::Refused(Box::new(failure)) }
    }

    fn has_ended(&self) -> bool {
        match &self.state {
            State::Running(running) => running.body.is_finished(),
            State::Refused(_) => true,
        }
    }
}

impl<'a> Batch<'a> {
    fn new(guard: &'a mut RepeatGuard, token: &'a CancellationToken) -> Self {
        let room = Arc::new(Semaphore::new(PARALLEL_LIMIT));
        Self { slots: VecDeque::new(), room, guard, end: CallsEnd::Done, token }
    }
}

impl Driver {
    /// Runs the calls. Every one of them has a result on the log afterwards, also when the turn
    /// is cancelled, which is then reported as [`Halt::Cancelled`].
    ///
    /// A client sees results as the log gets them, in the model's order: what is shown can then
    /// never be lost, and a replay shows the same.
    pub(super) async fn run_calls(
        &mut self,
        calls: Vec<Call>,
        guard: &mut RepeatGuard,
        token: &CancellationToken,
    ) -> Result<CallsEnd, Halt> {
        for call in &calls {
            self.announce(call).await;
        }
        let mut batch = Batch::new(guard, token);
        if let Err(halt) = self.run_each(calls, &mut batch).await {
            self.give_up(batch.slots).await;
            return Err(halt);
        }
        if token.is_cancelled() { Err(Halt::Cancelled) } else { Ok(batch.end) }
    }

    async fn run_each(&mut self, calls: Vec<Call>, batch: &mut Batch<'_>) -> Result<(), Halt> {
        for call in calls {
            self.take_up(call, batch).await?;
        }
        self.settle_batch(batch).await
    }

    /// After the log failed: awaits the bodies that run, and ends every call that a client still
    /// sees open. Repair gives the log its results.
    async fn give_up(&mut self, slots: VecDeque<Slot>) {
        for slot in slots {
            if let State::Running(running) = slot.state
                && self.drive(running.body).await.is_err()
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
    pub(super) async fn refuse_cut_off_calls(
        &mut self,
        calls: Vec<Call>,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        for call in calls {
            self.announce(&call).await;
            let display = self.outline(&call);
            let failure = ToolFailure::new(
                ToolErrorCode::AbortedBeforeDispatch,
                "The answer reached its output limit, so this call may be cut off; it was not run.",
            );
            let mut guard = RepeatGuard::default();
            let mut batch = Batch::new(&mut guard, token);
            batch.slots.push_back(Slot::refused(call, display, failure));
            self.settle_batch(&mut batch).await?;
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
    async fn take_up(&mut self, call: Call, batch: &mut Batch<'_>) -> Result<(), Halt> {
        let display = self.outline(&call);
        if batch.token.is_cancelled() {
            batch.slots.push_back(Slot::refused(call, display, aborted_before()));
            return Ok(());
        }
        self.recorder.append(ToolCall {
            id: call.id.clone(),
            name: call.name.clone(),
            arguments: call.arguments.clone(),
        })?;
        let mut planned = self.plan(&call, batch.token).await;
        // What does not work now may work on what the calls before it leave behind.
        let may_change = matches!(&planned, Err(why) if why.code == ToolErrorCode::Failed);
        if may_change && !batch.slots.is_empty() && !batch.token.is_cancelled() {
            self.settle_batch(batch).await?;
            planned = self.plan(&call, batch.token).await;
        }
        let (tool, planned) = match planned {
            Ok(planned) => planned,
            Err(failure) => {
                batch.slots.push_back(Slot::refused(call, display, failure));
                return Ok(());
            }
        };
        let display = planned.display();
        let exclusive = planned.concurrency() == Concurrency::Exclusive;
        if exclusive {
            self.settle_batch(batch).await?;
        }
        let info = Arc::new(CallInfo {
            id: call.id.clone(),
            name: planned.tool().unwrap_or(&call.name).to_owned(),
            arguments: call.arguments.clone(),
            accesses: planned.access(),
            display: display.clone(),
            mode: self.mode,
        });
        let state = match self.judge(&info, batch.token).await? {
            Passage::Run(grant) => {
                let ready = Ready { call: info, tool, planned, grant };
                self.start(ready, &batch.room, batch.token).await?
            }
            Passage::Refuse(failure) => Err(failure),
        };
        let state = state.map_or_else(State::Refused, State::Running);
        batch.slots.push_back(Slot { call, display, state });
        if exclusive { self.settle_batch(batch).await } else { Ok(()) }
    }

    async fn plan(
        &mut self,
        call: &Call,
        token: &CancellationToken,
    ) -> Result<(Arc<dyn Tool>, Box<dyn PlannedCall>), ToolFailure> {
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
        let arguments = read_arguments(tool.spec(), &call.arguments)?;
        let context = self.tool_context(&call.id, token);
        let planning = Arc::clone(&tool);
        let plan = async move { Tool::plan(planning.as_ref(), arguments, &context).await };
        let task = self.scope.tasks().spawn(plan);
        let abort = task.abort_handle();
        match self.unless_cancelled(task, token).await {
            Ok(planned) => Ok((tool, planned.unwrap_or_else(|_| Err(crashed(&call.name)))?)),
            Err(_) => {
                abort.abort();
                Err(aborted_before())
            }
        }
    }

    /// Awaits the running bodies and records every result in the model's order.
    async fn settle_batch(&mut self, batch: &mut Batch<'_>) -> Result<(), Halt> {
        // One by one: when the log fails, what still runs must be found in the batch and awaited.
        while let Some(slot) = next_result(&mut batch.slots) {
            self.settle_slot(slot, batch).await?;
        }
        Ok(())
    }

    async fn settle_slot(&mut self, slot: Slot, batch: &mut Batch<'_>) -> Result<(), Halt> {
        let (outcome, content) = match slot.state {
            State::Refused(failure) => failed(*failure),
            State::Running(running) => {
                let runs_command = running.runs_command();
                let (mut outcome, content) = self.finish(running, batch.token).await;
                if runs_command {
                    let shown = self.keep_changed(batch.token).await?;
                    shown.show(&mut outcome, &slot.display);
                }
                (outcome, content)
            }
        };
        self.settle_call(&slot.call, slot.display, outcome, content, batch).await
    }

    async fn settle_call(
        &mut self,
        call: &Call,
        display: Display,
        outcome: Result<ToolOutcome, ToolFailure>,
        content: Vec<Content>,
        batch: &mut Batch<'_>,
    ) -> Result<(), Halt> {
        // Live output still waiting to be shown would overtake the result.
        let rest = self.progress.rest(&call.id);
        self.send_lines(&call.id, rest).await;
        let mut changes = Vec::new();
        let (error, mut display) = match outcome {
            Ok(outcome) => {
                if outcome.conclude && matches!(batch.end, CallsEnd::Done) {
                    batch.end = CallsEnd::Concluded;
                }
                changes = outcome.changes;
                (None, outcome.display)
            }
            Err(failure) => {
                let display = failure
                    .display
                    .unwrap_or_else(|| Display { text: Some(failure.message), ..display });
                (Some(failure.code), display)
            }
        };
        let mut content = self.bounded(content).await;
        display.text = display.text.map(|text| preview(&text));
        match batch.guard.count(&call.name, &call.arguments, &text_of(&content)) {
            Repeats::Fine => {}
            Repeats::Tell => content.push(Content::text(
                "[This call was made three times with the same result. Try something else.]",
            )),
            Repeats::End => batch.end = CallsEnd::Repeating(call.name.clone()),
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

/// The slot whose result is recorded next.
fn next_result(slots: &mut VecDeque<Slot>) -> Option<Slot> {
    if Plant::CompletionOrder.is_in()
        && let Some(ended) = slots.iter().position(Slot::has_ended)
    {
        return slots.remove(ended);
    }
    slots.pop_front()
}

pub(super) fn aborted_before() -> ToolFailure {
    ToolFailure::new(
        ToolErrorCode::AbortedBeforeDispatch,
        "Cancelled before it began; nothing was done.",
    )
}

fn no_tool(message: String) -> ToolFailure {
    ToolFailure::new(ToolErrorCode::UnknownTool, message)
}

/// A panic in a tool ends its call only.
pub(super) fn crashed(name: &str) -> ToolFailure {
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
