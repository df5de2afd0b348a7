//! The points of a turn at which plugins may stand around what happens, and what observers are
//! told. Design: loop and tools.
//!
//! None of them can widen a permission, change what the log says of a call, or run a body twice:
//! the types give no way to do it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::HookPoint;
use bridle_model::{Chunk, ModelFailure, ModelRequest, PreparedCall};
use bridle_session::{
    Content, Event, Route, SessionId, Spending, StepNumber, ToolCallId, ToolErrorCode, TurnNumber,
    UserMessage,
};
use futures::stream::BoxStream;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::display::Display;
use crate::mode::{Mode, Ruling};
use crate::tool::{Access, Grant, PlannedCall, ToolContext, ToolFailure, ToolOutcome};

/// Before each step of a turn: its input may be changed, or the turn ended.
pub struct PreStep;

impl HookPoint for PreStep {
    const NAME: &'static str = "pre-step";
    type Input = StepInput;
    type Output = StepDecision;
}

/// A step that is about to begin.
#[derive(Clone, Debug)]
pub struct StepInput {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it, from 1.
    pub step: StepNumber,
    /// What the model is told that it has not seen yet.
    pub messages: Vec<UserMessage>,
    /// What the turn and the session have used up so far.
    pub spending: Spending,
}

/// What becomes of the step.
#[derive(Clone, Debug)]
pub enum StepDecision {
    /// It begins with these messages. A first step without any completes the turn without a
    /// request.
    Enter(Vec<UserMessage>),
    /// The turn ends as `blocked`.
    Reject {
        /// Why, for the person.
        message: String,
        /// Whether a budget was used up, and not somebody said no.
        limit: bool,
    },
}

/// Around the preparation of a request: which call is made of the route.
pub struct OnRequest;

impl HookPoint for OnRequest {
    const NAME: &'static str = "request";
    type Input = RequestInput;
    type Output = Result<PreparedCall, ModelFailure>;
}

/// A request that is about to be prepared.
#[derive(Clone, Debug)]
pub struct RequestInput {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it, from 1.
    pub step: StepNumber,
    /// Which try of the step's request, from 1.
    pub attempt: u32,
    /// Who is to be asked.
    pub route: Route,
}

/// Around the stream of an answer.
pub struct OnStream;

impl HookPoint for OnStream {
    const NAME: &'static str = "stream";
    type Input = StreamInput;
    type Output = BoxStream<'static, Result<Chunk, ModelFailure>>;
}

/// A request that is about to be sent; it is on the log, and durable.
pub struct StreamInput {
    /// The call, to be used once.
    pub call: PreparedCall,
    /// What is sent.
    pub request: ModelRequest,
    /// Ends the stream.
    pub token: CancellationToken,
}

/// After a failed request: whether it is tried again.
pub struct OnRequestError;

impl HookPoint for OnRequestError {
    const NAME: &'static str = "request-error";
    type Input = RequestFailed;
    /// How long to wait before the next try; `None` ends the turn with the failure.
    type Output = Option<Duration>;
}

/// A request that failed.
#[derive(Clone, Debug)]
pub struct RequestFailed {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it, from 1.
    pub step: StepNumber,
    /// Which try of the step's request it was, from 1.
    pub attempt: u32,
    /// Who was asked.
    pub route: Route,
    /// What went wrong.
    pub failure: ModelFailure,
}

/// Before a turn ends because the model has nothing more to do.
pub struct TurnStopping;

impl HookPoint for TurnStopping {
    const NAME: &'static str = "turn-stopping";
    type Input = StoppingTurn;
    /// One more input, with which the turn goes on; `None` lets it end.
    type Output = Option<UserMessage>;
}

/// A turn that is about to end.
#[derive(Clone, Copy, Debug)]
pub struct StoppingTurn {
    /// Which turn.
    pub turn: TurnNumber,
    /// Its last step, from 1.
    pub step: StepNumber,
}

/// Before a call runs. The strictest of what the policy says and what comes out of here holds.
pub struct ToolPre;

impl HookPoint for ToolPre {
    const NAME: &'static str = "tool-pre";
    type Input = Arc<CallInfo>;
    type Output = Ruling;
}

/// A planned call, as it is shown and judged.
#[derive(Clone, Debug)]
pub struct CallInfo {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// The argument text as the model wrote it.
    pub arguments: String,
    /// What the call would touch.
    pub accesses: Vec<Access>,
    /// What a person is shown.
    pub display: Display,
    /// The mode in force.
    pub mode: Mode,
}

/// Around the body of a call that may run.
pub struct ToolRun;

impl HookPoint for ToolRun {
    const NAME: &'static str = "tool-run";
    type Input = Body;
    type Output = Result<ToolOutcome, ToolFailure>;
}

/// The body of one call with its permission; it can be run once, or not at all.
pub struct Body {
    pub(crate) call: Arc<CallInfo>,
    pub(crate) planned: Box<dyn PlannedCall>,
    pub(crate) grant: Grant,
    pub(crate) context: ToolContext,
}

impl Body {
    /// The call.
    pub fn call(&self) -> &CallInfo {
        &self.call
    }

    /// Cancelled when the turn is.
    pub fn token(&self) -> &CancellationToken {
        &self.context.token
    }

    /// Lets the body end sooner than the turn: it is given `token`, which should be a child of
    /// [`Body::token`].
    #[must_use]
    pub fn until(mut self, token: CancellationToken) -> Self {
        self.context.token = token;
        self
    }

    pub(crate) async fn run(self) -> Result<ToolOutcome, ToolFailure> {
        self.planned.run(self.grant, self.context).await
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Body").field(&self.call).finish()
    }
}

/// After a body has run, before its result is recorded.
pub struct ToolPost;

impl HookPoint for ToolPost {
    const NAME: &'static str = "tool-post";
    type Input = Arc<Ran>;
    type Output = Verdict;
}

/// A body that has run.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The call.
    pub call: Arc<CallInfo>,
    /// What came of it; a value fits the tool's schema.
    pub outcome: Result<ToolOutcome, ToolFailure>,
    /// What the model reads of it.
    pub content: Vec<Content>,
}

/// What becomes of the result of a body that has run.
#[derive(Debug)]
pub struct Verdict {
    /// What the model reads.
    pub reading: Reading,
    /// What the model is told besides, before the next request.
    pub context: Vec<String>,
}

/// What the model reads of a body that has run. A failure stays a failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Reading {
    /// The result as it is.
    Unchanged,
    /// This in its place.
    Content(Vec<Content>),
    /// This value in the place of a success's own: checked like that one, and rendered anew.
    Value(Value),
    /// An error that says why. What the body did is not undone, and the model is told so.
    Blocked(String),
}

impl Verdict {
    /// The outcome as it is.
    pub fn accept() -> Self {
        Self::of(Reading::Unchanged)
    }

    /// An error; `feedback` tells the model why.
    pub fn block(feedback: impl Into<String>) -> Self {
        Self::of(Reading::Blocked(feedback.into()))
    }

    /// No further context.
    pub fn of(reading: Reading) -> Self {
        Self { reading, context: Vec::new() }
    }
}

/// Told to observers when a call has its result on the log.
#[derive(Clone, Debug)]
pub struct ToolFinished {
    /// The session.
    pub session: SessionId,
    /// The call's id.
    pub call: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// Set when it did not succeed.
    pub error: Option<ToolErrorCode>,
}

/// Told to observers when an event has entered the log (in memory; the disk comes with the next
/// barrier).
#[derive(Clone, Debug)]
pub struct SessionEvent {
    /// The session.
    pub session: SessionId,
    /// The event.
    pub event: Arc<Event>,
}
