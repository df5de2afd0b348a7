//! Lines as a client may send them, and what the SDK gets to see of them.

use futures::{FutureExt as _, StreamExt as _};
use serde_json::json;

use super::*;
use crate::acp::credit::Credits;
use crate::acp::outbound::write_lines;

/// Feeds `input` through a fresh reader whose handshake is done unless `fresh`; returns the lines
/// for the SDK and the answers. One request of ours, "q", is open.
async fn feed(input: &[u8], fresh: bool) -> (Vec<Value>, Vec<Value>) {
    let ledger = Arc::new(Ledger::new());
    ledger.ask(json!("q"));
    if !fresh {
        ledger.set_handshake(Handshake::Done);
    }
    let (outbound, lines) = Outbound::channel(ledger.clone());
    let inbound = Inbound::new(std::io::Cursor::new(input.to_vec()), outbound, ledger.clone());
    let mut written = Vec::new();
    let (forwarded, result) = futures::join!(
        inbound.into_stream().map(|line| line.unwrap()).collect::<Vec<_>>(),
        write_lines(lines, &mut written, Arc::new(Credits::default()), ledger),
    );
    result.unwrap();
    let parse = |line: &str| serde_json::from_str(line).unwrap();
    let answers = std::str::from_utf8(&written).unwrap().lines().map(parse).collect();
    (forwarded.iter().map(|line| parse(line)).collect(), answers)
}

fn codes(answers: &[Value]) -> Vec<(Value, i64)> {
    answers
        .iter()
        .map(|answer| (answer["id"].clone(), answer["error"]["code"].as_i64().unwrap()))
        .collect()
}

