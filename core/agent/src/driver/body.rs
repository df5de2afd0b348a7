//! The body of one call: started with its grant, told to end when its time is up or the turn is
//! cancelled, and what the model reads of what came of it.
//!
//! Nothing here waits for ever: a body, and a hook behind it, that goes on for [`GRACE`] after it was
//! told to end is left to itself, in the set of tasks that it is in, and its result says so.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_session::{Content, MessageId, ToolCallId, ToolErrorCode, UserMessage, UserSource};
use futures::FutureExt as _;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::calls::{aborted_before, crashed};
use super::halt::Halt;
use super::keep::runs_command;
use super::{Driver, HOOK_PATIENCE};
use crate::hooks::{Body, CallInfo, Ran, Reading, ToolPost, ToolRun, Verdict};
use crate::plant::Plant;
use crate::schema::check;
use crate::tool::{Access, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolOutcome};
use crate::update::{AgentUpdate, ToolStatus};

/// How long a body that was told to end may take for it. A supervised command takes 4 s at most.
const GRACE: Duration = Duration::from_secs(10);

type Outcome = Result<ToolOutcome, ToolFailure>;

/// A call that may run.
pub(super) struct Ready {
    pub(super) call: Arc<CallInfo>,
    pub(super) tool: Arc<dyn Tool>,
    pub(super) planned: Box<dyn PlannedCall>,
    pub(super) grant: Grant,
}

/// A call whose body was started.
pub(super) struct Running {
    call: Arc<CallInfo>,
    tool: Arc<dyn Tool>,
    /// Ends soon after the body was told to, whatever the body does.
    pub(super) body: JoinHandle<Outcome>,
}

impl Running {
    /// Whether the call runs a command.
    pub(super) fn runs_command(&self) -> bool {
        self.call.accesses.iter().any(runs_command)
    }
}

impl Driver {
    /// Waits for room, makes the intent durable if the body has effects, and starts the body.
    pub(super) async fn start(
        &mut self,
        ready: Ready,
        room: &Arc<Semaphore>,
        token: &CancellationToken,
    ) -> Result<Result<Running, Box<ToolFailure>>, Halt> {
        let Ready { call, tool, planned, grant } = ready;
        let permit = self.drive(Arc::clone(room).acquire_owned()).await;
        self.keep_before(&call.accesses, token).await?;
        if call.accesses.iter().any(has_effect) && !Plant::NoFlush.is_in() {
            self.recorder.flush().await?;
        }
        if token.is_cancelled() {
            return Ok(Err(Box::new(aborted_before())));
        }
        self.send(AgentUpdate::ToolCallUpdate {
            id: call.id.clone(),
            status: ToolStatus::Running,
            display: Some(call.display.clone()),
        })
        .await;
        let watch = Watch {
            tool: call.name.clone(),
            turn: token.clone(),
            own: token.child_token(),
            deadline: planned.deadline(),
            clock: Arc::clone(&self.clock),
        };
        let context = self.context_with(&call.id, watch.own.clone());
        let hooks = self.scope.hooks::<ToolRun>();
        let body = Body { call: Arc::clone(&call), planned, grant, context };
        let tasks: TaskSet = self.scope.tasks().clone();
        let body = tasks.spawn(async move { hooks.run(body, Body::run).await });
        let body = tasks.spawn(async move {
            let outcome = watch.over(body).await;
            drop(permit);
            outcome
        });
        Ok(Ok(Running { call, tool, body }))
    }

    pub(super) fn tool_context(&self, call: &ToolCallId, token: &CancellationToken) -> ToolContext {
        self.context_with(call, token.child_token())
    }

    fn context_with(&self, call: &ToolCallId, token: CancellationToken) -> ToolContext {
        let observed = Arc::clone(&self.recorder.session().state().observed);
        ToolContext { token, progress: self.progress.sink(call.clone()), observed }
    }

    /// Awaits a body: what came of it, checked, and what the model reads, as the hooks leave it.
    pub(super) async fn finish(
        &mut self,
        running: Running,
        token: &CancellationToken,
    ) -> (Outcome, Vec<Content>) {
        let Running { call, tool, body } = running;
        let outcome = self.drive(body).await.unwrap_or_else(|_| Err(crashed(&call.name)));
        let (outcome, content) = read(&*tool, outcome);
        let hooks = self.scope.hooks::<ToolPost>();
        if hooks.is_empty() {
            return (outcome, content);
        }
        let ran = Arc::new(Ran { call: Arc::clone(&call), outcome, content });
        let hooked = hooks.run(Arc::clone(&ran), async |_| Verdict::accept());
        let hooked = AssertUnwindSafe(hooked).catch_unwind();
        let (patience, limit) = (self.patience(token), self.clock.sleep(HOOK_PATIENCE));
        let verdict = self.drive(async move {
            tokio::select! {
                biased;
                verdict = hooked => verdict.ok(),
                () = patience => None,
                () = limit => None,
            }
        });
        let Some(Verdict { reading, context }) = verdict.await else {
            tracing::error!(tool = call.name, "a tool-post hook panicked or did not end");
            return failed(ToolFailure::failed(
                "The call has run, but a check of its result failed inside Bridle, so the result \
                 is not shown. Look at what it did before you repeat it.",
            ));
        };
        self.add_context(&call.id, context);
        let Ran { outcome, content, .. } = Arc::unwrap_or_clone(ran);
        reread(&*tool, outcome, content, reading)
    }

