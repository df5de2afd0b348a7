//! What no client should send. Each has a defined answer, and the connection lives on.

use std::collections::BTreeMap;

use bridle_model_server::{Answer, Gate, Script};
use bridle_tests::{Client, Place, Trace};
use serde_json::{Value, json};

use crate::scene::{Scene, reached};

/// Sends `bytes`, then a valid request, and returns what the agent said in between.
async fn answers_to(client: &mut Client, bytes: &[u8]) -> Vec<Value> {
    let before = client.trace().from_agent().count();
    client.send_raw(bytes).await;
    client.request("session/list", json!({})).await.ok();
    let said: Vec<Value> = client.trace().from_agent().skip(before).cloned().collect();
    said[..said.len() - 1].to_vec()
}

async fn idle() -> (Place, Client) {
    let place = Place::new();
    let client = Client::ready(&place.launch(["acp"])).await;
    (place, client)
}

/// B007: each line alone has its JSON-RPC answer, and the next request is served.
#[tokio::test]
async fn parse_001_invalidreq_001_junk_lines_are_answered_as_json_rpc_says() {
    let (place, mut client) = idle().await;
    let cases: [(&[u8], i64); 9] = [
        (b"nonsense\n", -32700),
        (b"{\"jsonrpc\": \"2.0\", \"id\": 1, \"method\": \"ini\n", -32700),
        (b"\xff\xfe{}\n", -32700),
        (b"7\n", -32600),
        (b"\"text\"\n", -32600),
        (b"[]\n", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/list\",\"params\":{}}]\n", -32600),
        (b"{\"jsonrpc\":\"2.0\"}\n", -32600),
        (b"null\n", -32600),
    ];
    for (line, code) in cases {
        let said = answers_to(&mut client, line).await;
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(said.len(), 1, "{shown}: {said:?}");
        assert_eq!(said[0]["id"], Value::Null, "{shown}: no invented id");
        assert_eq!(said[0]["error"]["code"], code, "{shown}");
    }
    client.finish(&place).await;
}

#[tokio::test]
async fn unknown_methods_are_refused_and_unknown_notifications_ignored() {
    let (place, mut client) = idle().await;
    for method in ["no/such", "_vendor/ext", "session/no_such"] {
        assert_eq!(client.request(method, json!({})).await.code(), -32601, "{method}");
    }
    let note = b"{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/note\",\"params\":{}}\n";
    assert_eq!(answers_to(&mut client, note).await, Vec::<Value>::new());
    client.finish(&place).await;
}

#[tokio::test]
async fn ids_come_back_exactly_as_they_were_sent() {
    let (place, client) = idle().await;
    for id in [json!("a string"), json!(""), json!(0), json!(-7), json!(9_007_199_254_740_993_i64)]
    {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
        client.send(&request).await;
        client.reply(&id).await.ok();
    }
    client.finish(&place).await;
}

/// An id that JSON-RPC does not know has no answer of its own; one that is still open belongs to
/// the request that came first.
#[tokio::test]
async fn odd_ids_and_an_id_that_is_still_open_are_refused() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "half of it").hold_after(1, &gate);
    let scene = Scene::new(Script::new().reply(held)).await;
    let (mut client, session) = scene.session().await;
    let told = |trace: &Trace| trace.updates_of(&session, "available_commands_update").pop();
    client.wait_for("the commands", told).await;
    for id in ["1.5", "1e3", "true", "[1]", "{}", "12345678901234567890123"] {
        let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/list\"}}\n");
        let said = answers_to(&mut client, line.as_bytes()).await;
        assert_eq!(said.len(), 1, "{id}: {said:?}");
        assert_eq!(said[0]["id"], Value::Null, "{id}");
        assert_eq!(said[0]["error"]["code"], -32600, "{id}");
    }
    let turn = client.begin_prompt(&session, "go").await;
    reached(&gate).await;
    let again = json!({"jsonrpc": "2.0", "id": turn, "method": "session/list", "params": {}});
    client.send_raw(format!("{again}\n").as_bytes()).await;
    assert_eq!(client.reply(&turn).await.code(), -32600);
    gate.open();
    let ended = |trace: &Trace| {
        let mut answers = trace.from_agent().filter(|message| message["id"] == turn);
        answers.find_map(|message| message.get("result").cloned())
    };
    assert_eq!(client.wait_for("the end", ended).await["stopReason"], "end_turn");
    // Two answers with one id are what the client asked for, and no rule of a trace.
    client.close_stdin().await;
    assert!(client.wait().await.0.success());
    assert_eq!(scene.place.processes(), []);
}

