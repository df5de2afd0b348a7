//! The scripted server over HTTP: one request a connection, a thread each. Its address is the content of
//! the file `MCP_HEARD` with the ending `.url`. Modes of its own:
//!
//! - `events`: answers as a stream of events, not as one JSON text.
//! - `get-resets`, `get-closes`: what becomes of a stream that the client opens; refused without.
//! - `stale-400`: an unknown session is refused like the TypeScript SDK does; otherwise with 404.
//! - `always-404`: every session is unknown.
//! - `moved`: the address is another one (307). `elsewhere`: of another server.
//! - `forbidden`: nobody may do anything.
//! - `key=K`: who does not say `Authorization: Bearer K` has to log in.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::{Wire, answer, has, hear, value};

static SESSIONS: Mutex<Option<HashSet<String>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);
/// What the stream that was cut has not said yet.
static REST: Mutex<Option<Value>> = Mutex::new(None);

struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Request {
    fn read(stream: &TcpStream) -> Option<Self> {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, path) = (words.next()?, words.next()?);
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_lowercase(), value.trim().to_owned()));
        }
        let mut request = Self { method, path, headers, body: Vec::new() };
        let length = request.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        request.body.resize(length, 0);
        reader.read_exact(&mut request.body).ok()?;
        Some(request)
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// Serves until it is ended, or the end of its input says that nobody is there.
pub(crate) fn serve(modes: &'static [String]) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/mcp", listener.local_addr().unwrap());
    let mut file = std::env::var_os("MCP_HEARD").unwrap();
    file.push(".url");
    // Whoever sees it sees all of it.
    let mut made = file.clone();
    made.push(".new");
    std::fs::write(&made, address).unwrap();
    std::fs::rename(made, file).unwrap();
    std::thread::spawn(|| {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink()).ok();
        std::process::exit(0);
    });
    for stream in listener.incoming() {
        std::thread::spawn(move || {
            let mut stream = stream.unwrap();
            if let Some(request) = Request::read(&stream) {
                // The client may be gone.
                respond(&mut stream, modes, &request).ok();
            }
        });
    }
}

fn respond(
    stream: &mut TcpStream,
    modes: &'static [String],
    request: &Request,
) -> std::io::Result<()> {
    if has(modes, "moved") && request.path == "/mcp" {
        return head(stream, "307 Temporary Redirect", &["location: /mcp/".to_owned()], b"");
    }
    if has(modes, "elsewhere") {
        let other = "location: http://localhost:1/mcp".to_owned();
        return head(stream, "307 Temporary Redirect", &[other], b"");
    }
    let key = value(modes, "key").map(|key| format!("Bearer {key}"));
    if key.is_some() && request.header("authorization") != key.as_deref() {
        hear("no key");
        let challenge = "www-authenticate: Bearer".to_owned();
        return head(stream, "401 Unauthorized", &[challenge], b"");
    }
    if has(modes, "forbidden") {
        hear("forbidden");
        return head(stream, "403 Forbidden", &[], b"not you");
    }
    match request.method.as_str() {
        "GET" => listen(stream, modes, request),
        "DELETE" => {
            hear("delete");
            head(stream, "200 OK", &[], b"")
        }
        _ => post(stream, modes, request),
    }
}

/// A stream that the client opens.
fn listen(stream: &mut TcpStream, modes: &[String], request: &Request) -> std::io::Result<()> {
    hear("get");
    if request.header("last-event-id").is_some() {
        let rest = REST.lock().unwrap().take();
        events_head(stream, None)?;
        return rest.map_or(Ok(()), |rest| event(stream, Some("2"), &rest));
    }
    if has(modes, "get-resets") {
        events_head(stream, None)?;
        // What was not read yet turns the end into a reset.
        rustix::net::sockopt::set_socket_linger(&*stream, Some(std::time::Duration::ZERO))?;
        return Ok(());
    }
    if has(modes, "get-closes") {
        return events_head(stream, None);
    }
    head(stream, "405 Method Not Allowed", &[], b"")
}

