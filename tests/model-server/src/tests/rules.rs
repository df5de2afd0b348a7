//! One table: a request that is accepted, and for each rule the change that breaks it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::client::{HEADERS, MODEL, Response, post, post_deepseek, send};
use crate::{ModelServer, ModelSpec, Script};

/// A plain accepted request.
fn plain() -> Value {
    json!({
        "model": MODEL, "max_tokens": 1000, "stream": true,
        "messages": [{ "role": "user", "content": "Hi." }],
    })
}

/// An accepted request with a tool, two calls and their results.
fn with_tools() -> Value {
    let call = |id| json!({ "type": "tool_use", "id": id, "name": "read", "input": {} });
    let result = |id| json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" });
    json!({
        "model": MODEL, "max_tokens": 1000, "stream": true,
        "tools": [{
            "name": "read", "description": "Reads.",
            "input_schema": { "type": "object", "properties": { "path": { "type": "string" } } },
        }],
        "messages": [
            { "role": "user", "content": "Read." },
            { "role": "assistant", "content": [call("a"), call("b")] },
            { "role": "user", "content": [result("a"), result("b")] },
        ],
    })
}

async fn refused(body: &Value, rule: &str) -> Response {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let response = post(&server, &body.to_string()).await;
    expect(&server, response, rule)
}

fn expect(server: &ModelServer, response: Response, rule: &str) -> Response {
    let violations = server.violations();
    let rules: Vec<&str> = violations.iter().map(|violation| violation.rule).collect();
    assert_eq!(rules, [rule], "{response:?}");
    assert!((400..500).contains(&response.status), "{rule}: {response:?}");
    assert_eq!(response.json()["type"], "error");
    assert_eq!(response.json()["error"]["message"], violations[0].message);
    response
}

/// Sets the value at a JSON pointer; `Null` removes it, and the last part may be new.
async fn check(mut body: Value, pointer: &str, value: Value, rule: &str) -> Response {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = body.pointer_mut(parent).unwrap_or_else(|| panic!("no {pointer}"));
    match parent {
        Value::Object(fields) if value.is_null() => {
            fields.remove(key).unwrap();
        }
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let index: usize = key.parse().unwrap();
            if value.is_null() {
                items.remove(index);
            } else if index == items.len() {
                items.push(value);
            } else {
                items[index] = value;
            }
        }
        _ => panic!("{pointer} leads through a scalar"),
    }
    refused(&body, rule).await
}

#[tokio::test]
async fn what_the_tables_start_from_is_accepted() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    for body in [plain(), with_tools()] {
        assert_eq!(post(&server, &body.to_string()).await.status, 200);
    }
    assert_eq!(server.violations(), []);
}

#[tokio::test]
async fn headers() {
    let body = plain().to_string();
    for (line, rule, status) in [
        ("x-api-key: sk-test\r\n", "api-key", 401),
        ("anthropic-version: 2023-06-01\r\n", "version", 400),
        ("content-type: application/json\r\n", "content-type", 400),
    ] {
        let server = ModelServer::start(Script::new()).await.unwrap();
        let headers = HEADERS.replace(line, "");
        let response = send(&server, "POST /v1/messages", &headers, &body).await;
        assert_eq!(expect(&server, response, rule).status, status);
    }
    let server = ModelServer::start(Script::new().key("sk-other")).await.unwrap();
    let response = post(&server, &body).await;
    assert_eq!(expect(&server, response, "api-key").status, 401);
}

#[tokio::test]
async fn paths_methods_and_bodies() {
    for (line, body, rule, status) in [
        ("POST /v2/messages", "{}", "path", 404),
        ("GET /v1/messages", "", "method", 405),
        ("POST /v1/messages", "{", "body", 400),
        ("POST /v1/messages", "[]", "body", 400),
        (
            "POST /v1/messages",
            r#"{"model":"claude-opus-5","system":"a","system":"b"}"#,
            "body",
            400,
        ),
    ] {
        let server = ModelServer::start(Script::new()).await.unwrap();
        let response = send(&server, line, HEADERS, body).await;
        assert_eq!(expect(&server, response, rule).status, status);
    }
}