    /// Completes when a cancelled turn need not be waited for any more.
    fn patience(&self, token: &CancellationToken) -> impl Future<Output = ()> + use<> {
        let (token, clock) = (token.clone(), Arc::clone(&self.clock));
        async move {
            token.cancelled().await;
            clock.sleep(GRACE).await;
        }
    }

    /// What hooks tell the model besides, before the next request.
    fn add_context(&mut self, call: &ToolCallId, texts: Vec<String>) {
        for (number, text) in texts.into_iter().enumerate() {
            self.inject(UserMessage {
                id: MessageId::new(format!("after-{call}-{number}")),
                content: vec![Content::text(text)],
                source: UserSource::Context { name: "hook".to_owned() },
            });
        }
    }
}

/// What ends a body: its own end, its deadline, or the end of its turn.
struct Watch {
    tool: String,
    /// The turn's token. When it is cancelled, that is the reason, whatever else was.
    turn: CancellationToken,
    /// The body's own, below it.
    own: CancellationToken,
    deadline: Option<Duration>,
    clock: Arc<dyn Clock>,
}

impl Watch {
    async fn over(self, mut body: JoinHandle<Outcome>) -> Outcome {
        let deadline = self.deadline.map(|deadline| self.clock.sleep(deadline));
        let time_is_up = async {
            match deadline {
                Some(deadline) => deadline.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = &mut body => return ended.unwrap_or_else(|_| Err(crashed(&self.tool))),
            () = self.own.cancelled() => {}
            () = time_is_up => self.own.cancel(),
        }
        let ended = tokio::select! {
            biased;
            ended = &mut body => Some(ended.unwrap_or_else(|_| Err(crashed(&self.tool)))),
            () = self.clock.sleep(GRACE) => None,
        };
        let cause = match self.deadline {
            Some(deadline) if !self.turn.is_cancelled() => {
                format!("timed out after {} s", deadline.as_secs_f64())
            }
            _ => "was cancelled".to_owned(),
        };
        match ended {
            Some(Err(failure)) if !self.turn.is_cancelled() => Err(ToolFailure {
                message: format!("{}\n[The call {cause} and was ended.]", failure.message),
                ..failure
            }),
            Some(outcome) => outcome,
            None => {
                // A body that waits somewhere ends with this, and with it what it has started.
                body.abort();
                tracing::error!(tool = self.tool, "a tool did not end when it was told to");
                let message = format!(
                    "The call {cause} and did not end within {} s of being told to. What it did, \
                     and whether it goes on, is unknown. Look before you repeat it.",
                    GRACE.as_secs()
                );
                Err(ToolFailure::new(ToolErrorCode::ToolOutcomeUnknown, message))
            }
        }
    }
}

/// Whether a body may change something or reach outside.
fn has_effect(access: &Access) -> bool {
    !matches!(access, Access::ReadInside(_) | Access::ReadOutside(_) | Access::ReadMasked(_))
}

/// A failure, and what the model reads of it.
pub(super) fn failed(failure: ToolFailure) -> (Outcome, Vec<Content>) {
    let text = failure.message.clone();
    let content = match failure.whole.clone() {
        Some(blob) => {
            let mime_type = "text/plain".to_owned();
            Content::Blob { blob: *blob, mime_type, preview: text }
        }
        None => Content::text(text),
    };
    (Err(failure), vec![content])
}

/// What the model reads of an outcome; a success whose value is not what the tool promises is none.
fn read(tool: &dyn Tool, outcome: Outcome) -> (Outcome, Vec<Content>) {
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(failure) => return failed(failure),
    };
    match rendered(tool, &outcome.value) {
        Ok(content) => (Ok(outcome), content),
        Err(why) => {
            let name = &tool.spec().name;
            tracing::error!(tool = name, why, "the value of a tool cannot be used");
            failed(ToolFailure::failed(format!(
                "The call has run, but the result of {name} is not what the tool promises ({why}), \
                 so it is not shown. Look at what it did before you repeat it."
            )))
        }
    }
}

fn rendered(tool: &dyn Tool, value: &Value) -> Result<Vec<Content>, String> {
    if let Some(schema) = tool.value_schema() {
        let schema = serde_json::from_str(schema.get()).map_err(|error| error.to_string())?;
        check(&schema, value)?;
    }
    let render = AssertUnwindSafe(|| tool.render(value));
    catch_unwind(render).map_err(|_| "it could not be put into words".to_owned())
}

/// What the hooks make of a result.
fn reread(
    tool: &dyn Tool,
    outcome: Outcome,
    content: Vec<Content>,
    reading: Reading,
) -> (Outcome, Vec<Content>) {
    match (reading, outcome) {
        (Reading::Unchanged, outcome) => (outcome, content),
        (Reading::Content(content), outcome) => (outcome, content),
        (Reading::Value(value), Ok(outcome)) => read(tool, Ok(ToolOutcome { value, ..outcome })),
        (Reading::Value(_), Err(failure)) => (Err(failure), content),
        (Reading::Blocked(feedback), _) => failed(ToolFailure::failed(format!(
            "{feedback}\n[The call has run; what it did is not undone.]"
        ))),
    }
}
