//! A client that writes lines and checks each line it reads.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bridle_compose::{Clock, Sleep, SystemClock, TaskSet};
use bridle_model_server::{ModelServer, Script};
use bridle_tests::SchemaCheck;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{
    AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, DuplexStream, ReadHalf, WriteHalf,
};
use tokio::task::JoinHandle;

use crate::acp::handlers::Server;
use crate::acp::serve::serve_with;
use crate::composition::App;
use crate::config::{Environment, Overrides};

/// What a pipe holds before its writer must wait.
const PIPE: usize = 64 * 1024;

/// A place for sessions and a workspace, kept over restarts of the agent.
pub(super) struct Place {
    root: TempDir,
    home: Option<PathBuf>,
}

impl Place {
    pub(super) fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let home = Some(root.path().join("home"));
        let place = Self { root, home };
        fs_err::create_dir(place.workspace()).unwrap();
        place
    }

    /// As [`Self::new`], with another home for the agent, or none at all.
    pub(super) fn with_home(home: Option<PathBuf>) -> Self {
        Self { home, ..Self::new() }
    }

    /// The folder of the agent's own files.
    pub(super) fn home(&self) -> &Path {
        self.home.as_deref().unwrap()
    }

    pub(super) fn workspace(&self) -> PathBuf {
        fs_err::canonicalize(self.root.path()).unwrap().join("workspace")
    }

    async fn app(&self, model: Option<&ModelServer>) -> App {
        let home = self.home.iter().map(|home| ("BRIDLE_HOME".into(), home.into()));
        let mut plain: Vec<_> = home.collect();
        let mut secrets = Vec::new();
        if let Some(model) = model {
            plain.push(("ANTHROPIC_BASE_URL".into(), model.url().into()));
            secrets.push(("ANTHROPIC_API_KEY".to_owned(), "test-key".to_owned()));
        }
        App::compose(Environment::new(plain, secrets), Overrides::default()).await
    }
}

/// A clock whose waits are over at once.
pub(super) struct NoWaiting;

impl Clock for NoWaiting {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(tokio::task::yield_now())
    }
}

/// A clock that stands still: nothing that waits for it goes on.
pub(super) struct Frozen;

impl Clock for Frozen {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, _: Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}

/// See the module.
pub(super) struct TestClient {
    input: Option<WriteHalf<DuplexStream>>,
    output: Option<BufReader<ReadHalf<DuplexStream>>>,
    pub(super) server: Arc<Server>,
    pub(super) served: JoinHandle<anyhow::Result<()>>,
    next_id: i64,
    /// SCHEMA-001 and SCHEMA-002: every message that is read fits the protocol's schemas.
    schema: SchemaCheck,
    /// Everything read, in order.
    pub(super) trace: Vec<Value>,
}

impl TestClient {
    /// A client of a fresh agent, before `initialize`.
    pub(super) async fn connect(place: &Place, model: Option<&ModelServer>) -> Self {
        Self::connect_at(Arc::new(SystemClock), place, model).await
    }

    /// As [`Self::connect`], with the clock that measures the patience with a leaving client.
    pub(super) async fn connect_at(
        clock: Arc<dyn Clock>,
        place: &Place,
        model: Option<&ModelServer>,
    ) -> Self {
        let server = Arc::new(Server::new(Arc::new(place.app(model).await), clock));
        let (near, far) = tokio::io::duplex(PIPE);
        let (far_read, far_write) = tokio::io::split(far);
        let served = TaskSet::new().spawn(serve_with(server.clone(), far_read, far_write));
        let (read, write) = tokio::io::split(near);
        Self {
            input: Some(write),
            output: Some(BufReader::new(read)),
            server,
            served,
            next_id: 0,
            schema: SchemaCheck::default(),
            trace: Vec::new(),
        }
    }

    /// As [`Self::connect`], after `initialize`.
    pub(super) async fn ready(place: &Place, model: Option<&ModelServer>) -> Self {
        let mut client = Self::connect(place, model).await;
        client.initialize().await;
        client
    }

    pub(super) async fn initialize(&mut self) {
        self.initialize_as(json!({})).await;
    }

    /// As [`Self::initialize`], with what the client says of itself.
    pub(super) async fn initialize_as(&mut self, client: Value) -> Value {
        let mut params = json!({"protocolVersion": 1});
        params.as_object_mut().unwrap().extend(client.as_object().unwrap().clone());
        let answer = self.call("initialize", params).await;
        assert_eq!(answer["result"]["protocolVersion"], 1);
        answer["result"].clone()
    }

    /// A client with one session whose set-up updates have been read.
    pub(super) async fn with_session(place: &Place, model: &ModelServer) -> (Self, String) {
        let mut client = Self::ready(place, Some(model)).await;
        let id = client.new_session(&place.workspace()).await;
        (client, id)
    }

    pub(super) async fn new_session(&mut self, cwd: &Path) -> String {
        let answer = self.call("session/new", json!({"cwd": cwd, "mcpServers": []})).await;
        let id = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
        let commands = self.update().await;
        assert_eq!(commands["sessionUpdate"], "available_commands_update");
        id
    }

