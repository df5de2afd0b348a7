//! One ordered record of everything that was said in both directions, and the rules that hold in
//! every trace, whatever the test is about.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::Value;

use crate::schema::SchemaCheck;

/// Who said it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The client wrote it.
    ToAgent,
    /// The agent wrote it.
    FromAgent,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who said it.
    pub direction: Direction,
    /// The line without its end; lossy where it was not UTF-8.
    pub line: String,
    /// The line as JSON; null when it is none.
    pub message: Value,
}

/// All lines in the order in which the client wrote or read them.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The lines.
    pub entries: Vec<Entry>,
    pub(crate) stderr: String,
    pub(crate) ended: bool,
}

impl Entry {
    pub(crate) fn new(direction: Direction, bytes: &[u8]) -> Self {
        let line = String::from_utf8_lossy(bytes).trim_end_matches('\n').to_owned();
        let message = std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| serde_json::from_str(text).ok())
            .unwrap_or(Value::Null);
        Self { direction, line, message }
    }

    fn method(&self) -> Option<&str> {
        self.message["method"].as_str()
    }

    /// A breach with the line that is one.
    fn told(&self, what: &str) -> String {
        let short: String = self.line.chars().take(300).collect();
        format!("{what}: {short}")
    }

    fn session(&self) -> &str {
        self.message["params"]["sessionId"].as_str().unwrap_or_default()
    }
}

impl Trace {
    /// What the agent wrote, in order.
    pub fn from_agent(&self) -> impl Iterator<Item = &Value> {
        let said = self.entries.iter().filter(|entry| entry.direction == Direction::FromAgent);
        said.map(|entry| &entry.message)
    }

    /// The agent's requests and notifications with this method, whole messages.
    pub fn calls(&self, method: &str) -> Vec<Value> {
        self.from_agent().filter(|message| message["method"] == method).cloned().collect()
    }

    /// The agent's response to the client's request `id`.
    pub fn response(&self, id: &Value) -> Option<Value> {
        self.from_agent()
            .find(|message| message.get("method").is_none() && message.get("id") == Some(id))
            .cloned()
    }

    /// The `update` objects of a session, in order.
    pub fn updates(&self, session: &str) -> Vec<Value> {
        let calls = self.calls("session/update");
        let own = calls.into_iter().filter(|call| call["params"]["sessionId"] == session);
        own.map(|call| call["params"]["update"].clone()).collect()
    }

    /// The updates of a session of one kind.
    pub fn updates_of(&self, session: &str, kind: &str) -> Vec<Value> {
        let updates = self.updates(session);
        updates.into_iter().filter(|update| update["sessionUpdate"] == kind).collect()
    }

    /// The text of all message chunks of a session, joined.
    pub fn text(&self, session: &str) -> String {
        joined(&self.updates_of(session, "agent_message_chunk"))
    }

    /// The tool calls of a session in the order they appeared, each with its updates applied.
    pub fn tool_calls(&self, session: &str) -> Vec<Value> {
        let mut calls: Vec<Value> = Vec::new();
        for update in self.updates(session) {
            let known = calls.iter_mut().find(|call| call["toolCallId"] == update["toolCallId"]);
            match (update["sessionUpdate"].as_str(), known) {
                (Some("tool_call"), _) => calls.push(update),
                (Some("tool_call_update"), Some(call)) => merge(call, &update),
                _ => {}
            }
        }
        calls
    }

    /// What the program wrote to stderr.
    pub fn stderr(&self) -> &str {
        &self.stderr
    }

    /// Breaches of the rules that hold always: JSON-RPC only, one answer per request, nothing
    /// before its session is known or after its turn is over, every tool call with exactly one
    /// end, no client method that was not offered.
    pub fn breaches(&self) -> Vec<String> {
        let mut rules = Rules::default();
        for entry in &self.entries {
            match entry.direction {
                Direction::ToAgent => rules.client_said(entry),
                Direction::FromAgent => rules.agent_said(entry),
            }
        }
        rules.breaches
    }

    /// Messages of the agent that do not fit the protocol's schemas.
    pub fn schema_breaches(&self) -> Vec<String> {
        let mut check = SchemaCheck::default();
        let mut breaches = Vec::new();
        for entry in &self.entries {
            match entry.direction {
                Direction::ToAgent => check.client_said(&entry.message),
                Direction::FromAgent => {
                    breaches.extend(check.agent_said(&entry.message).map(|why| entry.told(&why)));
                }
            }
        }
        breaches
    }
}

/// The text of chunks, joined.
fn joined(chunks: &[Value]) -> String {
    chunks.iter().filter_map(|chunk| chunk["content"]["text"].as_str()).collect()
}

fn merge(call: &mut Value, update: &Value) {
    for (key, value) in update.as_object().into_iter().flatten() {
        if key != "sessionUpdate" {
            call[key] = value.clone();
        }
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for entry in &self.entries {
            let arrow = if entry.direction == Direction::ToAgent { "-->" } else { "<--" };
            let short: String = entry.line.chars().take(1_000).collect();
            writeln!(out, "{arrow} {short}")?;
        }
        write!(out, "stderr:\n{}", self.stderr)
    }
}

