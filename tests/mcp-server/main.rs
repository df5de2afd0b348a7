//! A scripted MCP server over pipes, with the defects that real ones have. Its arguments are modes, each
//! one way to misbehave; without any it is a good server. What it hears is a line each in the file that
//! `MCP_HEARD` names, and an empty file beside it: `NAME.tools-list.2` for the second `tools/list`.

// A test program: whatever cannot be done ends it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]

use std::io::{BufRead as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

static OUT: Mutex<()> = Mutex::new(());
static GROWN: AtomicBool = AtomicBool::new(false);

fn main() {
    let modes: Vec<String> = std::env::args().skip(1).collect();
    let modes: &'static [String] = modes.leak();
    if has(modes, "loud") {
        for _ in 0..10_000 {
            eprintln!("{}", "noise ".repeat(170));
        }
    }
    if has(modes, "exit") {
        eprintln!("boom: no configuration");
        std::process::exit(3);
    }
    if has(modes, "tree") {
        // A grandchild that neither the end of its input nor SIGTERM ends.
        let stubborn = "trap '' TERM; while :; do sleep 60; done";
        let child = std::process::Command::new("sh").args(["-c", stubborn]).spawn();
        // Not waited for: whoever ends this server ends it, too.
        std::mem::forget(child.unwrap());
    }
    if has(modes, "junk") {
        println!("Server listening on nothing\n\nnull\n[1,2]\n\"text\"");
    }
    for line in std::io::stdin().lock().lines() {
        let Ok(message) = serde_json::from_str::<Value>(&line.unwrap()) else { continue };
        hear(message["method"].as_str().unwrap_or("answer"));
        if message.get("method").is_some() && message.get("id").is_some() {
            answer(modes, &message);
        }
    }
    if has(modes, "tree") {
        loop {
            std::thread::park();
        }
    }
}

fn has(modes: &[String], mode: &str) -> bool {
    modes.iter().any(|it| it == mode)
}

/// The value of `name=value`.
fn value<'a>(modes: &'a [String], name: &str) -> Option<&'a str> {
    modes.iter().find_map(|it| it.strip_prefix(name)?.strip_prefix('='))
}

fn hear(what: &str) {
    let Some(path) = std::env::var_os("MCP_HEARD") else { return };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
    writeln!(file, "{what}").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let count = text.lines().filter(|line| *line == what).count();
    let mut mark = path;
    mark.push(format!(".{}.{count}", what.trim().replace(['/', ' '], "-")));
    std::fs::write(mark, "").unwrap();
}

fn say(message: &Value) {
    let _one = OUT.lock().unwrap();
    let mut line = message.to_string();
    line.push('\n');
    // Nobody listens any more when the agent is gone.
    std::io::stdout().write_all(line.as_bytes()).ok();
    std::io::stdout().flush().ok();
}

fn reply(id: &Value, result: &Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}));
}

fn answer(modes: &'static [String], request: &Value) {
    let id = request["id"].clone();
    match request["method"].as_str().unwrap() {
        "initialize" if has(modes, "silent") => {}
        "initialize" => {
            let version = value(modes, "version").unwrap_or("2025-11-25");
            let instructions = value(modes, "instructions");
            reply(
                &id,
                &json!({
                    "protocolVersion": version,
                    "capabilities": {"tools": {"listChanged": true}},
                    "serverInfo": {"name": "scripted", "version": "1"},
                    "instructions": instructions,
                }),
            );
        }
        "tools/list" => list(modes, &id, &request["params"]),
        "tools/call" => call(&id, &request["params"]),
        "ping" => reply(&id, &json!({})),
        _ => say(&json!({
            "jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"},
        })),
    }
}

fn tool(name: &str) -> Value {
    json!({
        "name": name,
        "description": format!("The scripted tool {name}."),
        "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
    })
}

const TOOLS: &[&str] = &[
    "echo", "fail", "env", "image", "both", "data", "aside", "link", "odd", "slow", "work",
    "crash", "huge", "idless", "refuse", "grow", "bash",
];

