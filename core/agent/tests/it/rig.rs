//! A driver over a scripted model, scripted answers and small tools. Only the model, the clock
//! and the client are fakes; session and store are the real ones.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bridle_agent::{
    Access, Agent, AgentHandle, AgentParts, AgentUpdate, Answer, Approver, Concurrency, Display,
    Grant, Mode, PlannedCall, Question, Sandboxing, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome, ToolStatus, TurnOutcome,
};
use bridle_compose::{Clock, Sleep, TaskSet};
use bridle_model::{
    BlockKind, Chunk, FailureCode, ModelAdapter, ModelFailure, ModelRequest, ModelSource,
    PreparedCall, RetryPolicy, RouteLimits, StopReason, ToolSpec,
};
use bridle_session::{
    BlobRef, Block, Content, Draft, EventData, Header, Message, MessageId, Route, Session,
    SessionId, ToolCallId, UnixMillis, Usage,
};
use bridle_store::{BlobStore, LogWriter, MemoryStore, SessionStore as _};
use futures::stream::{BoxStream, StreamExt as _};
use tokio::sync::{Notify, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

/// What a scripted answer does next.
#[derive(Clone)]
pub(crate) enum Play {
    Chunk(Chunk),
    /// The chunk comes this much later.
    Later(Duration, Chunk),
    Fail(ModelFailure),
    /// Says that it got here, then is silent until the request is cancelled.
    Hang(Arc<Notify>),
    Panic,
}

pub(crate) fn text(text: &str) -> Vec<Play> {
    let mut plays =
        vec![Play::Chunk(Chunk::Start { usage: Usage { input: 10, ..Usage::default() } })];
    plays.extend(text_block(0, text));
    plays.push(Play::Chunk(Chunk::Usage(Usage { input: 10, output: 5, ..Usage::default() })));
    plays.push(Play::Chunk(Chunk::Stop(StopReason::EndTurn)));
    plays
}

pub(crate) fn text_block(index: u32, text: &str) -> Vec<Play> {
    vec![
        Play::Chunk(Chunk::BlockStart { index, kind: BlockKind::Text }),
        Play::Chunk(Chunk::TextDelta { index, text: text.to_owned() }),
        Play::Chunk(Chunk::BlockEnd { index, block: Block::Text { text: text.to_owned() } }),
    ]
}

/// An answer that asks for these tools: (id, name, arguments).
pub(crate) fn calls(calls: &[(&str, &str, &str)]) -> Vec<Play> {
    let mut plays = vec![Play::Chunk(Chunk::Start { usage: Usage::default() })];
    for (index, (id, name, arguments)) in calls.iter().enumerate() {
        let index = index as u32;
        let id = ToolCallId::new(*id);
        plays.push(Play::Chunk(Chunk::BlockStart {
            index,
            kind: BlockKind::ToolCall { id: id.clone(), name: (*name).to_owned() },
        }));
        let arguments = (*arguments).to_owned();
        let block = Block::ToolCall { id, name: (*name).to_owned(), arguments };
        plays.push(Play::Chunk(Chunk::BlockEnd { index, block }));
    }
    plays.push(Play::Chunk(Chunk::Stop(StopReason::ToolUse)));
    plays
}

pub(crate) fn failure(code: FailureCode) -> ModelFailure {
    ModelFailure {
        code,
        message: format!("scripted {}", code.as_str()),
        status: None,
        retry_after: None,
        request_id: None,
    }
}

/// A model that plays its answers in order and keeps what it was asked.
#[derive(Clone, Default)]
pub(crate) struct ScriptedModel {
    clock: TestClock,
    answers: Arc<Mutex<VecDeque<Vec<Play>>>>,
    requests: Arc<Mutex<Vec<String>>>,
}

impl ScriptedModel {
    pub(crate) fn push(&self, answer: Vec<Play>) {
        self.answers.lock().unwrap().push_back(answer);
    }

    /// Each request as one line per message.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

impl ModelAdapter for ScriptedModel {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        self.requests.lock().unwrap().push(outline(&request));
        let answer = self.answers.lock().unwrap().pop_front().expect("an answer is scripted");
        let clock = self.clock.clone();
        futures::stream::iter(answer)
            .then(move |play| {
                let (token, clock) = (token.clone(), clock.clone());
                async move {
                    if token.is_cancelled() {
                        return Err(failure(FailureCode::Cancelled));
                    }
                    match play {
                        Play::Chunk(chunk) => Ok(chunk),
                        Play::Later(time, chunk) => {
                            *clock.passed.lock().unwrap() += time;
                            Ok(chunk)
                        }
                        Play::Fail(failure) => Err(failure),
                        Play::Panic => panic!("scripted"),
                        Play::Hang(reached) => {
                            reached.notify_one();
                            token.cancelled().await;
                            Err(failure(FailureCode::Cancelled))
                        }
                    }
                }
            })
            .boxed()
    }
}

fn outline(request: &ModelRequest) -> String {
    let lines = request.projection().messages().map(|message| match message {
        Message::System(_) => "system".to_owned(),
        Message::User(message) => format!("user: {}", flat(&message.content)),
        Message::Assistant(message) => {
            let blocks = message.blocks.iter().map(|timed| match &timed.block {
                Block::Text { text } => text.clone(),
                Block::ToolCall { id, name, .. } => format!("<{name} {id}>"),
                other => format!("{other:?}"),
            });
            format!("assistant: {}", blocks.collect::<Vec<_>>().join(" "))
        }
        Message::Developer(message) => format!("developer: {message:?}"),
        Message::ToolResult(result) => {
            format!("result {}: {}", result.id, flat(&result.content))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn flat(content: &[Content]) -> String {
    let texts = content.iter().map(|part| match part {
        Content::Text { text } => text.clone(),
        other => format!("{other:?}"),
    });
    texts.collect::<Vec<_>>().join("|")
}

pub(crate) fn route(model: &str) -> Route {
    Route { provider: "scripted".into(), model: model.into() }
}

impl ModelSource for ScriptedModel {
    fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure> {
        let limits = RouteLimits { window: 1000, max_output: 100 };
        let retry = RetryPolicy {
            max_attempts: 3,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(30),
        };
        Ok(PreparedCall::new(route.clone(), limits, retry, Box::new(self.clone())))
    }

    fn default_route(&self) -> Result<Route, ModelFailure> {
        Err(failure(FailureCode::Auth))
    }
}

/// From here on a sleep watches over something and is no pause.
const WATCH: Duration = Duration::from_secs(30);

/// A clock that the script moves. Its sleeps end at once, or never when it is told to hold; those
/// of 30 s and more end as often as the test said before.
#[derive(Clone)]
pub(crate) struct TestClock {
    pub(crate) watches: Arc<Semaphore>,
    passed: Arc<Mutex<Duration>>,
    pub(crate) slept: Arc<Mutex<Vec<Duration>>>,
    pub(crate) hold: Arc<Mutex<Option<Arc<Notify>>>>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            watches: Arc::new(Semaphore::new(0)),
            passed: Arc::default(),
            slept: Arc::default(),
            hold: Arc::default(),
        }
    }
}

impl Clock for TestClock {
    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + *self.passed.lock().unwrap()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        if duration >= WATCH {
            let watches = Arc::clone(&self.watches);
            return Box::pin(async move { watches.acquire().await.unwrap().forget() });
        }
        self.slept.lock().unwrap().push(duration);
        let hold = self.hold.lock().unwrap().clone();
        Box::pin(async move {
            if let Some(reached) = hold {
                reached.notify_one();
                std::future::pending::<()>().await;
            }
        })
    }
}

/// Answers questions from a list; when it is empty it never answers.
#[derive(Clone, Default)]
pub(crate) struct ScriptedApprover {
    pub(crate) answers: Arc<Mutex<VecDeque<Answer>>>,
    pub(crate) questions: Arc<Mutex<Vec<Question>>>,
    pub(crate) asked: Arc<Notify>,
}

#[async_trait]
impl Approver for ScriptedApprover {
    async fn ask(&self, question: Question) -> Answer {
        self.questions.lock().unwrap().push(question);
        self.asked.notify_one();
        let answer = self.answers.lock().unwrap().pop_front();
        match answer {
            Some(answer) => answer,
            None => std::future::pending().await,
        }
    }
}

type Body = Arc<
    dyn Fn(ToolContext) -> futures::future::BoxFuture<'static, Result<String, ToolFailure>>
        + Send
        + Sync,
>;

/// A tool whose body is a closure.
pub(crate) struct TestTool {
    spec: ToolSpec,
    access: Vec<Access>,
    concurrency: Concurrency,
    body: Body,
}

impl TestTool {
    pub(crate) fn new<F, R>(name: &str, access: Access, body: F) -> Arc<Self>
    where
        F: Fn(ToolContext) -> R + Send + Sync + 'static,
        R: Future<Output = Result<String, ToolFailure>> + Send + 'static,
    {
        let concurrency = match access {
            Access::ReadInside => Concurrency::Parallel,
            _ => Concurrency::Exclusive,
        };
        Arc::new(Self {
            spec: ToolSpec {
                name: name.to_owned(),
                description: String::new(),
                input_schema: serde_json::value::to_raw_value(
                    &serde_json::json!({"type": "object"}),
                )
                .unwrap(),
            },
            access: vec![access],
            concurrency,
            body: Arc::new(move |context| Box::pin(body(context))),
        })
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: &str,
        _context: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        serde_json::from_str::<serde_json::Map<_, _>>(arguments)
            .map_err(|error| ToolFailure::bad_arguments(error.to_string()))?;
        Ok(Box::new(TestCall {
            name: self.spec.name.clone(),
            access: self.access.clone(),
            concurrency: self.concurrency,
            body: Arc::clone(&self.body),
        }))
    }

    fn outline(&self, _arguments: &str) -> Display {
        Display::new(self.spec.name.clone(), ToolKind::Other)
    }
}

struct TestCall {
    name: String,
    access: Vec<Access>,
    concurrency: Concurrency,
    body: Body,
}

#[async_trait]
impl PlannedCall for TestCall {
    fn display(&self) -> Display {
        Display::new(format!("plan of {}", self.name), ToolKind::Other)
    }

    fn access(&self) -> Vec<Access> {
        self.access.clone()
    }

    fn concurrency(&self) -> Concurrency {
        self.concurrency
    }

    async fn run(
        self: Box<Self>,
        _grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let text = (self.body)(context).await?;
        Ok(ToolOutcome {
            value: serde_json::Value::Null,
            content: vec![Content::text(text)],
            display: Display::new(format!("done {}", self.name), ToolKind::Other),
        })
    }
}

/// How many updates the client's side holds.
pub(crate) const UPDATES: usize = 64;

/// Everything around one driver.
pub(crate) struct Rig {
    pub(crate) model: ScriptedModel,
    pub(crate) clock: TestClock,
    pub(crate) approver: ScriptedApprover,
    pub(crate) agent: AgentHandle,
    pub(crate) updates: mpsc::Receiver<AgentUpdate>,
    store: Arc<MemoryStore>,
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
    }
}

impl Rig {
    pub(crate) fn new(tools: Vec<Arc<dyn Tool>>) -> Self {
        Self::with(tools, Mode::Ask, 20)
    }

    pub(crate) fn with(tools: Vec<Arc<dyn Tool>>, mode: Mode, max_steps: u32) -> Self {
        Self::start(tools, mode, max_steps, Some(route("one")))
    }

    /// A session whose large results go to this store.
    pub(crate) fn with_blobs(tools: Vec<Arc<dyn Tool>>, blobs: Arc<dyn BlobStore>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let session = Session::new(header());
        let writer = store.create(session.header()).unwrap();
        Self::launch(store, session, writer, |parts| {
            parts.tools = tools;
            parts.blobs = blobs;
        })
    }

    /// A session that chose no model, in a process whose source has none to offer.
    pub(crate) fn without_a_model() -> Self {
        Self::start(Vec::new(), Mode::Ask, 5, None)
    }

    fn start(tools: Vec<Arc<dyn Tool>>, mode: Mode, max_steps: u32, route: Option<Route>) -> Self {
        let store = Arc::new(MemoryStore::new());
        let session = Session::new(header());
        let writer = store.create(session.header()).unwrap();
        Self::launch(store, session, writer, |parts| {
            parts.tools = tools;
            parts.mode = mode;
            parts.max_steps = max_steps;
            parts.route = route;
        })
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
        let store = Arc::new(MemoryStore::new());
        let writer = store.create(session.header()).unwrap();
        for event in session.events() {
            writer.append(Arc::clone(event)).unwrap();
        }
        writer.flush().await.unwrap();
        drop(writer);
        let opened = store.open(&session.header().id).unwrap();
        Self::launch(store, opened.session, opened.writer, |_| {})
    }

    /// The session after its process ended, in one whose user allows these modes.
    pub(crate) async fn reopened(self, modes: &[Mode]) -> Self {
        self.agent.close().await;
        let opened = self.store.open(&self.id).unwrap();
        Self::launch(self.store, opened.session, opened.writer, |parts| {
            parts.modes = modes.to_vec();
        })
    }

    fn launch(
        store: Arc<MemoryStore>,
        session: Session,
        writer: LogWriter,
        change: impl FnOnce(&mut AgentParts),
    ) -> Self {
        let id = session.header().id.clone();
        let clock = TestClock::default();
        let model = ScriptedModel { clock: clock.clone(), ..ScriptedModel::default() };
        let approver = ScriptedApprover::default();
        let (sender, updates) = mpsc::channel(UPDATES);
        let mut parts = AgentParts {
            session,
            writer,
            blobs: Arc::clone(&store) as _,
            models: Arc::new(model.clone()),
            tools: Vec::new(),
            contexts: Vec::new(),
            system_prompt: "be good".to_owned(),
            approver: Arc::new(approver.clone()),
            updates: sender,
            clock: Arc::new(clock.clone()),
            tasks: TaskSet::new(),
            mode: Mode::Ask,
            modes: Mode::ALL.to_vec(),
            route: Some(route("one")),
            sandboxing: Sandboxing::Unavailable,
            max_steps: 5,
        };
        change(&mut parts);
        let agent = Agent::start(parts);
        Self { model, clock, approver, agent, updates, store, id }
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
            lines.push(line(&update));
        }
        panic!("the driver ended first: {lines:#?}");
    }

    pub(crate) async fn run(&mut self, id: &str) -> (Vec<String>, TurnOutcome) {
        self.prompt(id);
        self.until_end(id).await
    }

    /// What the store keeps under this name.
    pub(crate) fn blob(&self, blob: &BlobRef) -> Vec<u8> {
        self.store.get(blob).unwrap()
    }

    /// Closes the agent and reads its log back.
    pub(crate) async fn log(&mut self) -> Session {
        self.agent.close().await;
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
        AgentUpdate::ToolCall { id, status: at, display, .. } => {
            format!("call {id} {} {}", status(at), display.title)
        }
        AgentUpdate::ToolCallUpdate { id, status: at, display } => {
            let title = display.as_ref().map(|display| display.title.as_str());
            format!("call {id} {} {}", status(at), title.unwrap_or_default())
        }
        AgentUpdate::ToolProgress { id, text } => format!("progress {id} {text}"),
        AgentUpdate::Usage { used, size } => format!("usage {used}/{size}"),
        AgentUpdate::Title(title) => format!("title {title}"),
        AgentUpdate::Mode(mode) => format!("mode {}", mode.id()),
        AgentUpdate::Model(route) => format!("model {route}"),
        AgentUpdate::Notice { title, .. } => format!("notice {title}"),
        AgentUpdate::TurnEnded { prompt, outcome } => format!("end {prompt} {outcome:?}"),
    }
}

pub(crate) async fn ok(_context: ToolContext) -> Result<String, ToolFailure> {
    Ok("fine".to_owned())
}
