//! Bad input in the middle of a working session.

use bridle_model_server::{Answer, Gate, Script};
use serde_json::json;

use super::client::{Place, TestClient, model};

#[tokio::test]
async fn junk_between_calls_and_during_a_turn_harms_nothing() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "whole text").hold_after(1, &gate);
    let model = model(Script::new().reply(held)).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    gate.reached().await;
    let junk: [(&[u8], i64); 12] = [
        (b"garbage\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1\n", -32700),
        (b"\xc3\x28\n", -32700),
        (b"7\n", -32600),
        (b"[]\n", -32600),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\"}]\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"session/new\"}\n", -32600),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"no/such\",\"params\":{}}\n", -32601),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"b\",\"method\":\"_vendor/x\"}\n", -32601),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"c\",\"method\":\"session/new\",\"params\":null}\n",
            -32602,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"d\",\"method\":\"session/new\",\
              \"params\":{\"cwd\":null,\"mcpServers\":[{\"name\":\"a\",\"command\":\"SECRET\",\
              \"args\":[],\"env\":[]}]}}\n",
            -32602,
        ),
        (
            b"{\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"session/prompt\",\
              \"params\":{\"sessionId\":\"x\",\"prompt\":[]}}\n",
            -32002,
        ),
    ];
    for (line, code) in junk {
        client.raw(line).await;
        let answer = loop {
            let message = client.next().await;
            if message.get("method").is_none() {
                break message;
            }
        };
        assert_eq!(answer["error"]["code"], code, "{answer}");
    }
    // Neither of these has an answer.
    client.raw(b"\r\n\n{\"jsonrpc\":\"2.0\",\"method\":\"_vendor/note\",\"params\":{}}\n").await;
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":\"unknown\",\"result\":{}}\n").await;
    let answers = client.trace.iter().filter(|message| message.get("method").is_none()).count();
    gate.open();
    assert_eq!(client.stop(prompt).await, "end_turn");
    let now = client.trace.iter().filter(|message| message.get("method").is_none()).count();
    assert_eq!(now, answers + 1, "only the prompt was answered");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "whole text");
    let trace = client.leave().await;
    assert!(!format!("{trace:?}").contains("SECRET"), "parameters are never repeated");
}

#[tokio::test]
async fn a_line_of_50_mb_costs_one_error() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let piece = "x".repeat(1024 * 1024);
    client.raw("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/prompt\",\"params\":\"").await;
    for _ in 0..50 {
        client.raw(&piece).await;
    }
    client.raw("\"}\n").await;
    let answer = client.next().await;
    assert_eq!(answer["id"], 1);
    assert_eq!(answer["error"]["code"], -32600);
    assert!(answer["error"]["message"].as_str().unwrap().contains("32 MiB"));
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    client.leave().await;
}

#[tokio::test]
async fn a_prompt_of_a_few_megabytes_passes() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, &"/help ".repeat(1_000_000)).await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    client.leave().await;
}

#[tokio::test]
async fn ids_come_back_as_they_were_sent() {
    let place = Place::new();
    let mut client = TestClient::ready(&place, None).await;
    for id in [json!("1"), json!(""), json!(-7), json!(i64::MAX), json!("ü\u{1}")] {
        let line = json!({"jsonrpc": "2.0", "id": id, "method": "session/list", "params": {}});
        client.raw(format!("{line}\n")).await;
        let answer = client.next().await;
        assert_eq!(answer["id"], id);
        assert!(answer.get("result").is_some());
    }
    client.leave().await;
}

#[tokio::test]
async fn a_second_initialize_is_answered_like_the_first() {
    let place = Place::new();
    let mut client = TestClient::ready(&place, None).await;
    let first = client.trace[0]["result"].clone();
    let second = client.call("initialize", json!({"protocolVersion": 2, "info": 5})).await;
    assert_eq!(second["result"], first);
    let answer = client.call("initialize", json!({"protocolVersion": "1"})).await;
    assert_eq!(answer["error"]["code"], -32602);
    assert!(client.call("session/list", json!({})).await.get("result").is_some());
    client.leave().await;
}
