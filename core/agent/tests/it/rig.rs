//! A driver over a scripted model, scripted answers and small tools. Only the model, the clock
//! and the client are fakes; session, store and scopes are the real ones.

mod clock;
mod model;
mod tools;

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    AgentHandle, AgentUpdate, Approver, Compaction, Mode, PromptSection, Seated, SessionSeat, Tool,
    ToolStatus, TurnOutcome, UpdateReceiver, update_queue,
};
use bridle_compose::{
    ActivateError, Clock, Duplicate, Plugin, Plugins, Row, Scope, Setup, TaskSet,
};
use bridle_model::ModelSource;
use bridle_session::{
    BlobRef, Content, Draft, EventData, Header, MessageId, Session, SessionId, UnixMillis,
};
use bridle_store::{BlobStore, LogWriter, MemoryStore, SessionStore};

pub(crate) use self::clock::TestClock;
pub(crate) use self::model::{Play, ScriptedModel, calls, failure, flat, route, text, text_block};
pub(crate) use self::tools::{ScriptedApprover, TestTool, ok};

/// How many updates the client's side holds.
pub(crate) const UPDATES: usize = 64;

/// Everything around one driver.
pub(crate) struct Rig {
    pub(crate) model: ScriptedModel,
    pub(crate) clock: TestClock,
    pub(crate) approver: ScriptedApprover,
    pub(crate) agent: Arc<AgentHandle>,
    pub(crate) updates: UpdateReceiver,
    /// The session's scope, and the one above it.
    pub(crate) scope: Scope,
    pub(crate) process: Scope,
    store: Arc<dyn SessionStore>,
    blobs: Arc<dyn BlobStore>,
    id: SessionId,
}

pub(crate) const SESSION: &str = "00000000-0000-7000-8000-000000000000";

pub(crate) fn header() -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::new(SESSION),
        created_at: UnixMillis(0),
        cwd: "/ws".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    }
}

/// What a session is made of besides the scripted parts.
pub(crate) struct Setting {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) mode: Mode,
    pub(crate) modes: Vec<Mode>,
    pub(crate) max_steps: u32,
    pub(crate) model: Option<&'static str>,
    pub(crate) store: Arc<dyn SessionStore>,
    /// Where large results go.
    pub(crate) blobs: Arc<dyn BlobStore>,
    /// Adds the plugins of a test.
    pub(crate) plugins: Box<dyn FnOnce(Plugins) -> Plugins>,
    /// What the row `extra` sets up, before the driver's.
    pub(crate) extra: Extra,
    /// Further rows of the session, before its driver.
    pub(crate) rows: Vec<Row>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            tools: Vec::new(),
            mode: Mode::Ask,
            modes: Mode::ALL.to_vec(),
            max_steps: 5,
            model: Some("scripted/one"),
            store: Arc::new(MemoryStore::new()),
            blobs: Arc::new(MemoryStore::new()),
            plugins: Box::new(|plugins| plugins),
            extra: Extra::new(|_| Ok(())),
            rows: Vec::new(),
        }
    }
}

type SetUp = dyn Fn(&Setup) -> Result<(), Duplicate> + Send + Sync;

/// A plugin that is one closure.
pub(crate) struct Extra(Box<SetUp>);

impl Extra {
    pub(crate) fn new(
        set_up: impl Fn(&Setup) -> Result<(), Duplicate> + Send + Sync + 'static,
    ) -> Self {
        Self(Box::new(set_up))
    }
}

#[async_trait]
impl Plugin for Extra {
    const NAME: &'static str = "extra";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        Ok((self.0)(setup)?)
    }
}

/// The row of the tools of a test, and of the system prompt.
struct Offers(Vec<Arc<dyn Tool>>);

#[async_trait]
impl Plugin for Offers {
    const NAME: &'static str = "offers";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let prompt = PromptSection::verbatim("identity", PromptSection::IDENTITY, "be good");
        setup.add("identity", Arc::new(prompt))?;
        for tool in &self.0 {
            setup.add::<dyn Tool>(&tool.spec().name, Arc::clone(tool))?;
        }
        Ok(())
    }
}