#[tokio::test]
async fn every_malformed_line_has_one_error_and_the_rest_goes_on() {
    let null = Value::Null;
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let request_of_deep =
        format!(r#"{{"jsonrpc":"2.0","method":"x","params":{{"a":{deep}}},"id":5}}"#);
    let cases: Vec<(&[u8], Value, i64)> = vec![
        (b"garbage", null.clone(), -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"meth", null.clone(), -32700),
        (b"\xff\xfe{}", null.clone(), -32700),
        (deep.as_bytes(), null.clone(), -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"cut\",\"method\":\"x\",\"par", json!("cut"), -32700),
        (request_of_deep.as_bytes(), json!(5), -32700),
        (b"{\"id\":6,\"method\":\"x\",\"params\":{\"a\":\"\xc3\x28\"}}", json!(6), -32700),
        (b"42", null.clone(), -32600),
        (b"\"text\"", null.clone(), -32600),
        (b"null", null.clone(), -32600),
        (b"[]", null.clone(), -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\"}]", null.clone(), -32600),
        (b"{}", null.clone(), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":7}", json!(7), -32600),
        (b"{\"id\":8,\"method\":\"x\"}", json!(8), -32600),
        (b"{\"jsonrpc\":\"1.0\",\"id\":\"s\",\"method\":\"x\"}", json!("s"), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":9,\"method\":5}", json!(9), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"x\"}", null.clone(), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"x\"}", null.clone(), -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":10,\"method\":\"x\",\"params\":3}", json!(10), -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":11,\"method\":\"x\",\"params\":[1]}", json!(11), -32602),
        (b"{\"jsonrpc\":\"2.0\",\"id\":12,\"method\":\"x\",\"result\":1}", json!(12), -32600),
    ];
    let mut input = Vec::new();
    for (number, (line, ..)) in cases.iter().enumerate() {
        input.extend_from_slice(line);
        let ping = json!({"jsonrpc": "2.0", "id": format!("p{number}"), "method": "_ping"});
        input.extend_from_slice(format!("\n{ping}\r\n\n").as_bytes());
    }
    let (forwarded, answers) = feed(&input, false).await;
    let expected: Vec<_> = cases.iter().map(|(_, id, code)| (id.clone(), *code)).collect();
    assert_eq!(codes(&answers), expected);
    let pings: Vec<_> = forwarded.iter().map(|line| line["id"].clone()).collect();
    assert_eq!(pings, (0..cases.len()).map(|n| json!(format!("p{n}"))).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_never_answered_is_dropped_in_silence() {
    let input = br#"
{"jsonrpc":"2.0","method":"_note","params":[1]}
{"jsonrpc":"2.0","method":"_note","params":null}
{"jsonrpc":"2.0","result":1}
{"jsonrpc":"2.0","id":1.5,"result":1}
"#;
    assert_eq!(feed(input, false).await, (vec![], vec![]));
}

#[tokio::test]
async fn every_answer_of_the_client_reaches_its_question() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let yes = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let refusal = json!({"code": -32603, "message": "no window"});
    let understood = [
        (json!({"result": yes}), json!({"result": yes})),
        (json!({"result": yes, "error": null, "x": 1}), json!({"result": yes})),
        (json!({"result": null}), json!({"result": null})),
        (json!({"result": null, "error": null}), json!({"result": null})),
        (json!({"error": refusal}), json!({"error": refusal})),
        (json!({"result": null, "error": refusal}), json!({"error": refusal})),
    ];
    for (answer, expected) in understood {
        let mut answer = answer.as_object().unwrap().clone();
        answer.extend([("jsonrpc".to_owned(), json!("2.0")), ("id".to_owned(), json!("q"))]);
        let (forwarded, answers) = feed(json!(answer).to_string().as_bytes(), false).await;
        assert_eq!((forwarded.len(), answers.len()), (1, 0));
        assert_eq!(forwarded[0]["id"], "q");
        for member in ["result", "error"] {
            assert_eq!(forwarded[0].get(member), expected.get(member), "{}", forwarded[0]);
        }
    }
    let long = format!(r#""{}""#, "x".repeat(MAX_LINE));
    for rest in [
        r#""error":null"#,
        r#""error":"no""#,
        r#""error":{"message":"no code"}"#,
        r#""error":{"code":"-1","message":"no"}"#,
        r#""error":{"code":4294967296,"message":"no"}"#,
        r#""result":{},"error":{"code":-1,"message":"no"}"#,
        r#""result":{},"method":"session/request_permission""#,
        r#""result":{"#,
        r#""result""#,
        r#""outcome":"allow""#,
        r#""jsonrpc":"1.0","result":{}"#,
        &format!(r#""result":{deep}"#),
        &format!(r#""result":{long}"#),
    ] {
        let line = format!(r#"{{"jsonrpc":"2.0","id":"q",{rest}}}"#);
        let shown = line.get(..100).unwrap_or(&line);
        let (forwarded, answers) = feed(line.as_bytes(), false).await;
        assert_eq!((forwarded.len(), answers.len()), (1, 0), "{shown}");
        assert_eq!(forwarded[0]["id"], "q", "{shown}");
        assert_eq!(forwarded[0]["error"]["code"], -32600, "{shown}");
    }
}

#[tokio::test]
async fn half_a_character_becomes_a_replacement_character() {
    for (sent, read) in [
        (r"a\ud83d", "a\u{fffd}"),
        (r"\ude42b", "\u{fffd}b"),
        (r"\ud83d\ud83d\ude42", "\u{fffd}🙂"),
        (r"\uD83DA\u0041", "\u{fffd}AA"),
        (r"\\ud83d\ud83d\\", "\\ud83d\u{fffd}\\"),
        (r"ä\ud83dö", "ä\u{fffd}ö"),
    ] {
        let line =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"_x","params":{{"text":"{sent}"}}}}"#);
        let (forwarded, answers) = feed(line.as_bytes(), false).await;
        assert_eq!(answers, [] as [Value; 0], "{sent}");
        assert_eq!(forwarded[0]["params"]["text"], read, "{sent}");
    }
    let (forwarded, answers) =
        feed(br#"{"id":1,"method":"x","params":{"a":"\ud83d}}"#, false).await;
    assert_eq!((forwarded.len(), codes(&answers)), (0, vec![(json!(1), -32700)]));
}

#[tokio::test]
async fn a_line_over_the_limit_costs_one_error_and_nothing_else() {
    let mut input = vec![b'x'; 50 * 1024 * 1024];
    input.extend_from_slice(b"\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"_ping\"}\n");
    input.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"_ping\",\"params\":\"");
    input.resize(input.len() + MAX_LINE, b'x');
    let (forwarded, answers) = feed(&input, false).await;
    assert_eq!(forwarded.len(), 1);
    assert_eq!(codes(&answers), [(Value::Null, -32600), (json!(2), -32600)]);
    assert_eq!(answers[0]["error"]["data"]["limit"], MAX_LINE);
}

#[tokio::test]
async fn nothing_but_initialize_passes_before_initialize() {
    let input = br#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}
{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"x"}}
"#;
    let (forwarded, answers) = feed(input, true).await;
    assert_eq!(forwarded, [] as [Value; 0]);
    assert_eq!(codes(&answers), [(json!(1), -32600)]);
}

#[tokio::test]
async fn a_version_that_is_no_whole_number_is_refused_in_words() {
    for (version, says) in [
        (json!("1"), "is a string"),
        (json!(-1), "is not a whole number"),
        (json!(1.5), "is not a whole number"),
        (json!(null), "is not a whole number"),
    ] {
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {"protocolVersion": version}});
        let (forwarded, answers) = feed(format!("{line}\n").as_bytes(), true).await;
        assert_eq!(forwarded, [] as [Value; 0]);
        assert_eq!(answers[0]["error"]["code"], -32602);
        let message = answers[0]["error"]["message"].as_str().unwrap();
        assert!(message.contains(says), "{message}");
    }
    for version in [0, 1, 2, 9_999, 65_535, u64::MAX] {
        let mut params = json!({"protocolVersion": version}).as_object().unwrap().clone();
        handshake::repair(&mut params).unwrap();
        assert_eq!(params["protocolVersion"], 1);
    }
}

#[tokio::test]
async fn lines_behind_an_open_initialize_wait_for_its_answer() {
    let ledger = Arc::new(Ledger::new());
    let (outbound, _lines) = Outbound::channel(ledger.clone());
    let input = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":1}}\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/list\"}\n";
    let stream = Inbound::new(&input[..], outbound, ledger.clone()).into_stream();
    let mut stream = std::pin::pin!(stream);
    assert!(stream.next().await.unwrap().unwrap().contains("initialize"));
    assert!(stream.next().now_or_never().is_none(), "the second line must wait");
    ledger.set_handshake(Handshake::Done);
    assert!(stream.next().await.unwrap().unwrap().contains("session/list"));
}

#[tokio::test]
async fn an_id_that_is_still_open_is_refused() {
    let line = "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"_ping\"}\n";
    let (forwarded, answers) = feed(line.repeat(2).as_bytes(), false).await;
    assert_eq!(forwarded.len(), 1);
    assert_eq!(codes(&answers), [(json!(5), -32600)]);
}

#[tokio::test]
async fn unanswered_requests_are_bounded() {
    let input: String = (0..MAX_OPEN + 2)
        .map(|id| format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"_ping\"}}\n"))
        .collect();
    let (forwarded, answers) = feed(input.as_bytes(), false).await;
    assert_eq!(forwarded.len(), MAX_OPEN);
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[0]["error"]["data"]["kind"], "busy");
}