#[tokio::test]
async fn bad_parameters_are_named_without_being_repeated() {
    let (place, mut client) = idle().await;
    let secret = "marker-in-the-parameters";
    let cases = [
        ("session/new", json!({"cwd": 7, "mcpServers": [], "note": secret})),
        ("session/new", json!({"mcpServers": [{"env": [{"name": "K", "value": secret}]}]})),
        ("session/prompt", json!({"prompt": secret})),
        ("session/load", json!({"sessionId": {}, "cwd": secret})),
        ("session/set_mode", json!([secret])),
        ("session/new", Value::Null),
    ];
    for (method, params) in cases {
        let error = client.request(method, params.clone()).await.error();
        assert_eq!(error["code"], -32602, "{method} {params}: {error}");
        assert!(!error.to_string().contains(secret), "{method} repeats: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
    }
    client.finish(&place).await;
}

#[tokio::test]
async fn a_folder_must_be_absolute_and_there() {
    let (place, mut client) = idle().await;
    let file = place.write("file.txt", "");
    for cwd in [json!("relative"), json!(""), json!("/no/such/folder"), json!(file)] {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let error = client.request("session/new", params).await.error();
        assert_eq!(error["code"], -32602, "{cwd}: {error}");
        assert!(error["message"].as_str().unwrap().len() > 10, "{error}");
    }
    client.finish(&place).await;
}

#[tokio::test]
async fn unknownsession_001_the_error_names_it() {
    let (place, mut client) = idle().await;
    let prompt = json!([{"type": "text", "text": "hi"}]);
    let cwd = place.workspace();
    let stranger = "0190b3a0-0000-7000-8000-000000000000";
    for id in [stranger, "../../etc", "", "no-such"] {
        let calls = [
            ("session/prompt", json!({"sessionId": id, "prompt": prompt})),
            ("session/load", json!({"sessionId": id, "cwd": cwd, "mcpServers": []})),
            ("session/set_mode", json!({"sessionId": id, "modeId": "ask"})),
        ];
        for (method, params) in calls {
            let error = client.request(method, params).await.error();
            assert_eq!(error["code"], -32002, "{method} {id:?}: {error}");
            assert_eq!(error["data"]["sessionId"], id, "{method}");
        }
    }
    assert!(!place.sessions().join(stranger).exists(), "nothing is created");
    client.finish(&place).await;
}

/// B017: empty lines, CR, one byte at a time, several messages in one write.
#[tokio::test]
async fn line_ends_and_pieces_do_not_matter() {
    let (place, mut client) = idle().await;
    let line = |id: u32| {
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"session/list\",\"params\":{{}}}}")
    };
    client.send_raw(format!("\n\n{}\r\n\r\n", line(101)).as_bytes()).await;
    client.reply(&json!(101)).await.ok();
    client.send_in_pieces(format!("{}\n", line(102)).as_bytes(), 1).await;
    client.reply(&json!(102)).await.ok();
    client.send_raw(format!("{}\n{}\n", line(103), line(104)).as_bytes()).await;
    client.reply(&json!(103)).await.ok();
    client.reply(&json!(104)).await.ok();
    client.request("session/list", json!({})).await.ok();
    client.finish(&place).await;
}