impl Rig {
    pub(crate) async fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(tools, Mode::Ask, 20).await
    }

    pub(crate) async fn with(tools: Vec<Arc<dyn Tool>>, mode: Mode, max_steps: u32) -> Self {
        Self::start(Setting { tools, mode, max_steps, ..Setting::default() }).await
    }

    /// A session whose large results go to this store.
    pub(crate) async fn with_blobs(tools: Vec<Arc<dyn Tool>>, blobs: Arc<dyn BlobStore>) -> Self {
        Self::start(Setting { tools, blobs, ..Setting::default() }).await
    }

    /// A session that chose no model, in a process whose source has none to offer.
    pub(crate) async fn without_a_model() -> Self {
        Self::start(Setting { model: None, ..Setting::default() }).await
    }

    pub(crate) async fn start(setting: Setting) -> Self {
        let session = Session::new(header());
        let writer = setting.store.create(session.header()).unwrap();
        Self::launch(session, writer, setting).await
    }

    /// A session whose process died behind these events.
    pub(crate) async fn after_a_crash(drafts: impl IntoIterator<Item = Draft>) -> Self {
        let mut session = Session::new(header());
        for draft in drafts {
            session.append(draft, UnixMillis(0)).unwrap();
        }
        Self::over(session).await
    }

    /// A stored session.
    pub(crate) async fn over(session: Session) -> Self {
        Self::over_with(session, Setting::default()).await
    }

    /// A stored session with these parts.
    pub(crate) async fn over_with(session: Session, setting: Setting) -> Self {
        let writer = setting.store.create(session.header()).unwrap();
        for event in session.events() {
            writer.append(Arc::clone(event)).unwrap();
        }
        writer.flush().await.unwrap();
        drop(writer);
        let opened = setting.store.open(&session.header().id).unwrap();
        Self::launch(opened.session, opened.writer, setting).await
    }

    /// The session after its process ended, in one whose user allows these modes.
    pub(crate) async fn reopened(self, modes: &[Mode]) -> Self {
        self.reopened_with(Vec::new(), modes).await
    }

    /// As [`Self::reopened`], with these tools.
    pub(crate) async fn reopened_with(self, tools: Vec<Arc<dyn Tool>>, modes: &[Mode]) -> Self {
        self.scope.close().await;
        let opened = self.store.open(&self.id).unwrap();
        let (modes, store, blobs) = (modes.to_vec(), self.store, self.blobs);
        let setting = Setting { tools, modes, store, blobs, ..Setting::default() };
        Self::launch(opened.session, opened.writer, setting).await
    }

    async fn launch(session: Session, writer: LogWriter, setting: Setting) -> Self {
        let id = session.header().id.clone();
        let clock = TestClock::default();
        let model = ScriptedModel::new(clock.clone());
        let approver = ScriptedApprover::default();
        let (sender, updates) = update_queue(UPDATES, u32::MAX);
        let plugins = (setting.plugins)(bridle_agent::plugins(Plugins::new()))
            .with(Offers(setting.tools))
            .with(setting.extra);
        let process = Scope::root("process", plugins, TaskSet::new());
        process.provide::<dyn Clock>("clock", Arc::new(clock.clone())).await;
        process.provide::<dyn ModelSource>("models", Arc::new(model.clone())).await;
        process.provide::<dyn BlobStore>("blobs", Arc::clone(&setting.blobs)).await;
        let scope = process.child("session");
        scope.provide::<dyn Approver>("approver", Arc::new(approver.clone())).await;
        let seat = SessionSeat::new(Seated { session, writer, updates: sender });
        scope.provide("session", Arc::new(seat)).await;
        let driver = serde_json::json!({
            "mode": setting.mode, "modes": setting.modes, "model": setting.model,
        });
        let budget = serde_json::json!({ "turn_steps": setting.max_steps });
        let rows = [
            Row::new("permission-modes"),
            Row::new("budget").with(budget),
            Row::new("offers"),
            Row::new("extra"),
        ];
        let rows = rows.into_iter().chain(setting.rows).chain([Row::new("driver").with(driver)]);
        scope.mount(rows.collect()).await;
        let agent = scope.get::<AgentHandle>().expect("the driver runs");
        let Setting { store, blobs, .. } = setting;
        Self { model, clock, approver, agent, updates, scope, process, store, blobs, id }
    }

    pub(crate) fn prompt(&self, id: &str) {
        self.agent.prompt(MessageId::new(id), vec![Content::text(id)]).unwrap();
    }

    /// Updates until the turn of prompt `id` ended, and how it ended.
    pub(crate) async fn until_end(&mut self, id: &str) -> (Vec<String>, TurnOutcome) {
        let mut lines = Vec::new();
        while let Some(update) = self.updates.recv().await {
            if let AgentUpdate::TurnEnded { prompt, outcome } = &update
                && prompt.as_str() == id
            {
                return (lines, outcome.clone());
            }
            // Where pieces of an answer end matters to who joins them, and what fills the context to
            // who is asked for it.
            if !matches!(update, AgentUpdate::BlockEnded | AgentUpdate::Fill(_)) {
                lines.push(line(&update));
            }
        }
        panic!("the driver ended first: {lines:#?}");
    }

    pub(crate) async fn run(&mut self, id: &str) -> (Vec<String>, TurnOutcome) {
        self.prompt(id);
        self.until_end(id).await
    }

    /// What the store keeps under this name.
    pub(crate) fn blob(&self, blob: &BlobRef) -> Vec<u8> {
        self.blobs.get(blob).unwrap()
    }

    /// What the store has of the session now, while its driver runs.
    pub(crate) fn stored(&self) -> Session {
        self.store.read(&self.id).unwrap().session
    }

    /// Closes the session's scope and reads its log back.
    pub(crate) async fn log(&mut self) -> Session {
        let failures = self.scope.close().await;
        assert!(failures.is_empty(), "{failures:?}");
        self.store.read(&self.id).unwrap().session
    }
}

