//! Recorded and broken streams, without a network.

use expect_test::{Expect, expect};
use serde_json::json;

use super::*;
use crate::Secret;

/// Feeds events; the stream's own mistakes come back as the failure.
fn decode(events: &[Value]) -> Result<Vec<Chunk>, ModelFailure> {
    let key = Secret::new("");
    let asked = Asked { provider: "anthropic", model: "m", key: &key };
    let mut decoder = Decoder::new(100, HashMap::new());
    let mut chunks = VecDeque::new();
    for event in events {
        decoder.push(asked, format!("data: {event}\n\n").as_bytes(), &mut chunks)?;
    }
    Ok(chunks.into())
}

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "usage": {
        "input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100,
        "output_tokens": 1, "service_tier": "standard"}}})
}

fn block(index: u32, block: Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn delta(index: u32, delta: Value) -> Value {
    json!({"type": "content_block_delta", "index": index, "delta": delta})
}

fn end(index: u32) -> Value {
    json!({"type": "content_block_stop", "index": index})
}

fn tail(stop_reason: Value, output: u64) -> [Value; 2] {
    [
        json!({"type": "message_delta", "delta": {"stop_reason": stop_reason},
            "usage": {"output_tokens": output}}),
        json!({"type": "message_stop"}),
    ]
}

/// One whole answer around `blocks`.
fn answer(blocks: &[Value]) -> Vec<Value> {
    [&[start()], blocks, &tail(json!("end_turn"), 9)].concat()
}

fn blocks_of(events: &[Value]) -> Vec<Block> {
    let block = |chunk| match chunk {
        Chunk::BlockEnd { block, .. } => Some(block),
        _ => None,
    };
    decode(events).unwrap().into_iter().filter_map(block).collect()
}

fn check_blocks(blocks: &[Value], expected: Expect) {
    let lines = blocks_of(&answer(blocks));
    let lines: Vec<_> = lines.iter().map(|block| serde_json::to_string(block).unwrap()).collect();
    expected.assert_eq(&lines.join("\n"));
}

#[test]
fn an_answer_becomes_chunks_in_order() {
    let events = [
        start(),
        json!({"type": "ping"}),
        block(0, json!({"type": "thinking", "thinking": "", "signature": ""})),
        delta(0, json!({"type": "thinking_delta", "thinking": "Hm"})),
        delta(0, json!({"type": "signature_delta", "signature": "c2ln"})),
        end(0),
        block(1, json!({"type": "text", "text": ""})),
        delta(1, json!({"type": "text_delta", "text": "Hel"})),
        delta(1, json!({"type": "text_delta", "text": "lo"})),
        end(1),
        block(2, json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}})),
        delta(2, json!({"type": "input_json_delta", "partial_json": ""})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "{\"path\": 1.0"})),
        delta(2, json!({"type": "input_json_delta", "partial_json": "0}"})),
        end(2),
    ];
    let chunks = decode(&[&events[..], &tail(json!("tool_use"), 42)].concat()).unwrap();
    let lines: Vec<_> = chunks.iter().map(|chunk| format!("{chunk:?}")).collect();
    expect![[r#"
        Start { usage: Usage { input: 3, output: 1, cache_read: 100, cache_write: 20 } }
        BlockStart { index: 0, kind: Thinking }
        ThinkingDelta { index: 0, text: "Hm" }
        BlockEnd { index: 0, block: Thinking { text: "Hm", signature: Some("c2ln") } }
        BlockStart { index: 1, kind: Text }
        TextDelta { index: 1, text: "Hel" }
        TextDelta { index: 1, text: "lo" }
        BlockEnd { index: 1, block: Text { text: "Hello" } }
        BlockStart { index: 2, kind: ToolCall { id: ToolCallId("toolu_1"), name: "read" } }
        ArgumentsDelta { index: 2, json: "{\"path\": 1.0" }
        ArgumentsDelta { index: 2, json: "0}" }
        BlockEnd { index: 2, block: ToolCall { id: ToolCallId("toolu_1"), name: "read", arguments: "{\"path\": 1.00}" } }
        Usage(Usage { input: 3, output: 42, cache_read: 100, cache_write: 20 })
        Stop(ToolUse)"#]]
    .assert_eq(&lines.join("\n"));
}

#[test]
fn reasoning_is_kept_as_it_came() {
    check_blocks(
        &[
            block(0, json!({"type": "thinking", "thinking": "", "signature": "whole"})),
            end(0),
            block(1, json!({"type": "thinking", "thinking": "a", "signature": "in "})),
            delta(1, json!({"type": "signature_delta", "signature": "three "})),
            delta(1, json!({"type": "signature_delta", "signature": "parts"})),
            end(1),
            block(2, json!({"type": "thinking", "thinking": ""})),
            end(2),
            block(3, json!({"type": "redacted_thinking", "data": "b3BhcXVl"})),
            end(3),
        ],
        expect![[r#"
            {"type":"thinking","text":"","signature":"whole"}
            {"type":"thinking","text":"a","signature":"in three parts"}
            {"type":"thinking","text":""}
            {"type":"redacted_thinking","data":"b3BhcXVl"}"#]],
    );
}

#[test]
fn arguments_are_taken_from_wherever_the_server_puts_them() {
    check_blocks(
        &[
            block(0, json!({"type": "tool_use", "id": "a", "name": "t", "input": {}})),
            end(0),
            block(1, json!({"type": "tool_use", "id": "b", "name": "t", "input": {"x": 1}})),
            end(1),
            block(2, json!({"type": "tool_use", "id": "", "name": "t"})),
            delta(2, json!({"type": "input_json_delta", "partial_json": "{\"cut"})),
            end(2),
        ],
        expect![[r#"
            {"type":"tool_call","id":"a","name":"t","arguments":"{}"}
            {"type":"tool_call","id":"b","name":"t","arguments":"{\"x\":1}"}
            {"type":"tool_call","id":"msg_1_2","name":"t","arguments":"{\"cut"}"#]],
    );
}

#[test]
fn an_unknown_block_is_kept_byte_for_byte_but_for_its_streamed_input() {
    let raw =
        r#"{"type":"server_tool_use", "id":"s","input":{},"n":1.0,"big":12345678901234567890}"#;
    let started = format!(r#"{{"type":"content_block_start","index":0,"content_block":{raw}}}"#);
    let key = Secret::new("");
    let asked = Asked { provider: "anthropic", model: "m", key: &key };
    let raw_of = |deltas: &[Value]| {
        let mut decoder = Decoder::new(100, HashMap::new());
        let mut chunks = VecDeque::new();
        let events = deltas.iter().map(Value::to_string).chain([end(0).to_string()]);
        for event in [start().to_string(), started.clone()].into_iter().chain(events) {
            decoder.push(asked, format!("data: {event}\n\n").as_bytes(), &mut chunks).unwrap();
        }
        match chunks.pop_back() {
            Some(Chunk::BlockEnd { block: Block::Opaque { raw }, .. }) => raw.json().to_owned(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(raw_of(&[]), raw);
    let piece = |json| delta(0, json!({"type": "input_json_delta", "partial_json": json}));
    assert_eq!(
        raw_of(&[piece("{\"q\":"), piece(" 1.50}")]),
        r#"{"type":"server_tool_use","id":"s","input":{"q": 1.50},"n":1.0,"big":12345678901234567890}"#
    );
}

#[test]
fn what_a_block_does_not_keep_is_kept_beside_it() {
    let own_form = |blocks: &[Value]| {
        let chunks = decode(&answer(blocks)).unwrap();
        let form = chunks.iter().find_map(|chunk| match chunk {
            Chunk::OwnForm { raw, .. } => Some(raw.json().to_owned()),
            _ => None,
        });
        form.unwrap_or_default()
    };
    let citation = |cited: &str| {
        delta(0, json!({"type": "citations_delta", "citation": {"cited_text": cited, "n": 1.0}}))
    };
    let piece =
        |kind: &str, field: &str, piece: &str| delta(0, json!({"type": kind, field: piece}));
    let cited = [
        block(0, json!({"type": "text", "text": "", "citations": []})),
        piece("text_delta", "text", "Hel"),
        citation("a"),
        piece("text_delta", "text", "lo"),
        citation("b"),
        end(0),
    ];
    expect![[r#"{"type":"text","text":"Hello","citations":[{"cited_text":"a","n":1.0},{"cited_text":"b","n":1.0}]}"#]]
        .assert_eq(&own_form(&cited));
    let called = json!({"type": "tool_use", "id": "a", "name": "t", "input": {}, "caller": {"type": "direct"}});
    let arguments = piece("input_json_delta", "partial_json", "{\"x\": 1.0}");
    expect![[
        r#"{"type":"tool_use","id":"a","name":"t","input":{"x": 1.0},"caller":{"type":"direct"}}"#
    ]]
    .assert_eq(&own_form(&[block(0, called.clone()), arguments, end(0)]));
    let thought = json!({"type": "thinking", "thinking": "", "signature": "", "v": 2});
    expect![[r#"{"type":"thinking","thinking":"Hm","signature":"s","v":2}"#]].assert_eq(&own_form(
        &[
            block(0, thought),
            piece("thinking_delta", "thinking", "Hm"),
            piece("signature_delta", "signature", "s"),
            end(0),
        ],
    ));
    let broken = piece("input_json_delta", "partial_json", "{\"x");
    assert_eq!(own_form(&[block(0, called), broken, end(0)]), "", "it cannot go back as it came");
    let plain = json!({"type": "text", "text": "a", "citations": null});
    assert_eq!(own_form(&[block(0, plain), end(0)]), "");
}

#[test]
fn what_the_provider_says_of_a_refusal_is_kept() {
    let refused = |details: Value| {
        let stop = json!({"type": "message_delta", "usage": {"output_tokens": 1},
            "delta": {"stop_reason": "refusal", "stop_details": details}});
        let mut chunks = decode(&[start(), stop, json!({"type": "message_stop"})]).unwrap();
        assert!(matches!(chunks.pop(), Some(Chunk::Stop(StopReason::Refusal))));
        chunks.into_iter().find_map(|chunk| match chunk {
            Chunk::Refusal(refusal) => Some((refusal.category, refusal.explanation)),
            _ => None,
        })
    };
    let words = (Some("cyber".to_owned()), Some("No.".to_owned()));
    let details = json!({"type": "refusal", "category": "cyber", "explanation": "No.", "x": 1});
    assert_eq!(refused(details), Some(words));
    assert_eq!(refused(json!({"category": null})), Some((None, None)));
    assert_eq!(refused(json!("odd")), None);
    assert_eq!(refused(Value::Null), None);
}

#[test]
fn a_renamed_tool_is_called_by_its_own_name() {
    let key = Secret::new("");
    let asked = Asked { provider: "anthropic", model: "m", key: &key };
    let names = HashMap::from([("fs_read_1".to_owned(), "fs/read".to_owned())]);
    let mut decoder = Decoder::new(100, names);
    let mut chunks = VecDeque::new();
    for event in [
        start(),
        block(0, json!({"type": "tool_use", "id": "a", "name": "fs_read_1", "input": {}})),
        end(0),
    ] {
        decoder.push(asked, format!("data: {event}\n\n").as_bytes(), &mut chunks).unwrap();
    }
    let names: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| match chunk {
            Chunk::BlockStart { kind: crate::BlockKind::ToolCall { name, .. }, .. } => Some(name),
            Chunk::BlockEnd { block: Block::ToolCall { name, .. }, .. } => Some(name),
            _ => None,
        })
        .collect();
    assert_eq!(names, ["fs/read", "fs/read"]);
}

#[test]
fn what_is_unknown_is_ignored() {
    let known = [block(0, json!({"type": "text", "text": "a"})), end(0)];
    let with_unknown = [
        json!({"type": "future_event", "index": 7, "error": 3, "delta": [], "message": null}),
        known[0].clone(),
        delta(0, json!({"type": "future_delta", "text": {"not": "a string"}})),
        known[1].clone(),
    ];
    let count = |blocks: &[Value]| decode(&answer(blocks)).unwrap().len();
    assert_eq!(count(&with_unknown), count(&known));
}

#[test]
fn the_stop_reason_is_the_word_that_the_data_bears_out() {
    let call = |arguments: &str| {
        vec![
            block(0, json!({"type": "tool_use", "id": "a", "name": "t", "input": {}})),
            delta(0, json!({"type": "input_json_delta", "partial_json": arguments})),
            end(0),
        ]
    };
    let stop = |blocks: Vec<Value>, reason: Value, output| {
        let events = [vec![start()], blocks, tail(reason, output).to_vec()].concat();
        match decode(&events).unwrap().pop() {
            Some(Chunk::Stop(reason)) => reason,
            other => panic!("{other:?}"),
        }
    };
    for (word, reason) in [
        ("end_turn", StopReason::EndTurn),
        ("stop_sequence", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("pause_turn", StopReason::Pause),
        ("refusal", StopReason::Refusal),
        ("model_context_window_exceeded", StopReason::ContextFull),
        ("tool_use", StopReason::EndTurn),
        ("something_new", StopReason::EndTurn),
    ] {
        assert_eq!(stop(Vec::new(), json!(word), 9), reason, "{word} without calls");
    }
    assert_eq!(stop(Vec::new(), Value::Null, 9), StopReason::EndTurn);
    assert_eq!(stop(call("{}"), json!("tool_use"), 9), StopReason::ToolUse);
    assert_eq!(stop(call("{}"), json!("end_turn"), 9), StopReason::ToolUse);
    assert_eq!(stop(call("{}"), json!("max_tokens"), 100), StopReason::MaxTokens);
    assert_eq!(stop(call("{\"cut"), json!("tool_use"), 100), StopReason::MaxTokens);
    assert_eq!(stop(call("{\"bad"), json!("tool_use"), 99), StopReason::ToolUse);
}

#[test]
fn counts_may_be_missing_or_null() {
    let events = [
        json!({"type": "message_start", "message": {"usage": null}}),
        json!({"type": "message_delta", "delta": {}, "usage": {"output_tokens": null}}),
        json!({"type": "message_delta", "delta": {"stop_reason": null}}),
        json!({"type": "message_stop"}),
        json!({"type": "error", "error": {}}),
    ];
    let chunks = decode(&events).unwrap();
    assert!(matches!(chunks.last(), Some(Chunk::Stop(StopReason::EndTurn))), "{chunks:?}");
}

#[test]
fn a_stream_that_contradicts_itself_is_malformed() {
    let text = || block(0, json!({"type": "text", "text": ""}));
    let cases = [
        vec![delta(0, json!({"type": "text_delta", "text": "x"}))],
        vec![end(0)],
        vec![text(), text()],
        vec![text(), delta(0, json!({"type": "input_json_delta", "partial_json": "{"}))],
        vec![text(), delta(0, json!({"type": "text_delta"}))],
        vec![text(), delta(0, json!({"type": "text_delta", "text": 1}))],
        vec![text(), json!({"type": "content_block_delta", "index": 0})],
        vec![json!({"type": "content_block_start", "content_block": {"type": "text"}})],
        vec![json!({"type": "content_block_start", "index": 0})],
        vec![text(), json!({"type": "message_stop"})],
        vec![json!(1)],
        vec![json!([])],
    ];
    for case in cases {
        let failure = decode(&[vec![start()], case.clone()].concat()).unwrap_err();
        assert_eq!(failure.code, FailureCode::MalformedResponse, "{case:?}");
    }
    let failure = decode(&tail(json!("end_turn"), 1)).unwrap_err();
    assert_eq!(failure.code, FailureCode::MalformedResponse, "no start");
}

#[test]
fn a_malformed_stream_is_not_quoted() {
    let secret = json!({"type": "content_block_stop", "index": "MARKER"});
    let failure = decode(&[start(), secret]).unwrap_err();
    assert!(!failure.message.contains("MARKER"), "{failure}");
    assert!(failure.message.ends_with("an unexpected shape at column 45"), "{failure}");
}

#[test]
fn too_many_blocks_are_refused() {
    let mut events = vec![start()];
    for index in 0..=u32::try_from(MAX_BLOCKS).unwrap() {
        events.extend([block(index, json!({"type": "text"})), end(index)]);
    }
    assert_eq!(decode(&events).unwrap_err().code, FailureCode::MalformedResponse);
}
