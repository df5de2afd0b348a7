//! A session with a driver that nobody prompts, and the tools that start processes in it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use bridle_agent::{
    Agent, AgentHandle, AgentParts, Display, Grant, Mode, Observed, PlannedCall, Progress, Tool,
    ToolContext, ToolFailure, ToolOutcome, UpdateReceiver, read_arguments, update_queue,
};
use bridle_compose::{Clock, Plugins, Row, Scope, SystemClock, TaskSet};
use bridle_session::{BlobRef, Content, Event, Header, Session, SessionId, UnixMillis};
use bridle_store::{BlobStore, MemoryStore, SessionStore as _};
use bridle_toolkit::plugins;
use bridle_world::Roots;
use bridle_world::process::{Environment, Processes};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) blobs: Arc<dyn BlobStore>,
    pub(crate) agent: Arc<AgentHandle>,
    pub(crate) updates: UpdateReceiver,
    pub(crate) scope: Scope,
    store: MemoryStore,
}

impl Rig {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(SystemClock)).await
    }

    /// Commands and waits are measured by `clock`.
    pub(crate) async fn on(clock: Arc<dyn Clock>) -> Self {
        Self::with(clock, Arc::new(MemoryStore::new())).await
    }

    pub(crate) async fn with(clock: Arc<dyn Clock>, blobs: Arc<dyn BlobStore>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let supervisor = PathBuf::from(env!("CARGO_BIN_EXE_bridle-toolkit-supervisor"));
        let environment = Environment::from_variables(std::iter::empty::<(OsString, OsString)>());
        let processes = Processes::with_clock(supervisor, environment, Arc::clone(&clock));
        let scope = Scope::root("session", plugins(Plugins::new()), TaskSet::new());
        let store = MemoryStore::new();
        let (agent, updates) = agent_in(&scope, &store, Arc::clone(&clock));
        scope.provide("clock", clock).await;
        scope.provide("processes", Arc::new(processes)).await;
        scope.provide("roots", Arc::new(Roots::new(folder.path().to_owned(), Vec::new()))).await;
        scope.provide("blobs", Arc::clone(&blobs)).await;
        scope.provide("agent", Arc::clone(&agent)).await;
        scope.mount(["sandbox", "jobs", "shell"].map(Row::new).into()).await;
        Self { folder, blobs, agent, updates, scope, store }
    }

    pub(crate) fn tool(&self, name: &str) -> Arc<dyn Tool> {
        let tools = self.scope.all::<dyn Tool>();
        Arc::clone(tools.iter().find(|tool| tool.spec().name == name).unwrap())
    }

    pub(crate) async fn plan(
        &self,
        tool: &str,
        arguments: Value,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let tool = self.tool(tool);
        tool.plan(read_arguments(tool.spec(), &arguments.to_string())?, &context()).await
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> Result<Done, ToolFailure> {
        let planned = self.plan(tool, arguments).await?;
        let ToolOutcome { value, display, .. } = planned.run(Grant::for_tests(), context()).await?;
        let content = self.tool(tool).render(&value).remove(0);
        Ok(Done { value, display, content })
    }

    /// Ends the session as its owner does, and returns what its log holds.
    pub(crate) async fn closed(self) -> Vec<Event> {
        self.scope.close().await;
        assert!(self.agent.close().await.is_empty());
        self.store.read(&id()).unwrap().session.events().iter().map(|it| (**it).clone()).collect()
    }
}

/// A driver in `scope`, and what it tells.
pub(crate) fn agent_in(
    scope: &Scope,
    store: &MemoryStore,
    clock: Arc<dyn Clock>,
) -> (Arc<AgentHandle>, UpdateReceiver) {
    let session = Session::new(header());
    let (updates, receiver) = update_queue(64, u32::MAX);
    let agent = Agent::start(AgentParts {
        scope: scope.clone(),
        writer: store.create(session.header()).unwrap(),
        session,
        updates,
        clock,
        mode: Mode::Ask,
        modes: Mode::ALL.into(),
        route: None,
        effort: None,
    });
    (Arc::new(agent), receiver)
}

fn id() -> SessionId {
    SessionId::new("11111111-1111-7111-8111-111111111111".to_owned())
}

fn header() -> Header {
    Header {
        format: Header::FORMAT,
        id: id(),
        created_at: UnixMillis::from(SystemTime::now()),
        cwd: PathBuf::from("/"),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

pub(crate) fn context() -> ToolContext {
    ToolContext {
        token: CancellationToken::new(),
        progress: Progress::none(),
        observed: Observed::default(),
    }
}

/// A call that succeeded, and what the model reads of it.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) value: Value,
    pub(crate) display: Display,
    content: Content,
}

impl Done {
    pub(crate) fn text(&self) -> &str {
        match &self.content {
            Content::Text { text } | Content::Blob { preview: text, .. } => text,
            other => panic!("no text: {other:?}"),
        }
    }

    pub(crate) fn blob(&self) -> Option<&BlobRef> {
        match &self.content {
            Content::Blob { blob, .. } => Some(blob),
            _ => None,
        }
    }
}
