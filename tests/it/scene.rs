//! What nearly every suite starts from: a place, a model server with a script, and a client.

use bridle_model_server::{Answer, Gate, ModelServer, Recorded, Script};
use bridle_tests::{Client, Place};
use serde_json::{Value, json};

/// A place and its model.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) model: ModelServer,
}

impl Scene {
    pub(crate) async fn new(script: Script) -> Self {
        let model = ModelServer::start(script).await.expect("loopback is there");
        Self { place: Place::new(), model }
    }

    /// An initialized agent.
    pub(crate) async fn client(&self) -> Client {
        Client::ready(&self.place.acp(&self.model.url())).await
    }

    /// An initialized agent with an open session.
    pub(crate) async fn session(&self) -> (Client, String) {
        Client::in_session(&self.place, &self.place.acp(&self.model.url())).await
    }

    /// The bodies of the requests so far.
    pub(crate) fn requests(&self) -> Vec<Value> {
        self.model.requests().into_iter().map(|Recorded { body, .. }| body).collect()
    }

    /// The tool results of the newest request, joined as text.
    pub(crate) fn last_results(&self) -> String {
        let requests = self.requests();
        let messages = requests.last().expect("a request")["messages"].clone();
        let last = messages.as_array().and_then(|all| all.last()).cloned().unwrap_or_default();
        let blocks = last["content"].as_array().cloned().unwrap_or_default();
        let results = blocks.iter().filter(|block| block["type"] == "tool_result");
        results.map(|result| result["content"].to_string()).collect::<Vec<_>>().join("\n")
    }

    /// Asserts that no request broke a rule of the provider.
    pub(crate) fn assert_lawful(&self) {
        assert_eq!(self.model.violations(), [], "the model refused a request");
    }

    /// The events of a stored session, one JSON value each, the header first.
    pub(crate) fn log(&self, session: &str) -> Vec<Value> {
        let folder = self.place.sessions().join(session);
        let bytes = fs_err::read(folder.join("events.v1.jsonl.zst")).expect("a stored log");
        let text = zstd::decode_all(bytes.as_slice()).expect("whole frames");
        let lines = std::str::from_utf8(&text).expect("UTF-8").lines();
        lines.map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// The events of one type.
    pub(crate) fn events(&self, session: &str, kind: &str) -> Vec<Value> {
        self.log(session).into_iter().filter(|event| event["type"] == kind).collect()
    }
}

/// A script that calls one tool and then says "done".
pub(crate) fn call_then_done(tool: &str, arguments: Value) -> Script {
    Script::new().reply(Answer::new().tool_call(tool, arguments)).reply(Answer::new().text("done"))
}

/// A script that reads and then edits one file, and then says "done".
pub(crate) fn read_edit_then_done(path: &str, edits: Value) -> Script {
    let calls = Answer::new()
        .tool_call("read", json!({"path": path}))
        .tool_call("edit", json!({"path": path, "edits": edits}));
    Script::new().reply(calls).reply(Answer::new().text("done"))
}

/// The arguments of a shell call whose process carries the mark and never ends by itself.
pub(crate) fn endless(place: &Place) -> Value {
    let mark = place.mark();
    json!({"command": format!("echo started > started-{mark}; exec sleep 86400")})
}

/// Waits until an answer stands at the gate.
pub(crate) async fn reached(gate: &Gate) {
    tokio::time::timeout(bridle_tests::DEADLINE, gate.reached()).await.expect("no request comes");
}