#[tokio::test]
async fn models() {
    let unknown = check(plain(), "/model", json!("claude-1"), "model").await;
    assert_eq!(unknown.status, 404);
    assert_eq!(unknown.json()["error"]["type"], "not_found_error");
    check(plain(), "/model", Value::Null, "model").await;
    check(plain(), "/model", json!("deepseek-flash"), "model").await;
}

#[tokio::test]
async fn parameters() {
    for name in ["temperature", "top_p", "top_k"] {
        check(plain(), &format!("/{name}"), json!(1), "sampling").await;
    }
    for (pointer, value, rule) in [
        ("/max_tokens", Value::Null, "max-tokens"),
        ("/max_tokens", json!(0), "max-tokens"),
        ("/max_tokens", json!("many"), "max-tokens"),
        ("/max_tokens", json!(128_001), "max-tokens"),
        ("/stream", Value::Null, "stream"),
        ("/stream", json!(false), "stream"),
        ("/n", json!(1), "unknown-field"),
        ("/system", json!(""), "empty-content"),
        ("/system", json!([{ "type": "text", "text": " " }]), "empty-text"),
        ("/system", json!([{ "type": "image" }]), "block-type"),
        ("/system", json!(1), "content"),
        ("/thinking", json!({ "type": "enabled", "budget_tokens": 1024 }), "thinking"),
        ("/thinking", json!({ "type": "adaptive", "display": "all" }), "thinking"),
        ("/thinking", json!({ "type": "adaptive", "budget_tokens": 1 }), "unknown-field"),
        ("/thinking", json!("on"), "thinking"),
        ("/output_config", json!({ "effort": "huge" }), "output-config"),
        ("/tool_choice", json!({ "type": "any" }), "tool-choice"),
        ("/tool_choice", json!({ "type": "tool", "name": "read" }), "tool-choice"),
        ("/tool_choice", json!("auto"), "tool-choice"),
        ("/cache_control", json!({ "type": "forever" }), "cache-control"),
    ] {
        check(plain(), pointer, value, rule).await;
    }
    let mut always = plain();
    always["model"] = json!("claude-opus-5-5");
    check(always, "/thinking", json!({ "type": "disabled" }), "thinking").await;
}

#[tokio::test]
async fn the_shape_of_messages() {
    let user = |content: Value| json!({ "role": "user", "content": content });
    let assistant = json!({ "role": "assistant", "content": "Hello." });
    for (pointer, value, rule) in [
        ("/messages", Value::Null, "messages"),
        ("/messages", json!([]), "messages"),
        ("/messages/0", json!("Hi."), "messages"),
        ("/messages/0", assistant.clone(), "first-message"),
        ("/messages/0", json!({ "role": "system", "content": "x" }), "first-message"),
        ("/messages/1", json!({ "role": "tool", "content": "x" }), "role"),
        ("/messages/1", assistant.clone(), "prefill"),
        ("/messages/0/id", json!("m1"), "unknown-field"),
        ("/messages/0", user(json!("")), "empty-content"),
        ("/messages/0", user(json!([])), "empty-content"),
        ("/messages/0/content", Value::Null, "content"),
        ("/messages/0", user(json!([{ "type": "text", "text": "" }])), "empty-text"),
        ("/messages/0", user(json!([{ "type": "text", "text": "\n " }])), "empty-text"),
        ("/messages/0", user(json!([{ "type": "text" }])), "content"),
        ("/messages/0", user(json!(["Hi."])), "block-type"),
        ("/messages/0", user(json!([{ "type": "video" }])), "block-type"),
        ("/messages/0", user(json!([{ "type": "thinking", "thinking": "" }])), "block-type"),
        ("/messages/0", user(json!([{ "type": "text", "text": "a", "id": 1 }])), "unknown-field"),
        ("/messages/0", user(json!([{ "type": "image", "source": {} }])), "image"),
    ] {
        check(plain(), pointer, value, rule).await;
    }
    let mut twice = plain();
    twice["messages"] = json!([user(json!("Hi.")), assistant, assistant, user(json!("Yes?"))]);
    refused(&twice, "alternation").await;
    let system = json!({ "role": "system", "content": "x" });
    let mut placed = plain();
    placed["messages"] =
        json!([user(json!("Hi.")), system, assistant, user(json!("Yes?")), system]);
    let server = ModelServer::start(Script::new()).await.unwrap();
    assert_eq!(post(&server, &placed.to_string()).await.status, 200);
    for at in ["/messages/2", "/messages/5"] {
        check(placed.clone(), at, user(json!("x")), "system-placement").await;
    }
    check(placed.clone(), "/messages/1", assistant.clone(), "alternation").await;
    check(placed, "/messages/3", system, "system-placement").await;
    let mut old = plain();
    old["model"] = json!("claude-sonnet-5");
    check(old, "/messages/1", json!({ "role": "system", "content": "x" }), "role").await;
}