fn list(modes: &[String], id: &Value, params: &Value) {
    let mut tools: Vec<_> = TOOLS.iter().map(|name| tool(name)).collect();
    tools.extend(value(modes, "tool").map(tool));
    if GROWN.load(Ordering::SeqCst) {
        tools.push(tool("late"));
    }
    if has(modes, "bad-tools") {
        tools.extend([
            json!({"name": "noschema"}),
            json!({"name": "boolschema", "inputSchema": true}),
            json!({"name": "", "inputSchema": {}}),
            json!({"name": "x".repeat(300), "inputSchema": {}}),
            json!(7),
            tool("echo"),
            json!({"name": "badhints", "inputSchema": {}, "annotations": {"readOnlyHint": "no"}}),
        ]);
    }
    if has(modes, "endless") {
        return reply(id, &json!({"tools": tools, "nextCursor": "again"}));
    }
    if has(modes, "pages") {
        let page: usize = params["cursor"].as_str().map_or(0, |it| it.len());
        let tools: Vec<_> = (0..40).map(|n| tool(&format!("t{page}-{n}"))).collect();
        let next = (page < 2).then(|| "p".repeat(page + 1));
        return reply(id, &json!({"tools": tools, "nextCursor": next}));
    }
    reply(id, &json!({"tools": tools}));
}

fn text(text: impl Into<String>) -> Value {
    json!({"type": "text", "text": text.into()})
}

fn call(id: &Value, params: &Value) {
    let said = params["arguments"]["text"].as_str().unwrap_or_default();
    hear(&format!("call {} {said}", params["name"].as_str().unwrap()));
    let content = |parts: Value| reply(id, &json!({"content": parts}));
    // One black pixel.
    let pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
    match params["name"].as_str().unwrap() {
        "echo" | "late" | "bash" => content(json!([text(said)])),
        "fail" => reply(id, &json!({"content": [text("it broke")], "isError": true})),
        "env" => {
            let mut all: Vec<_> =
                std::env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            all.sort();
            let cwd = std::env::current_dir().unwrap();
            content(json!([text(format!("CWD={}\n{}", cwd.display(), all.join("\n")))]));
        }
        "image" => content(json!([{"type": "image", "mimeType": "image/png", "data": pixel}])),
        "both" => {
            reply(id, &json!({"content": [text("as text")], "structuredContent": {"as": "data"}}))
        }
        "data" => reply(id, &json!({"content": [], "structuredContent": {"only": "data"}})),
        "aside" => content(json!([
            {"type": "text", "text": "for you alone", "annotations": {"audience": ["user"]}},
            text("for everybody"),
        ])),
        "link" => content(json!([
            {"type": "resource_link", "uri": "file:///x", "name": "x", "mimeType": "text/plain"},
            {"type": "resource", "resource": {"uri": "mem://y", "text": "inside"}},
            {"type": "audio", "mimeType": "audio/wav", "data": "UklGRg=="},
        ])),
        "odd" => reply(id, &json!({"content": [{"type": "hologram", "depth": 3}, "plain"]})),
        "slow" => {}
        "work" => {
            let (id, token) = (id.clone(), params["_meta"]["progressToken"].clone());
            std::thread::spawn(move || {
                for step in 1..=5 {
                    say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {
                        "progressToken": token, "progress": step, "total": 5, "message": format!("step {step}"),
                    }}));
                }
                // A named pipe: there is something in it once somebody has seen that much.
                std::fs::read("gate").unwrap();
                reply(&id, &json!({"content": [text("worked")]}));
            });
        }
        "crash" => std::process::abort(),
        "huge" => content(json!([text("x".repeat(20 << 20))])),
        "idless" => say(
            &json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32600, "message": "what?"}}),
        ),
        "refuse" => say(
            &json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32602, "message": "not so"}}),
        ),
        "grow" => {
            GROWN.store(true, Ordering::SeqCst);
            for _ in 0..50 {
                say(&json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
            }
            content(json!([text("grown")]));
        }
        // One that a mode names.
        _ => content(json!([text(said)])),
    }
}