/// The events of a log, one word each.
pub(crate) fn kinds(session: &Session) -> Vec<String> {
    let words = session.events().iter().map(|event| match &event.data {
        EventData::TurnEnd(end) => {
            let reason = serde_json::to_value(&end.reason).unwrap();
            format!("turn/end {}", reason["kind"].as_str().unwrap())
        }
        EventData::ToolResult(result) => match result.error {
            Some(code) => format!("tool/result {} {code:?}", result.id),
            None => format!("tool/result {}", result.id),
        },
        EventData::ToolCall(call) => format!("tool/call {}", call.id),
        EventData::RequestHeader(header) => {
            format!("request/header {} {}", header.series, header.reason)
        }
        data => data.type_name().to_owned(),
    });
    words.collect()
}

pub(crate) fn line(update: &AgentUpdate) -> String {
    let status = |status: &ToolStatus| format!("{status:?}").to_lowercase();
    match update {
        AgentUpdate::UserMessage { content, .. } => format!("user {}", flat(content)),
        AgentUpdate::MessageChunk { id, text } => format!("text {id} {text}"),
        AgentUpdate::ThoughtChunk { id, text } => format!("thought {id} {text}"),
        AgentUpdate::BlockEnded => "block ended".to_owned(),
        AgentUpdate::ToolCall { id, status: at, display, .. } => {
            format!("call {id} {} {}", status(at), display.title)
        }
        AgentUpdate::ToolCallUpdate { id, status: at, display } => {
            let title = display.as_ref().map(|display| display.title.as_str());
            format!("call {id} {} {}", status(at), title.unwrap_or_default())
        }
        AgentUpdate::ToolOutput { id, lines } => format!("output {id} {lines}"),
        AgentUpdate::ToolProgress { id, text } => format!("progress {id} {text}"),
        AgentUpdate::Usage(meter) => format!("usage {}/{}", meter.used, meter.window),
        AgentUpdate::Fill(fill) => format!("fill {}", fill.total()),
        AgentUpdate::Compaction(id, compaction) => format!("{id} {}", told(compaction)),
        AgentUpdate::Todo(items) => {
            let items = items.iter().map(|item| format!("{} {:?}", item.text, item.status));
            format!("todo {}", items.collect::<Vec<_>>().join(", "))
        }
        AgentUpdate::Title(title) => format!("title {title}"),
        AgentUpdate::Mode(mode) => format!("mode {}", mode.id()),
        AgentUpdate::Model(route) => format!("model {route}"),
        AgentUpdate::Effort(level) => format!("effort {level:?}"),
        AgentUpdate::Notice { title, .. } => format!("notice {title}"),
        AgentUpdate::Replay(replay) => format!("replay of {}", replay.len()),
        AgentUpdate::Joined { prompt } => format!("joined {prompt}"),
        AgentUpdate::TurnEnded { prompt, outcome } => format!("end {prompt} {outcome:?}"),
    }
}

fn told(compaction: &Compaction) -> String {
    match compaction {
        Compaction::Began { tokens, window } => format!("began at {tokens}/{window}"),
        Compaction::Done { before, after, summary } => {
            let how = if summary.is_some() { "summarised" } else { "pruned" };
            format!("{how} {before} -> {after}")
        }
        Compaction::Failed { message } => format!("failed: {message}"),
        Compaction::Cancelled => "cancelled".to_owned(),
    }
}