#[tokio::test]
async fn tool_calls_and_results() {
    let result = |id: &str| json!({ "type": "tool_result", "tool_use_id": id, "content": "ok" });
    let text = json!({ "type": "text", "text": "And?" });
    let first = "/messages/2/content/0";
    for (pointer, value, rule) in [
        ("/messages/2", Value::Null, "tool-result-missing"),
        ("/messages/2/content/1", Value::Null, "tool-result-missing"),
        ("/messages/2/content", json!("Never mind."), "tool-result-missing"),
        ("/messages/1", json!({ "role": "user", "content": "x" }), "tool-result-unexpected"),
        ("/messages/2/content/2", result("c"), "tool-result-unexpected"),
        ("/messages/2/content/2", result("a"), "tool-result-duplicate"),
        ("/messages/2/content", json!([result("b"), result("a")]), "tool-result-order"),
        ("/messages/2/content", json!([text, result("a"), result("b")]), "tool-result-first"),
        ("/messages/1/content/1/id", json!("a"), "tool-id"),
        ("/messages/1/content/1/id", json!("a b"), "tool-id"),
        ("/messages/1/content/1/id", json!(""), "tool-id"),
        ("/messages/1/content/1/name", json!("re ad"), "tool-name"),
        ("/messages/1/content/1/input", json!("{}"), "tool-input"),
        ("/messages/1/content/1/input", json!([]), "tool-input"),
        ("/messages/1/content/1/input", Value::Null, "tool-input"),
        (&format!("{first}/tool_use_id"), Value::Null, "tool-result"),
        (&format!("{first}/content"), Value::Null, "tool-result"),
        (&format!("{first}/content"), json!(""), "tool-result"),
        (&format!("{first}/content"), json!([]), "tool-result"),
        (&format!("{first}/content"), json!([{ "type": "text", "text": "" }]), "empty-text"),
        (&format!("{first}/content"), json!([{ "type": "tool_use" }]), "block-type"),
        (&format!("{first}/is_error"), json!("yes"), "tool-result"),
        (&format!("{first}/status"), json!("ok"), "unknown-field"),
        ("/tools", Value::Null, "tools-missing"),
        ("/tools", json!([]), "tools-missing"),
    ] {
        check(with_tools(), pointer, value, rule).await;
    }
}

#[tokio::test]
async fn tools_and_their_schemas() {
    let tool = "/tools/0";
    let schema = "/tools/0/input_schema";
    let twin = with_tools()["tools"][0].clone();
    let outside = json!({ "$ref": "https://example.org/path.json" });
    for (pointer, value, rule) in [
        ("/tools", json!({}), "tools"),
        ("/tools/0", json!("read"), "tools"),
        ("/tools/1", twin, "tool-name"),
        (&format!("{tool}/name"), json!("mcp.read"), "tool-name"),
        (&format!("{tool}/name"), json!("x".repeat(65)), "tool-name"),
        (&format!("{tool}/name"), json!(""), "tool-name"),
        (&format!("{tool}/description"), Value::Null, "tool-description"),
        (&format!("{tool}/description"), json!(["Reads."]), "tool-description"),
        (&format!("{tool}/type"), json!("web_search"), "tools"),
        (&format!("{tool}/parameters"), json!({}), "unknown-field"),
        (&format!("{tool}/cache_control"), json!(true), "cache-control"),
        (schema, Value::Null, "tool-schema"),
        (schema, json!({ "properties": {} }), "tool-schema"),
        (schema, json!({ "type": "object" }), "tool-schema"),
        (&format!("{schema}/type"), json!("array"), "tool-schema"),
        (&format!("{schema}/properties"), json!([]), "tool-schema"),
        (&format!("{schema}/required"), json!(["other"]), "tool-schema"),
        (&format!("{schema}/required"), json!("path"), "tool-schema"),
        (&format!("{schema}/oneOf"), json!([]), "tool-schema"),
        (&format!("{schema}/properties/path"), outside, "tool-schema"),
        (&format!("{schema}/properties/path"), json!({ "$ref": "#/$defs/no" }), "tool-schema"),
        (&format!("{schema}/properties/path"), json!({ "type": "path" }), "tool-schema"),
        (&format!("{schema}/properties/path"), json!({ "type": [] }), "tool-schema"),
        (&format!("{schema}/properties/path"), json!({ "items": { "type": 1 } }), "tool-schema"),
        (&format!("{schema}/properties/path"), json!({ "anyOf": [1] }), "tool-schema"),
    ] {
        check(with_tools(), pointer, value, rule).await;
    }
}

