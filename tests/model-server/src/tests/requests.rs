//! What the script picks for a request, what is recorded of it, and how the server stops.

use serde_json::json;
use tokio::net::TcpStream;

use super::client::{Conversation, HEADERS, open};
use crate::{Answer, Delivery, Gate, ModelServer, Reply, Script};

async fn text_of(server: &ModelServer, prompt: &str) -> String {
    let blocks = Conversation::new(prompt).send(server).await.blocks();
    blocks[0]["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn the_queue_comes_before_directives_rules_and_the_default() {
    let script = Script::new()
        .reply(Answer::new().text("queued"))
        .rule("fix", [Answer::new().text("ruled")])
        .otherwise(Answer::new().text("default"));
    let server = ModelServer::start(script).await.unwrap();
    assert_eq!(text_of(&server, "fix [[mock {\"text\": \"x\"}]]").await, "queued");
    server.push(Answer::new().text("pushed"));
    assert_eq!(text_of(&server, "hi").await, "pushed");
    assert_eq!(text_of(&server, "fix [[mock {\"text\": \"x\"}]]").await, "x");
    assert_eq!(text_of(&server, "please fix it").await, "ruled");
    assert_eq!(text_of(&server, "hi").await, "default");
    let plain = ModelServer::start(Script::new()).await.unwrap();
    assert_eq!(text_of(&plain, "hi").await, "All good: this is the scripted reply.");
}

#[tokio::test]
async fn a_rule_steps_through_rounds_of_tool_results() {
    let read = |path: &str| Answer::new().tool_call("read", json!({ "path": path }));
    let script = Script::new().rule("fix", [read("1"), read("2"), Answer::new().text("done")]);
    let server = ModelServer::start(script).await.unwrap();
    let mut conversation = Conversation::new("fix a");
    for expected in ["1", "2"] {
        let blocks = conversation.round(&server).await.blocks();
        assert_eq!(blocks[0]["input"]["path"], expected);
    }
    // A remark beside the results does not start the steps anew.
    conversation.edit(4, |message| {
        let remark = json!({ "type": "text", "text": "(reminder)" });
        message["content"].as_array_mut().unwrap().push(remark);
    });
    assert_eq!(conversation.round(&server).await.blocks()[0]["text"], "done");
    conversation.add("user", json!("fix b"));
    assert_eq!(conversation.round(&server).await.blocks()[0]["input"]["path"], "1");
    // A prompt that fits a rule does, also beside the results of a cancelled turn.
    conversation.edit(8, |message| {
        let prompt = json!({ "type": "text", "text": "fix c" });
        message["content"].as_array_mut().unwrap().push(prompt);
    });
    assert_eq!(conversation.round(&server).await.blocks()[0]["input"]["path"], "1");
    assert_eq!(server.violations(), []);
}

/// What an agent tells beside a prompt stands before it, and may hold any word: a folder's name, for one.
#[tokio::test]
async fn of_several_texts_the_last_that_a_rule_fits_is_the_prompt() {
    let answer = |text: &str| [Answer::new().text(text)];
    let script = Script::new().rule("go", answer("gone")).rule("and this", answer("this, too"));
    let server = ModelServer::start(script).await.unwrap();
    let text = |text: &str| json!({ "type": "text", "text": text });
    let mut conversation = Conversation::new("");
    for (last, expected) in [("and this", "this, too"), ("as before", "gone")] {
        conversation.edit(0, |message| {
            message["content"] = json!([text("Working directory: /tmp/ago"), text(last)]);
        });
        assert_eq!(conversation.send(&server).await.blocks()[0]["text"], expected);
    }
}

#[tokio::test]
async fn a_directive_steers_everything_by_hand() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let steps = r#"go [[mock {"steps": [
        {"thinking": "hm", "tool_calls": [{"name": "read", "args": {"path": "a"}},
                                          {"name": "read", "raw_args": "{"},
                                          {"name": "read"}]},
        {"text": "abc", "deltas": 3, "usage": {"input": 5, "output": 6}, "stop_reason": "max_tokens"},
        {"error": {"status": 429, "retry_after": 7}}]}]] please"#;
    let mut conversation = Conversation::new(steps);
    let first = conversation.round(&server).await;
    let kinds: Vec<_> = first.blocks().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "tool_use", "tool_use", "tool_use"]);
    let second = conversation.send(&server).await;
    assert_eq!((second.stop_reason().as_str(), second.events().len()), ("max_tokens", 8));
    assert_eq!(second.events()[6]["usage"]["output_tokens"], 6);

    for (directive, is_whole) in
        [(r#"{"big": 10, "size": 8}"#, true), (r#"{"text": "ab", "disconnect_after": 0}"#, false)]
    {
        let conversation = Conversation::new(&format!("[[mock {directive}]]"));
        assert_eq!(conversation.send(&server).await.is_whole, is_whole);
    }
    let error = r#"[[mock {"error": {"status": 529, "message": "busy"}}]]"#;
    let response = Conversation::new(error).send(&server).await;
    assert_eq!((response.status, &response.json()["error"]["message"]), (529, &json!("busy")));
}

#[tokio::test]
async fn a_wrong_directive_is_refused_with_its_fault() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    for (directive, fault) in [
        (r#"{"txt": "a"}"#, "unknown field `txt`"),
        ("", "expected"),
        ("{", "directive is wrong"),
        (r#"{"steps": [{"steps": [{}]}]}"#, "steps inside of steps"),
        (r#"{"deltas": 1000001}"#, "more than 1000000 deltas"),
        (r#"{"error": {"status": 200}}"#, "200 is no error status"),
        (r#"{"stop_reason": "bored"}"#, "no stop reason"),
    ] {
        let response = Conversation::new(&format!("[[mock {directive}]]")).send(&server).await;
        let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
        assert!(response.status == 400 && message.contains(fault), "{directive}: {message}");
    }
}

#[tokio::test]
async fn requests_are_recorded_and_secrets_are_hidden_from_debug() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let conversation = Conversation::new("Hi.");
    let (recorded, _) = tokio::join!(server.wait_for_requests(1), conversation.send(&server));
    let request = &recorded[0];
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/v1/messages"));
    assert_eq!(request.header("x-api-key"), Some("sk-test"));
    assert_eq!(request.bytes, conversation.body().as_bytes());
    assert_eq!(request.body["messages"][0]["content"], "Hi.");
    assert_eq!(server.requests()[0].delivery, Delivery::Complete);
    let debug = format!("{request:?}");
    assert!(!debug.contains("sk-test") && debug.contains("2023-06-01"), "{debug}");
}

#[tokio::test]
async fn stopping_closes_the_port_and_held_connections() {
    let gate = Gate::new();
    let reply = Reply::from(Answer::new().text("a")).held(&gate);
    let server = ModelServer::start(Script::new().reply(reply)).await.unwrap();
    let address = server.url().replace("http://", "");
    let body = Conversation::new("Hi.").body();
    let mut stream = open(&server, "POST /v1/messages", HEADERS, &body).await;
    gate.reached().await;
    server.stop().await;
    let mut rest = Vec::new();
    // A reset and an end are both a closed connection.
    if tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut rest).await.is_ok() {
        assert_eq!(rest, b"");
    }
    assert!(TcpStream::connect(address).await.is_err());
}