fn post(
    stream: &mut TcpStream,
    modes: &'static [String],
    request: &Request,
) -> std::io::Result<()> {
    let message: Value = serde_json::from_slice(&request.body).unwrap();
    let method = message["method"].as_str().unwrap_or("answer");
    let tool = message["params"]["name"].as_str().unwrap_or_default();
    let mut session = None;
    if method == "initialize" {
        let id = format!("s{}", NEXT.fetch_add(1, Ordering::SeqCst));
        SESSIONS.lock().unwrap().get_or_insert_default().insert(id.clone());
        session = Some(id);
    } else {
        let known = request.header("mcp-session-id").is_some_and(|id| {
            SESSIONS.lock().unwrap().as_ref().is_some_and(|sessions| sessions.contains(id))
        });
        if !known || has(modes, "always-404") {
            hear("unknown session");
            let error =
                json!({"code": -32000, "message": "Bad Request: No valid session ID provided"});
            let error = json!({"jsonrpc": "2.0", "id": null, "error": error});
            return match has(modes, "stale-400") {
                true => json_head(stream, "400 Bad Request", None, &error),
                false => head(stream, "404 Not Found", &[], b"gone"),
            };
        }
    }
    hear(method);
    if message.get("id").is_none() || message.get("method").is_none() {
        return head(stream, "202 Accepted", &[], b"");
    }
    if method == "tools/call" && !matches!(tool, "forget") && is_own(tool) {
        hear(&format!("call {tool}"));
    }
    match tool {
        // As a server does that was started again.
        "forget" => SESSIONS.lock().unwrap().get_or_insert_default().clear(),
        "html" => {
            return head(stream, "200 OK", &["content-type: text/html".to_owned()], b"<h1>hi</h1>");
        }
        "status-429" => {
            return head(stream, "429 Too Many Requests", &["retry-after: 7".to_owned()], b"");
        }
        "status-500" => return head(stream, "500 Internal Server Error", &[], b"oh"),
        "status-403" => return head(stream, "403 Forbidden", &[], b"not you"),
        "status-401" => return head(stream, "401 Unauthorized", &[], b"who are you"),
        "cut" => {
            events_head(stream, None)?;
            return stream.write_all(b"data: {\"jsonrpc\"");
        }
        "resume" => {
            let result = json!({"content": [{"type": "text", "text": "in two parts"}]});
            let rest = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            REST.lock().unwrap().replace(rest);
            events_head(stream, None)?;
            return stream.write_all(b"id: 1\nretry: 10\ndata:\n\n");
        }
        _ => {}
    }
    let (answers, answered) = channel();
    let request = message.clone();
    answer(&Wire::Answer(answers), modes, &request);
    match has(modes, "events") || tool == "work" {
        true => {
            events_head(stream, session.as_deref())?;
            events(stream, &answered)
        }
        false => {
            // Notifications have no place in it.
            let answer = answered.iter().find(|it| it.get("method").is_none());
            match answer {
                Some(answer) => json_head(stream, "200 OK", session.as_deref(), &answer),
                // A call without an answer: until the client hangs up.
                None => stream.read_to_end(&mut Vec::new()).map(drop),
            }
        }
    }
}

/// Whether only this wire knows what the tool does.
fn is_own(tool: &str) -> bool {
    matches!(tool, "html" | "cut" | "resume") || tool.starts_with("status-")
}

fn events(stream: &mut TcpStream, answered: &Receiver<Value>) -> std::io::Result<()> {
    for message in answered {
        event(stream, None, &message)?;
        if message.get("method").is_none() {
            return Ok(());
        }
    }
    stream.read_to_end(&mut Vec::new()).map(drop)
}

fn event(stream: &mut TcpStream, id: Option<&str>, message: &Value) -> std::io::Result<()> {
    let id = id.map_or_else(String::new, |id| format!("id: {id}\n"));
    stream.write_all(format!("{id}data: {message}\n\n").as_bytes())
}

fn events_head(stream: &mut TcpStream, session: Option<&str>) -> std::io::Result<()> {
    let session = session.map_or_else(String::new, |id| format!("mcp-session-id: {id}\r\n"));
    let text = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n{session}connection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes())
}

fn json_head(
    stream: &mut TcpStream,
    status: &str,
    session: Option<&str>,
    body: &Value,
) -> std::io::Result<()> {
    let mut lines = vec!["content-type: application/json".to_owned()];
    lines.extend(session.map(|id| format!("mcp-session-id: {id}")));
    head(stream, status, &lines, body.to_string().as_bytes())
}

fn head(
    stream: &mut TcpStream,
    status: &str,
    lines: &[String],
    body: &[u8],
) -> std::io::Result<()> {
    let lines: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = body.len();
    let text = format!(
        "HTTP/1.1 {status}\r\n{lines}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(text.as_bytes())?;
    stream.write_all(body)
}