/// The state needed to judge a line by the lines before it.
#[derive(Default)]
struct Rules {
    breaches: Vec<String>,
    /// Open requests of the client: method and session.
    open: HashMap<String, (String, String)>,
    answered: HashSet<String>,
    known_sessions: HashSet<String>,
    /// Tool calls by session and id; true once they have ended.
    calls: HashMap<(String, String), bool>,
    /// What the client said that it can do.
    capabilities: Value,
}

impl Rules {
    /// Whether the client shows questions of this mode.
    fn shows(&self, mode: &Value) -> bool {
        mode.as_str().is_some_and(|mode| self.capabilities["elicitation"][mode].is_object())
    }

    fn breach(&mut self, what: &str, entry: &Entry) {
        self.breaches.push(entry.told(what));
    }

    fn client_said(&mut self, entry: &Entry) {
        let (Some(method), Some(id)) = (entry.method(), entry.message.get("id")) else { return };
        if method == "initialize" {
            self.capabilities = entry.message["params"]["clientCapabilities"].clone();
        }
        if matches!(method, "session/load" | "session/resume") {
            self.known_sessions.insert(entry.session().to_owned());
        }
        self.open.insert(id.to_string(), (method.to_owned(), entry.session().to_owned()));
    }

    fn agent_said(&mut self, entry: &Entry) {
        if !is_json_rpc(&entry.message) {
            return self.breach("stdout carries something that is not JSON-RPC 2.0", entry);
        }
        match entry.method() {
            None => self.response(entry),
            Some("session/update") => self.update(entry),
            Some("session/request_permission") => {
                if self.turn_of(entry.session()).is_none() {
                    self.breach("a question outside any turn", entry);
                }
            }
            Some("elicitation/create") if self.shows(&entry.message["params"]["mode"]) => {
                if self.turn_of(entry.session()).is_none() {
                    self.breach("a question outside any turn", entry);
                }
            }
            Some(method) if method.starts_with('_') || method == "$/cancel_request" => {}
            Some(_) => self.breach("a client method that was not offered", entry),
        }
    }

    fn response(&mut self, entry: &Entry) {
        let id = entry.message["id"].to_string();
        let Some((method, session)) = self.open.remove(&id) else {
            // Junk is answered with a null id; everything else must be asked for first.
            if id != "null" {
                self.breach("a response that nobody asked for", entry);
            }
            return;
        };
        if !self.answered.insert(id) {
            self.breach("a second response", entry);
        }
        if let Some(session) = entry.message["result"]["sessionId"].as_str() {
            self.known_sessions.insert(session.to_owned());
        }
        if method == "session/prompt" && self.turn_of(&session).is_none() {
            let open: Vec<String> = self
                .calls
                .iter()
                .filter(|((owner, _), ended)| *owner == session && !**ended)
                .map(|((_, call), _)| call.clone())
                .collect();
            if !open.is_empty() {
                self.breach(&format!("tool calls {open:?} have no end before the response"), entry);
            }
        }
    }

    fn update(&mut self, entry: &Entry) {
        let session = entry.session().to_owned();
        if !self.known_sessions.contains(&session) {
            self.breach("an update of a session that the client does not know yet", entry);
        }
        let update = &entry.message["params"]["update"];
        let kind = update["sessionUpdate"].as_str().unwrap_or_default();
        let in_turn = kind.ends_with("_chunk") || kind.starts_with("tool_call");
        if in_turn && self.turn_of(&session).is_none() {
            self.breach("a turn's update outside any turn", entry);
        }
        if kind.starts_with("tool_call") {
            self.tool_call(entry, session, kind, update);
        }
    }

    fn tool_call(&mut self, entry: &Entry, session: String, kind: &str, update: &Value) {
        let key = (session, update["toolCallId"].as_str().unwrap_or_default().to_owned());
        let known = self.calls.get(&key).copied();
        let ends = matches!(update["status"].as_str(), Some("completed" | "failed"));
        // A load replays calls that an earlier turn of the same connection has shown.
        let replays = self.is_loading(&key.0);
        match (kind, known) {
            ("tool_call", Some(_)) if !replays => self.breach("a tool call announced twice", entry),
            ("tool_call_update", None) => self.breach("an update of an unknown tool call", entry),
            ("tool_call_update", Some(true)) => self.breach("an update after its end", entry),
            _ => {}
        }
        self.calls.insert(key, ends);
    }

    fn is_loading(&self, session: &str) -> bool {
        self.open.values().any(|(method, of)| of == session && method == "session/load")
    }

    /// The method of the open prompt or load of a session.
    fn turn_of(&self, session: &str) -> Option<&str> {
        let turn = |method: &str| matches!(method, "session/prompt" | "session/load");
        let mut open = self.open.values();
        open.find(|(method, of)| of == session && turn(method)).map(|(method, _)| method.as_str())
    }
}

fn is_json_rpc(message: &Value) -> bool {
    let has = |key| message.get(key).is_some();
    let well_formed = if has("method") {
        message["method"].is_string() && !has("result") && !has("error")
    } else {
        let error = &message["error"];
        let is_error = error["code"].is_i64() && error["message"].is_string();
        has("id") && (has("result") != has("error")) && (has("result") || is_error)
    };
    message["jsonrpc"] == "2.0" && well_formed
}
