//! A bare HTTP client, and a client of the Messages wire that returns answers as it should.

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::ModelServer;

pub(super) const MODEL: &str = "claude-sonnet-5-5";

/// A response as far as it came.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) status: u16,
    pub(super) head: String,
    pub(super) body: String,
    /// Whether the HTTP body ended as it should.
    pub(super) is_whole: bool,
}

impl Response {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The `data` of each event.
    pub(super) fn events(&self) -> Vec<Value> {
        let lines = self.body.lines().filter_map(|line| line.strip_prefix("data: "));
        lines.filter_map(|data| serde_json::from_str(data).ok()).collect()
    }

    /// The content blocks, put together the way a client does.
    pub(super) fn blocks(&self) -> Vec<Value> {
        let mut blocks: Vec<Value> = Vec::new();
        let mut arguments = String::new();
        for event in self.events() {
            match event["type"].as_str().unwrap() {
                "content_block_start" => {
                    blocks.push(event["content_block"].clone());
                    arguments.clear();
                }
                "content_block_delta" => {
                    let block = blocks.last_mut().unwrap();
                    let delta = &event["delta"];
                    for field in ["text", "thinking", "signature"] {
                        if let Some(piece) = delta[field].as_str() {
                            let so_far = block[field].as_str().unwrap();
                            block[field] = json!(format!("{so_far}{piece}"));
                        }
                    }
                    arguments.push_str(delta["partial_json"].as_str().unwrap_or_default());
                }
                "content_block_stop" if !arguments.is_empty() => {
                    let input = serde_json::from_str(&arguments).unwrap_or_else(|_| json!({}));
                    blocks.last_mut().unwrap()["input"] = input;
                }
                _ => {}
            }
        }
        blocks
    }

    pub(super) fn stop_reason(&self) -> String {
        let events = self.events();
        let delta = events.iter().find(|event| event["type"] == "message_delta").unwrap();
        delta["delta"]["stop_reason"].as_str().unwrap().to_owned()
    }
}

/// Sends a request with these header lines (each ended by CRLF) and reads until the connection
/// ends.
pub(super) async fn send(
    server: &ModelServer,
    request_line: &str,
    headers: &str,
    body: &str,
) -> Response {
    let mut stream = open(server, request_line, headers, body).await;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    read_response(&bytes)
}

/// Sends a request and leaves the connection open.
pub(super) async fn open(
    server: &ModelServer,
    request_line: &str,
    headers: &str,
    body: &str,
) -> TcpStream {
    let address = server.url().replace("http://", "");
    let mut stream = TcpStream::connect(&address).await.unwrap();
    let request = format!(
        "{request_line} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

pub(super) const HEADERS: &str = "x-api-key: sk-test\r\nanthropic-version: 2023-06-01\r\n\
                                  content-type: application/json\r\n";

pub(super) async fn post(server: &ModelServer, body: &str) -> Response {
    send(server, "POST /v1/messages", HEADERS, body).await
}

pub(super) async fn post_deepseek(server: &ModelServer, body: &str) -> Response {
    send(server, "POST /anthropic/v1/messages", HEADERS, body).await
}

fn read_response(bytes: &[u8]) -> Response {
    let at = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap_or(bytes.len());
    let head = String::from_utf8_lossy(&bytes[..at]).into_owned() + "\r\n";
    let rest = bytes.get(at + 4..).unwrap_or_default();
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let is_chunked = head.contains("transfer-encoding: chunked");
    let (body, is_whole) = if is_chunked { unchunk(rest) } else { (rest.to_vec(), true) };
    Response { status, head, body: String::from_utf8_lossy(&body).into_owned(), is_whole }
}

/// The payload of the complete chunks, and whether the last chunk was among them.
fn unchunk(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(at) = rest.windows(2).position(|window| window == b"\r\n") {
        let size = std::str::from_utf8(&rest[..at]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return (body, true);
        }
        let Some(chunk) = rest.get(at + 2..at + 2 + size) else { break };
        body.extend_from_slice(chunk);
        rest = rest.get(at + 4 + size..).unwrap_or_default();
    }
    (body, false)
}

/// A conversation whose messages keep the bytes in which they were first sent.
#[derive(Clone)]
pub(super) struct Conversation {
    pub(super) model: String,
    pub(super) system: String,
    pub(super) tools: String,
    pub(super) thinking: String,
    pub(super) messages: Vec<String>,
}

impl Conversation {
    pub(super) fn new(prompt: &str) -> Self {
        let schema = json!({
            "type": "object", "properties": { "path": { "type": "string" } },
            "required": ["path"],
        });
        let tools = json!([{ "name": "read", "description": "Reads.", "input_schema": schema }]);
        Self {
            model: MODEL.to_owned(),
            system: json!([{ "type": "text", "text": "Be brief." }]).to_string(),
            tools: tools.to_string(),
            thinking: r#"{"type":"adaptive","display":"summarized"}"#.to_owned(),
            messages: vec![json!({ "role": "user", "content": prompt }).to_string()],
        }
    }

    pub(super) fn body(&self) -> String {
        format!(
            r#"{{"model":"{}","max_tokens":1000,"stream":true,"thinking":{},"system":{},"tools":{},"messages":[{}]}}"#,
            self.model,
            self.thinking,
            self.system,
            self.tools,
            self.messages.join(", ")
        )
    }

    /// Sends what there is; the answer is not added.
    pub(super) async fn send(&self, server: &ModelServer) -> Response {
        post(server, &self.body()).await
    }

    /// Sends, adds the answer, and answers its tool calls.
    pub(super) async fn round(&mut self, server: &ModelServer) -> Response {
        let response = self.send(server).await;
        assert_eq!(response.status, 200, "{response:?}");
        self.add_answer(response.blocks());
        response
    }

    /// Adds an answer, without blank texts, which may not be returned, and answers its calls.
    pub(super) fn add_answer(&mut self, mut blocks: Vec<Value>) {
        blocks.retain(|block| !block["text"].as_str().is_some_and(|text| text.trim().is_empty()));
        let results: Vec<Value> = blocks
            .iter()
            .filter(|block| block["type"] == "tool_use")
            .map(|call| {
                json!({ "type": "tool_result", "tool_use_id": call["id"], "content": "done" })
            })
            .collect();
        self.add("assistant", json!(blocks));
        if !results.is_empty() {
            self.add("user", json!(results));
        }
    }

    pub(super) fn add(&mut self, role: &str, content: Value) {
        self.messages.push(json!({ "role": role, "content": content }).to_string());
    }

    pub(super) fn edit(&mut self, index: usize, change: impl FnOnce(&mut Value)) {
        let mut message: Value = serde_json::from_str(&self.messages[index]).unwrap();
        change(&mut message);
        self.messages[index] = message.to_string();
    }
}