#[test]
fn unknown_and_malformed_mcp_servers_are_left_out_with_a_note() {
    let mut params = json!({
        "cwd": "/", "_meta": 3, "additionalDirectories": "x",
        "mcpServers": [
            {"name": "ok", "command": "x", "args": [], "env": []},
            {"type": "http", "name": "web", "url": "http://h", "headers": []},
            {"type": "ws", "name": "sock\u{1b}et", "url": "ws://h", "headers": [{"value": "SECRET"}]},
            {"type": "stdio"},
            7,
        ],
    });
    let params = params.as_object_mut().unwrap();
    assert!(setup::repair(params).unwrap());
    assert_eq!(params["mcpServers"].as_array().unwrap().len(), 2);
    assert!(!params.contains_key("additionalDirectories"));
    let notes = notes_in(params["_meta"].as_object());
    assert_eq!(
        notes,
        [
            r#"MCP server "sock\u{1b}et" was left out: unknown type "ws""#,
            "MCP server number 4 was left out: it lacks a required field or has one of the wrong \
             type",
            "MCP server number 5 was left out: it lacks a required field or has one of the wrong \
             type",
            "`additionalDirectories` was left out: it is not a list of paths",
        ]
    );
}

#[test]
fn a_system_prompt_that_cannot_be_read_is_refused() {
    let mut params = json!({"cwd": "/", "mcpServers": [], "systemPrompt": 5});
    let error = setup::repair(params.as_object_mut().unwrap()).unwrap_err();
    assert!(error.message.contains("systemPrompt"), "{error:?}");
}

#[test]
fn sound_parameters_are_left_as_they_are() {
    let sound = json!({"cwd": "/", "mcpServers": [], "_meta": {"x": 1}});
    let mut params = sound.as_object().unwrap().clone();
    assert!(!setup::repair(&mut params).unwrap());
    assert_eq!(Value::Object(params), sound);
}

#[test]
fn a_client_cannot_forge_notes() {
    let mut params = json!({"_meta": {"bridle.dev/notes": ["forged"]}});
    let params = params.as_object_mut().unwrap();
    assert!(setup::repair(params).unwrap());
    assert_eq!(notes_in(params["_meta"].as_object()), [] as [String; 0]);
}

#[test]
fn an_unknown_content_block_becomes_a_placeholder() {
    let mut params = json!({"prompt": [
        {"type": "text", "text": "a", "annotations": 5},
        {"type": "hologram", "data": "x"},
        {"type": "resource_link", "uri": "file:///a#L10:20", "name": "a", "size": "big"},
    ]});
    let params = params.as_object_mut().unwrap();
    assert!(prompt::repair(params).unwrap());
    let blocks = params["prompt"].as_array().unwrap();
    assert_eq!(blocks[0]["text"], "a");
    assert_eq!(
        blocks[1],
        json!({"type": "text",
            "text": "[A content block of the unknown type \"hologram\" was left out here.]"})
    );
    assert_eq!(blocks[2]["uri"], "file:///a#L10:20");
    for block in blocks {
        serde_json::from_value::<agent_client_protocol::v1::schema::ContentBlock>(block.clone())
            .unwrap();
    }
}

#[test]
fn a_known_content_block_without_its_content_is_refused_by_place() {
    let mut params = json!({"prompt": [{"type": "text", "text": "a"}, {"type": "image"}]});
    let error = prompt::repair(params.as_object_mut().unwrap()).unwrap_err();
    assert_eq!(
        error.message,
        "prompt[1]: a `image` block needs `data`, `mimeType` of the right type"
    );
}