    /// A request's line and its id, unsent.
    pub(super) fn request(&mut self, method: &str, params: Value) -> (i64, String) {
        self.next_id += 1;
        let id = self.next_id;
        let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        (id, format!("{line}\n"))
    }

    pub(super) async fn raw(&mut self, bytes: impl AsRef<[u8]>) {
        for line in bytes.as_ref().split(|byte| *byte == b'\n') {
            self.schema.client_said(&serde_json::from_slice(line).unwrap_or_default());
        }
        self.input.as_mut().unwrap().write_all(bytes.as_ref()).await.unwrap();
    }

    pub(super) async fn send(&mut self, method: &str, params: Value) -> i64 {
        let (id, line) = self.request(method, params);
        self.raw(line).await;
        id
    }

    pub(super) async fn notify(&mut self, method: &str, params: Value) {
        let line = json!({"jsonrpc": "2.0", "method": method, "params": params});
        self.raw(format!("{line}\n")).await;
    }

    pub(super) async fn cancel(&mut self, session: &str) {
        self.notify("session/cancel", json!({"sessionId": session})).await;
    }

    pub(super) async fn prompt(&mut self, session: &str, text: &str) -> i64 {
        self.send("session/prompt", prompt_params(session, text)).await
    }

    /// Reads one line; `None` at the end of the output. Every line is a JSON-RPC message.
    pub(super) async fn try_next(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.output.as_mut().unwrap().read_line(&mut line).await.unwrap() == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).expect("a line of JSON");
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        let answers = [message.get("result").is_some(), message.get("error").is_some()];
        match message.get("method") {
            Some(method) => assert!(method.is_string() && answers == [false, false], "{message}"),
            None => {
                assert!(message.get("id").is_some() && answers[0] != answers[1], "{message}");
            }
        }
        if let Some(error) = message.get("error") {
            let text = error["message"].as_str().unwrap();
            assert!(error["code"].is_i64() && !text.is_empty() && !text.contains('\n'), "{error}");
        }
        assert_eq!(self.schema.agent_said(&message), None, "{message}");
        self.trace.push(message.clone());
        Some(message)
    }

    pub(super) async fn next(&mut self) -> Value {
        self.try_next().await.expect("the agent still writes")
    }

    /// Reads until the answer to `id`, leaving what came before in the trace.
    pub(super) async fn answer(&mut self, id: impl Into<Value>) -> Value {
        let id = id.into();
        loop {
            let message = self.next().await;
            if message.get("method").is_none() && message["id"] == id {
                return message;
            }
        }
    }

    /// Reads until a message with this method.
    pub(super) async fn incoming(&mut self, method: &str) -> Value {
        loop {
            let message = self.next().await;
            assert!(message.get("error").is_none(), "instead of {method}: {message}");
            if message["method"] == method {
                return message;
            }
        }
    }

    /// Reads until a session update.
    pub(super) async fn update(&mut self) -> Value {
        self.incoming("session/update").await["params"]["update"].clone()
    }

    pub(super) async fn call(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params).await;
        self.answer(id).await
    }

    /// The stop reason of a prompt.
    pub(super) async fn stop(&mut self, prompt: i64) -> String {
        let answer = self.answer(prompt).await;
        answer["result"]["stopReason"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The texts of one kind of chunk in the trace, joined.
    pub(super) fn text_of(&self, session: &str, kind: &str) -> String {
        self.updates_of(session)
            .filter(|update| update["sessionUpdate"] == kind)
            .filter_map(|update| update["content"]["text"].as_str())
            .collect()
    }

    pub(super) fn updates_of(&self, session: &str) -> impl Iterator<Item = &Value> {
        self.trace
            .iter()
            .filter(move |message| message["params"]["sessionId"] == session)
            .filter_map(|message| message["params"].get("update"))
    }

    /// Waits, without reading, until the agent has no credit left.
    pub(super) async fn out_of_credits(&self) {
        // Far more turns of the loop than it takes, so that a missing limit fails and never hangs.
        for _ in 0..10_000_000 {
            if !self.server.credits.has_room() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("the agent never ran out of credits: {:?}", self.server.credits);
    }

    /// Closes the input.
    pub(super) async fn end_input(&mut self) {
        if let Some(mut input) = self.input.take() {
            input.shutdown().await.unwrap();
        }
    }

    /// Stops reading for good.
    pub(super) fn drop_pipes(&mut self) {
        self.input = None;
        self.output = None;
    }

    /// Leaves as a client does, and waits until the agent is gone. What it still writes is in the
    /// trace.
    pub(super) async fn leave(mut self) -> Vec<Value> {
        self.end_input().await;
        while self.try_next().await.is_some() {}
        self.served.await.unwrap().unwrap();
        self.trace
    }
}

pub(super) fn prompt_params(session: &str, text: &str) -> Value {
    json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]})
}

pub(super) async fn model(script: Script) -> ModelServer {
    ModelServer::start(script).await.unwrap()
}
