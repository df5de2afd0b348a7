//! What a tool is: a description, and a plan for each call that can be shown, judged and run.
//!
//! The driver checks the arguments against the tool's schema. A call then goes through
//! [`Tool::plan`] (resolve targets, compute the preview; no side effect) to a [`PlannedCall`],
//! which is shown and judged, and is then consumed by [`PlannedCall::run`] together with a
//! [`Grant`]. A plan binds its targets by identity, so what was approved is what runs. What the
//! body yields is a value for programs; [`Tool::render`] makes of it what the model reads. Design:
//! loop and tools, Tools.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridle_model::ToolSpec;
use bridle_session::{BlobRef, Content, TodoItem, ToolErrorCode};
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

use crate::display::Display;
use crate::mode::Sandboxing;

/// The only tools that the model of a session is offered, by name; a service of its scope. Without
/// one it is offered all. A name that ends with `*` stands for all that begin with what is before it.
#[derive(Clone, Debug)]
pub struct OfferedTools(pub Vec<String>);

impl OfferedTools {
    /// Whether the tool of this name, or each of those that a name with `*` stands for, is one of them.
    pub fn offers(&self, name: &str) -> bool {
        self.0.iter().any(|it| match it.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => it == name,
        })
    }
}

/// Something the model can call.
#[async_trait]
pub trait Tool: Send + Sync + 'static {
    /// How the model is told of it. The same bytes for the life of the process.
    fn spec(&self) -> &ToolSpec;

    /// Whether it comes and goes by itself, so that it joins and leaves a conversation only when a
    /// new series begins for another reason. The same for the life of the tool.
    fn waits_for_series(&self) -> bool {
        false
    }

    /// The JSON Schema of the values that its bodies yield; `None` takes any.
    fn value_schema(&self) -> Option<&RawValue> {
        None
    }

    /// Prepares a call; the arguments fit the schema of [`Tool::spec`]. Reads what it needs for
    /// the preview, changes nothing.
    ///
    /// # Errors
    /// [`ToolFailure`] with `BadArguments` for what the schema cannot say, and with `Failed` for a
    /// call that cannot succeed (a missing file, a text that does not match).
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn plan(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure>;

    /// What the model reads of a value that fits [`Tool::value_schema`]. Pure: the same for the
    /// same value. Without it a text is read as it is and anything else as JSON.
    fn render(&self, value: &Value) -> Vec<Content> {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        vec![Content::text(text)]
    }

    /// What of a call that succeeded outlives a summary of the conversation, given its arguments as
    /// the model wrote them and what the model read of its result. Pure.
    fn outlives(&self, _arguments: &str, _read: &[Content]) -> Option<Outlives> {
        None
    }

    /// How a call looks before (or without) a successful plan: the model's arguments may be
    /// incomplete or wrong. Must not fail; falls back to the tool's name.
    fn outline(&self, arguments: &str) -> Display;
}

/// Of a call, what must not depend on how well a model summarises it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outlives {
    /// What the person answered, in their words.
    Answer(String),
    /// The plan that they agreed to. The newest holds.
    Plan(String),
    /// The name of what was loaded to be followed: the model is told that it is gone, and can load it
    /// again.
    Loaded(String),
}

/// A checked call, ready to be shown, judged and run once.
#[async_trait]
pub trait PlannedCall: Send + Sync + 'static {
    /// What a client shows before the call runs, diffs included.
    fn display(&self) -> Display;

    /// What the call would touch. The strictest entry decides.
    fn access(&self) -> Vec<Access>;

    /// The tool that the call is really of, where it was called through another one. Rules and hooks
    /// know the call by this name.
    fn tool(&self) -> Option<&str> {
        None
    }

    /// Whether it may overlap with its neighbours.
    fn concurrency(&self) -> Concurrency {
        Concurrency::Exclusive
    }

    /// How long the body may run. Then its token is cancelled, and the result says so. The clock
    /// starts with the body, after any question; a body that itself waits for a person has none.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// Runs the body. Re-checks the targets that the plan bound. When `context.token` is
    /// cancelled it ends soon, with every process it started gone.
    ///
    /// # Errors
    /// [`ToolFailure`] with `Failed`, or `Aborted` when it was cancelled.
    ///
    /// # Cancel safety
    /// Dropped only when it does not end within 10 s of its token's cancel; every process that it
    /// started must end with it. What it did is then reported as unknown.
    async fn run(
        self: Box<Self>,
        grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure>;
}

/// What a call is given.
#[derive(Clone)]
pub struct ToolContext {
    /// Cancelled when the turn is.
    pub token: CancellationToken,
    /// Where live output goes.
    pub progress: Progress,
    /// The files that the model has seen, and the hash of what each one held then.
    pub observed: Observed,
}

/// Files by their absolute path, and a hash of the content of each.
pub type Observed = Arc<BTreeMap<PathBuf, String>>;

/// Takes the live output of a running call, in two forms of which a client sees one. Never blocks:
/// the newest text wins, and of lines the oldest are lost where nobody takes them.
#[derive(Clone)]
pub struct Progress {
    show: Sink,
    write: Sink,
}