#[tokio::test]
async fn cache_breakpoints_are_few() {
    let marker = json!({ "type": "ephemeral" });
    let block = |text: &str| json!({ "type": "text", "text": text, "cache_control": marker });
    let mut body = plain();
    body["system"] = json!([block("a"), block("b"), block("c")]);
    body["messages"][0]["content"] = json!([block("d")]);
    let server = ModelServer::start(Script::new()).await.unwrap();
    assert_eq!(post(&server, &body.to_string()).await.status, 200);
    check(body, "/cache_control", marker.clone(), "cache-control").await;
}

#[tokio::test]
async fn input_beyond_the_window() {
    let script = Script::new().model(ModelSpec::new(MODEL, 100, 1000));
    let server = ModelServer::start(script).await.unwrap();
    let mut body = plain();
    assert_eq!(post(&server, &body.to_string()).await.status, 200);
    body["messages"][0]["content"] = json!("x".repeat(350));
    let response = post(&server, &body.to_string()).await;
    let response = expect(&server, response, "window");
    let message = response.json()["error"]["message"].as_str().unwrap().to_owned();
    assert_eq!(message, "prompt is too long: 108 tokens > 100 maximum");
}

#[tokio::test]
async fn bodies_beyond_the_limit() {
    let server = ModelServer::start(Script::new()).await.unwrap();
    let body = " ".repeat(33 * 1024 * 1024);
    // The server stops reading early, so the client may not get to send all of it.
    let address = server.url().replace("http://", "");
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let head = format!(
        "POST /v1/messages HTTP/1.1\r\nhost: x\r\n{HEADERS}content-length: {}\r\n\r\n",
        body.len()
    );
    use tokio::io::AsyncWriteExt as _;
    stream.write_all(head.as_bytes()).await.unwrap();
    let sent = stream.write_all(body.as_bytes()).await;
    server.wait_for_delivery(0).await;
    assert_eq!(server.violations()[0].rule, "body-size", "after sending: {sent:?}");
}

/// A PNG of `side` times 1 pixels and so many bytes, as a block.
fn png(side: u32, bytes: usize) -> Value {
    let mut file = b"\x89PNG\r\n\x1A\n\0\0\0\rIHDR".to_vec();
    file.extend(side.to_be_bytes());
    file.extend(1_u32.to_be_bytes());
    file.resize(bytes.max(24), 0);
    image("image/png", &STANDARD.encode(file))
}

fn image(kind: &str, data: &str) -> Value {
    let source = json!({ "type": "base64", "media_type": kind, "data": data });
    json!({ "type": "image", "source": source })
}

#[tokio::test]
async fn images_where_the_model_has_no_eyes() {
    let mut body = plain();
    body["messages"][0]["content"] = json!([png(8_000, 24)]);
    let server = ModelServer::start(Script::new()).await.unwrap();
    assert_eq!(post(&server, &body.to_string()).await.status, 200);
    body["model"] = json!("deepseek-v4-pro");
    let response = post_deepseek(&server, &body.to_string()).await;
    expect(&server, response, "image");
}

