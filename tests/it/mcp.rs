//! Tools of MCP servers as a client and a model meet them. The server is scripted
//! (`tests/mcp-server`), with the defects of real ones.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Launch, Trace};
use serde_json::{Value, json};

use crate::scene::Scene;

mod asking;
mod calls;
mod configured;
mod figures;
mod http;
mod keys;
mod late;
mod limits;
mod lives;
mod names;
mod real;
mod resources;
mod resting;
mod sizes;
mod starts;
mod texts;

/// A session with scripted servers.
struct Imported {
    scene: Scene,
    client: Client,
    session: String,
}

/// The scripted server, as a client names it.
pub(crate) fn server(scene: &Scene, name: &str, modes: &[&str]) -> Value {
    let heard = scene.place.workspace().join(format!("heard-{name}"));
    json!({
        "name": name,
        "command": env!("CARGO_BIN_EXE_bridle-mcp-scripted"),
        "args": modes,
        "env": [
            {"name": "MCP_HEARD", "value": heard},
            {"name": "SERVER_TOKEN", "value": "given-by-the-client"},
        ],
    })
}

/// The names of the tools in the newest request.
fn offered(scene: &Scene) -> Vec<String> {
    let requests = scene.requests();
    let tools = requests.last().unwrap()["tools"].as_array().unwrap().clone();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

impl Imported {
    /// One server `s` in these modes.
    async fn new(script: Script, modes: &[&str]) -> Self {
        Self::with(script, &[("s", modes)]).await
    }

    async fn with(script: Script, servers: &[(&str, &[&str])]) -> Self {
        let scene = Scene::new(script).await;
        let servers: Value =
            servers.iter().map(|(name, modes)| server(&scene, name, modes)).collect();
        Self::open(scene, servers).await
    }

    /// A session with these servers.
    async fn open(scene: Scene, servers: Value) -> Self {
        let launch = scene.place.acp(&scene.model.url());
        Self::launched(scene, &launch, servers).await
    }

    /// A session of a process that is started like this.
    async fn launched(scene: Scene, launch: &Launch, servers: Value) -> Self {
        Self::continued(scene, Client::ready(launch).await, servers).await
    }

    /// A session of this client.
    async fn continued(scene: Scene, mut client: Client, servers: Value) -> Self {
        let new = json!({"cwd": scene.place.workspace(), "mcpServers": servers});
        let opened = client.request("session/new", new).await.ok();
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        Self { scene, client, session }
    }

    /// One prompt, in which the model calls a tool; what it reads of it.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.scene.model.push(Answer::new().tool_call(tool, arguments));
        self.scene.model.push(Answer::new().text("done"));
        let turn = self.client.prompt(&self.session, "go").await;
        assert_eq!(turn.stop_reason(), "end_turn");
        self.scene.last_results()
    }

    async fn say(&mut self) {
        self.scene.model.push(Answer::new().text("done"));
        self.client.prompt(&self.session, "go").await.ok();
    }

    /// The names of the tools in the newest request.
    fn offered(&self) -> Vec<String> {
        offered(&self.scene)
    }

    /// What the server `s` has heard.
    fn heard(&self) -> String {
        self.scene.place.read("heard-s")
    }

    /// Waits until so many servers are ready.
    async fn ready(&mut self, count: usize) {
        loop {
            let before = self.client.trace().text(&self.session).len();
            self.client.prompt(&self.session, "/mcp").await.ok();
            let told = self.client.trace().text(&self.session).split_off(before);
            if told.matches(": ready").count() == count {
                return;
            }
            assert!(!told.contains("failed") && !told.contains("resting"), "{told}");
        }
    }

    async fn notice(&self, text: &str) {
        let told = |trace: &Trace| trace.text(&self.session).contains(text).then_some(());
        self.client.wait_for(text, told).await;
    }
}
