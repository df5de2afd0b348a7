//! SCHEMA-001 and SCHEMA-002: every client of these tests holds every message of the agent against
//! the schemas of the protocol. Here: that this would find a message that does not fit.

use bridle_tests::{Schema, skip};
use serde_json::{Value, json};

fn update(update: Value) -> Value {
    let params = json!({"sessionId": "s", "update": update});
    json!({"jsonrpc": "2.0", "method": "session/update", "params": params})
}

fn result(result: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "result": result})
}

/// Messages that fit, each with the method that a response answers.
fn fitting() -> Vec<(Option<&'static str>, Value)> {
    let text = json!({"type": "text", "text": "x"});
    let ask = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": [
        {"optionId": "o", "name": "Yes", "kind": "allow_once"}
    ]});
    vec![
        (None, update(json!({"sessionUpdate": "agent_message_chunk", "content": text}))),
        (None, update(json!({"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"}))),
        (None, update(json!({"sessionUpdate": "usage_update", "used": 1, "size": 2}))),
        (
            None,
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission",
            "params": ask}),
        ),
        (None, json!({"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 1}})),
        (Some("session/prompt"), result(json!({"stopReason": "end_turn"}))),
        (Some("session/new"), result(json!({"sessionId": "s", "_meta": {"any": 1}}))),
        (
            Some("session/new"),
            json!({"jsonrpc": "2.0", "id": 1,
            "error": {"code": -32000, "message": "m"}}),
        ),
    ]
}

/// Messages that break one rule each.
fn broken() -> Vec<(Option<&'static str>, Value)> {
    let ask = json!({"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": [
        {"optionId": "o", "name": "Yes", "kind": "allow_sometimes"}
    ]});
    vec![
        (None, update(json!({"sessionUpdate": "agent_message_chunk", "content": "text"}))),
        (None, update(json!({"sessionUpdate": "tool_call", "title": "x"}))),
        (None, update(json!({"sessionUpdate": "usage_update", "used": -1, "size": 2}))),
        (None, update(json!({"sessionUpdate": "current_mode_update", "modeId": "ask"}))),
        (
            None,
            json!({"jsonrpc": "2.0", "id": 1, "method": "session/request_permission",
            "params": ask}),
        ),
        (Some("session/prompt"), result(json!({"stopReason": "done"}))),
        (Some("session/new"), result(json!({"modes": null}))),
        (Some("session/new"), result(json!(null))),
        (Some("session/new"), json!({"jsonrpc": "2.0", "id": 1, "error": {"code": "-32000"}})),
    ]
}

#[test]
fn schema_001_a_message_that_does_not_fit_is_found() {
    let editions = [Some(Schema::pinned()), Schema::published()];
    if editions[1].is_none() {
        skip("published_schema", "not installed; tests/interop/install does it");
    }
    for schema in editions.into_iter().flatten() {
        for (method, message) in fitting() {
            assert_eq!(schema.breach(&message, method), None, "{message}");
        }
        for (method, message) in broken() {
            assert!(schema.breach(&message, method).is_some(), "{message}");
        }
    }
}

#[test]
fn schema_002_an_unknown_key_at_the_root_is_found() {
    for (method, mut message) in fitting() {
        let root = if method.is_none() { "params" } else { "result" };
        if message.get(root).is_none() {
            continue;
        }
        message[root]["invented"] = json!(1);
        assert!(Schema::pinned().breach(&message, method).is_some(), "{message}");
    }
    let invented = json!({"sessionUpdate": "usage_update", "used": 1, "size": 2, "left": 1});
    assert!(Schema::pinned().breach(&update(invented), None).is_some());
    let unknown = json!({"jsonrpc": "2.0", "method": "session/invented", "params": {}});
    assert!(Schema::pinned().breach(&unknown, None).is_some());
}