#[tokio::test]
async fn images_that_are_not_what_they_are_said_to_be_or_too_large_or_too_many() {
    let many = |count, side| vec![png(side, 24); count];
    for (images, rule) in [
        (vec![image("image/png", "")], "image-data"),
        (vec![image("image/png", "?")], "image-data"),
        (vec![image("image/png", "AAAA")], "image-data"),
        (vec![image("image/png", "R0lGODlhAgADAAAA")], "image-type"),
        (vec![image("text/plain", "R0lGODlhAgADAAAA")], "image-type"),
        (vec![png(8_001, 24)], "image-side"),
        (vec![png(8, 3_932_161)], "image-size"),
        (many(21, 2_001), "image-crowd"),
        (many(101, 8), "image-count"),
    ] {
        let mut body = plain();
        body["messages"][0]["content"] = Value::Array(images);
        refused(&body, rule).await;
    }
    let mut body = with_tools();
    body["messages"][2]["content"][0]["content"] = Value::Array(many(21, 2_001));
    refused(&body, "image-crowd").await;
    body["messages"][2]["content"][0]["content"] = Value::Array(many(100, 2_000));
    let server = ModelServer::start(Script::new()).await.unwrap();
    assert_eq!(post(&server, &body.to_string()).await.status, 200);
}

#[tokio::test]
async fn tools_of_the_provider() {
    let call = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
    let result = json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [] });
    let conversation = |blocks: &[&Value]| {
        let mut body = plain();
        let answer = json!({ "role": "assistant", "content": blocks });
        body["messages"] =
            json!([body["messages"][0], answer, { "role": "user", "content": "Go on." }]);
        body
    };
    let server = ModelServer::start(Script::new()).await.unwrap();
    let whole = conversation(&[&call, &result]);
    assert_eq!(post(&server, &whole.to_string()).await.status, 200);
    refused(&conversation(&[&call]), "own-tool-missing").await;
    refused(&conversation(&[&result]), "own-tool-unexpected").await;
    refused(&conversation(&[&result, &call]), "own-tool-unexpected").await;
    let mut other = whole;
    other["model"] = json!("deepseek-flash");
    let server = ModelServer::start(Script::new()).await.unwrap();
    let response = post_deepseek(&server, &other.to_string()).await;
    expect(&server, response, "block-type");
}

#[tokio::test]
async fn deepseek_has_no_unknown_models() {
    let mut body = plain();
    body["model"] = json!("gpt-6");
    let server = ModelServer::start(Script::new()).await.unwrap();
    let response = post_deepseek(&server, &body.to_string()).await;
    assert_eq!(expect(&server, response, "model").status, 400);
}

#[tokio::test]
async fn a_cached_prefix_is_found_from_twenty_blocks_on() {
    let marker = json!({ "type": "ephemeral" });
    let text = |text: usize| json!({ "type": "text", "text": format!("block {text}") });
    let server = ModelServer::start(Script::new().caching()).await.unwrap();
    let mut body = plain();
    body["cache_control"] = marker.clone();
    let mut counts = async |blocks: usize, mark: Option<usize>| {
        let mut content: Vec<Value> = (0..blocks).map(text).collect();
        if let Some(at) = mark {
            content[at]["cache_control"] = marker.clone();
        }
        body["messages"][0]["content"] = json!(content);
        let events = post(&server, &body.to_string()).await.events();
        let usage = events[0]["message"]["usage"].clone();
        let count = |name: &str| usage[name].as_u64().unwrap();
        assert_eq!(count("input_tokens"), 0, "the last block is a breakpoint");
        (count("cache_read_input_tokens"), count("cache_creation_input_tokens"))
    };
    let (read, first) = counts(5, None).await;
    assert!(read == 0 && first > 0);
    assert_eq!(counts(5, None).await, (first, 0), "the same again");
    assert_eq!(counts(24, None).await.0, first, "19 blocks on");
    let (read, all) = counts(60, None).await;
    assert_eq!(read, 0, "too far behind every cached prefix, which wrote {all}");
    assert!(counts(90, Some(59)).await.0 >= all, "a breakpoint where it was cached");
}