type Sink = Arc<dyn Fn(String) + Send + Sync>;

impl Progress {
    /// `show` gets the text that should be visible now; it replaces what was shown before.
    pub fn new(show: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { show: Arc::new(show), write: Arc::new(|_| ()) }
    }

    /// `write` gets the same output as a stream of lines.
    pub(crate) fn with_lines(self, write: impl Fn(String) + Send + Sync + 'static) -> Self {
        Self { write: Arc::new(write), ..self }
    }

    /// A sink that shows nothing.
    pub fn none() -> Self {
        Self::new(|_| ())
    }

    /// Replaces the visible live output, e.g. by a bounded tail.
    pub fn show(&self, text: String) {
        (self.show)(text);
    }

    /// Adds to the output of a call whose display says that it streams.
    pub fn write(&self, lines: String) {
        (self.write)(lines);
    }
}

/// Permission for exactly one call. Only the gate of this crate makes one; `run` consumes it.
#[derive(Debug)]
pub struct Grant {
    confinement: Confinement,
}

/// How a command that may run is confined, strictest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confinement {
    /// It changes nothing, and has no network.
    ReadOnly,
    /// It changes the workspace.
    Workspace {
        /// Whether it has the network.
        network: bool,
    },
    /// Not at all.
    Unconfined,
}

impl Grant {
    pub(crate) fn new(confinement: Confinement) -> Self {
        Self { confinement }
    }

    /// How the command is to be confined, where the call is one.
    pub fn confinement(&self) -> Confinement {
        self.confinement
    }

    /// A grant for tests of a tool's body outside the driver. Not for product code.
    #[doc(hidden)]
    pub fn for_tests() -> Self {
        Self::new(Confinement::Unconfined)
    }
}

/// One thing a call would touch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads inside the session's roots: a file, or a folder with what is in it.
    ReadInside(PathBuf),
    /// Reads outside them.
    ReadOutside(PathBuf),
    /// Reads what is kept from commands, wherever it lies: keys, or Bridle's own files.
    ReadMasked(PathBuf),
    /// Writes inside them.
    WriteInside(PathBuf),
    /// Writes outside them.
    WriteOutside(PathBuf),
    /// Runs a command.
    Run {
        /// The command, as the shell gets it.
        command: String,
        /// It asked for the network.
        network: bool,
        /// It asked to leave the sandbox.
        unconfined: bool,
        /// Why, in the model's words.
        reason: Option<String>,
        /// Whether its host can confine it.
        sandboxing: Sandboxing,
    },
    /// Presents a plan; a yes ends the planning.
    LeavePlan,
    /// Acts through something that Bridle cannot confine (an MCP server).
    External {
        /// The server's name.
        server: String,
        /// What is called is not what it was when it was last permitted: a rule that allows it was made
        /// for something else.
        changed: bool,
    },
}

/// Whether calls may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// May run beside other parallel calls of the same message.
    Parallel,
    /// Runs alone.
    Exclusive,
}

/// A call that succeeded.
#[derive(Clone, Debug)]
pub struct ToolOutcome {
    /// What programs read, and what the model's content is rendered from.
    pub value: Value,
    /// What a client shows, in place of the plan's display.
    pub display: Display,
    /// Whether the turn ends, as completed, once every call of the same message has its result.
    pub conclude: bool,
    /// What else becomes true of the session, recorded behind the result.
    pub changes: Vec<SessionChange>,
}

impl ToolOutcome {
    /// A success that changes nothing of the session and lets the turn go on.
    pub fn new(value: impl Into<Value>, display: Display) -> Self {
        Self { value: value.into(), display, conclude: false, changes: Vec::new() }
    }
}

/// What a tool may change of the session that it was called in. The driver makes the change: a
/// tool never writes to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SessionChange {
    /// What is to be done is this list now.
    Todo(Vec<TodoItem>),
    /// The model knows the whole or a part of what this file holds now.
    Observed {
        /// The file's absolute path.
        path: PathBuf,
        /// The hash of its content; `None` when nothing is there any more.
        hash: Option<String>,
    },
    /// Planning is over: the mode is again what it was before `plan`.
    LeavePlan,
}

/// A call that did not succeed. The model reads the message and acts on it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ToolFailure {
    /// What kind.
    pub code: ToolErrorCode,
    /// What happened and what to do about it, for the model.
    pub message: String,
    /// All that the message tells of, where it gives only the two ends of a large text.
    pub whole: Option<Box<BlobRef>>,
    /// What a client shows; `None` keeps the plan's display with the message as its text.
    pub display: Option<Display>,
}

impl ToolFailure {
    /// A failure that says no more than its message.
    pub(crate) fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), whole: None, display: None }
    }

    /// The body ran, or could not run, and failed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Failed, message)
    }

    /// The arguments are not JSON or break the schema.
    pub fn bad_arguments(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::BadArguments, message)
    }

    /// Nobody knows what the call did, or whether it goes on.
    pub fn outcome_unknown(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::ToolOutcomeUnknown, message)
    }

    /// The call was cancelled while it ran.
    pub fn aborted(message: impl Into<String>) -> Self {
        Self::new(ToolErrorCode::Aborted, message)
    }
}