#[tokio::test]
async fn a_line_of_50_mb_is_refused_and_the_next_one_served() {
    let (place, mut client) = idle().await;
    let mut line = b"{\"jsonrpc\":\"2.0\",\"method\":\"".to_vec();
    line.resize(50 << 20, b'x');
    line.extend_from_slice(b"\"}\n");
    let said = answers_to(&mut client, &line).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert_eq!(said[0]["error"]["data"]["kind"], "too-long", "{said:?}");
    client.finish(&place).await;
}

/// Lines behind an unanswered initialize are held, not refused; a prompt may follow as soon as the
/// id is known, before anything else of the session has been told.
#[tokio::test]
async fn new_may_follow_initialize_in_the_same_write() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("said"))).await;
    let place = &scene.place;
    let mut client = Client::start(&place.acp(&scene.model.url()));
    let first = json!({"jsonrpc": "2.0", "id": "i", "method": "initialize",
        "params": {"protocolVersion": 1}});
    let second = json!({"jsonrpc": "2.0", "id": "n", "method": "session/new",
        "params": {"cwd": place.workspace(), "mcpServers": []}});
    client.send_raw(format!("{first}\n{second}\n").as_bytes()).await;
    client.reply(&json!("i")).await.ok();
    let result = client.reply(&json!("n")).await.ok();
    let session = result["sessionId"].as_str().unwrap();
    assert_eq!(client.prompt(session, "hi").await.stop_reason(), "end_turn");
    let trace = client.finish(place).await;
    assert_eq!(trace.text(session), "said");
}

#[tokio::test]
async fn a_call_before_initialize_is_one_clear_error() {
    let place = Place::new();
    let mut client = Client::start(&place.launch(["acp"]));
    let params = json!({"cwd": place.workspace(), "mcpServers": []});
    assert!(client.request("session/new", params).await.code() < 0);
    client.request("initialize", json!({"protocolVersion": 1})).await.ok();
    client.new_session(&place).await;
    client.finish(&place).await;
}

/// B008: every version is answered with one that we speak; a wrong type is an error one can read.
#[tokio::test]
async fn any_protocol_version_is_negotiated() {
    let answers: BTreeMap<&str, Value> = BTreeMap::from([
        ("0", json!(0)),
        ("1", json!(1)),
        ("2", json!(2)),
        ("9999", json!(9999)),
        ("65535", json!(65535)),
    ]);
    for (name, version) in answers {
        let place = Place::new();
        let mut client = Client::start(&place.launch(["acp"]));
        let params = json!({"protocolVersion": version, "info": {"name": "t", "version": "1"}});
        let result = client.request("initialize", params).await.ok();
        assert_eq!(result["protocolVersion"], 1, "{name}");
        client.finish(&place).await;
    }
}

/// Unknown block kinds, unknown MCP servers and malformed optional fields cost nothing but
/// themselves, and are reported.
#[tokio::test]
async fn unknown_parts_of_a_request_are_replaced_and_reported() {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("fine"))).await;
    let mut client = scene.client().await;
    let params = json!({
        "cwd": scene.place.workspace(),
        "mcpServers": [
            {"type": "carrier-pigeon", "name": "bird-server", "url": "x"},
            {"name": "known-server", "command": "/bin/true", "args": [], "env": []},
        ],
        "additionalDirectories": "not-a-list",
    });
    let result = client.request("session/new", params).await.ok();
    let session = result["sessionId"].as_str().unwrap().to_owned();
    let prompt = json!([
        {"type": "text", "text": "hello"},
        {"type": "hologram", "data": "x"},
    ]);
    let params = json!({"sessionId": session, "prompt": prompt});
    assert_eq!(client.request("session/prompt", params).await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    let shown = serde_json::to_string(&trace.updates(&session)).unwrap();
    for name in ["bird-server", "known-server", "additionalDirectories"] {
        assert!(shown.contains(name), "{name} is not named in {shown}");
    }
    let sent = scene.requests().pop().unwrap()["messages"].to_string();
    assert!(sent.contains("hologram") && sent.contains("hello"), "the model knows: {sent}");
}
