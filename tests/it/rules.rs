//! The rules that hold in every trace find what breaks them. Many requirements of the conformance
//! registry are such rules, so that every test shows them; the registry itself is checked here.

use std::collections::BTreeSet;

use bridle_tests::{Direction, Entry, Trace};
use serde_json::{Value, json};

use crate::repository::tracked;

/// Every requirement of the registry that an agent can pass or fail.
const REGISTRY: [(&str, u32); 26] = [
    ("transport", 2),
    ("jsonrpc", 5),
    ("init", 4),
    ("schema", 2),
    ("session", 2),
    ("prompt", 3),
    ("cancel", 2),
    ("load", 3),
    ("resume", 2),
    ("list", 2),
    ("delete", 2),
    ("close", 2),
    ("adddirs", 1),
    ("modes", 2),
    ("config", 3),
    ("promptcap", 3),
    ("auth", 5),
    ("clientcap", 3),
    ("ext", 1),
    ("meta", 1),
    ("error", 1),
    ("shutdown", 1),
    ("stderr", 1),
    ("parse", 1),
    ("invalidreq", 1),
    ("unknownsession", 1),
];

/// The requirements in the name of a test: `a_001_002` and `a_001_to_003` name several of `a`.
fn named(test: &str) -> Vec<(String, u32)> {
    let mut found: Vec<(String, u32)> = Vec::new();
    let (mut group, mut is_range) = ("", false);
    for word in test.split('_') {
        match word.parse::<u32>() {
            Ok(number) if word.len() == 3 => {
                let first = match found.last() {
                    Some((_, last)) if is_range => last + 1,
                    _ => number,
                };
                found.extend((first..=number).map(|number| (group.to_owned(), number)));
                is_range = false;
            }
            _ if word == "to" => is_range = true,
            _ => group = word,
        }
    }
    found
}

#[test]
fn every_requirement_of_the_registry_is_a_test() {
    let mut tests = BTreeSet::new();
    for file in tracked().into_iter().filter(|file| file.path.starts_with("tests/it/")) {
        let lines = file.text().unwrap_or_default().lines().map(str::trim_start);
        let names = lines.filter_map(|line| {
            line.strip_prefix("async fn ").or_else(|| line.strip_prefix("fn "))?.split('(').next()
        });
        tests.extend(names.flat_map(named));
    }
    let mut missing = Vec::new();
    for (group, count) in REGISTRY {
        let wanted = (1..=count).map(|number| (group.to_owned(), number));
        missing.extend(wanted.filter(|one| !tests.contains(one)));
    }
    assert_eq!(missing, [], "no test of tests/it is named after these");
}

/// A session that is known, with a prompt on its way.
fn in_turn() -> Vec<(Direction, Value)> {
    use Direction::{FromAgent, ToAgent};
    vec![
        (ToAgent, json!({"jsonrpc": "2.0", "id": 1, "method": "session/new", "params": {}})),
        (FromAgent, json!({"jsonrpc": "2.0", "id": 1, "result": {"sessionId": "s"}})),
        (
            ToAgent,
            json!({"jsonrpc": "2.0", "id": 2, "method": "session/prompt",
                "params": {"sessionId": "s"}}),
        ),
    ]
}

fn stopped() -> Value {
    json!({"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn"}})
}

fn update(session: &str, update: Value) -> Value {
    let params = json!({"sessionId": session, "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

fn chunk(session: &str) -> Value {
    update(session, json!({"sessionUpdate": "agent_message_chunk"}))
}

fn tool(kind: &str, status: &str) -> Value {
    update("s", json!({"sessionUpdate": kind, "toolCallId": "t", "status": status}))
}

/// The breaches of a turn in which the agent says this.
fn breaches(said: impl IntoIterator<Item = Value>) -> Vec<String> {
    let said = said.into_iter().map(|message| (Direction::FromAgent, message));
    let entry =
        |(direction, message): (_, Value)| Entry { direction, line: message.to_string(), message };
    let mut trace = Trace::default();
    trace.entries.extend(in_turn().into_iter().chain(said).map(entry));
    trace.breaches()
}

#[test]
fn a_turn_that_keeps_the_rules_has_no_breach() {
    let said = [chunk("s"), tool("tool_call", "pending"), tool("tool_call_update", "completed")];
    assert_eq!(breaches(said.into_iter().chain([stopped()])), [] as [String; 0]);
}

#[test]
fn jsonrpc_001_to_003_a_wrong_answer_is_found() {
    let wrong = [
        json!({"id": 2, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 2}),
        json!({"jsonrpc": "2.0", "id": 2, "result": {}, "error": {"code": 1, "message": "m"}}),
        json!({"jsonrpc": "2.0", "id": 2, "error": {"code": "1", "message": "m"}}),
        json!({"jsonrpc": "2.0", "id": "2", "result": {}}),
        json!({"jsonrpc": "2.0", "id": 7, "result": {}}),
        json!({"jsonrpc": "2.0", "method": 7}),
        json!("text"),
        Value::Null,
    ];
    for message in wrong {
        assert_eq!(breaches([message.clone()]).len(), 1, "{message}");
    }
    assert_eq!(breaches([stopped(), stopped()]).len(), 1, "a second answer");
}

#[test]
fn clientcap_001_to_003_a_method_that_was_not_offered_is_found() {
    let methods =
        ["fs/read_text_file", "fs/write_text_file", "terminal/create", "elicitation/create"];
    for method in methods {
        let call = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": {}});
        assert_eq!(breaches([call]).len(), 1, "{method}");
    }
}

#[test]
fn prompt_002_cancel_002_an_update_at_the_wrong_place_is_found() {
    let wrong: [(&str, Vec<Value>); 6] = [
        ("of an unknown session", vec![chunk("x"), stopped()]),
        ("after the response", vec![stopped(), chunk("s")]),
        (
            "a call announced twice",
            vec![tool("tool_call", "pending"), tool("tool_call", "completed"), stopped()],
        ),
        ("a call that nobody announced", vec![tool("tool_call_update", "completed"), stopped()]),
        (
            "after the end of its call",
            vec![tool("tool_call", "completed"), tool("tool_call_update", "failed"), stopped()],
        ),
        ("a call without an end", vec![tool("tool_call", "pending"), stopped()]),
    ];
    for (what, said) in wrong {
        assert!(!breaches(said).is_empty(), "{what}");
    }
}
