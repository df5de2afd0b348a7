//! A language server for the tests: good by itself (`toy.rs`), and made to misbehave by a script, down to
//! the bytes. Its one argument names the script, a JSON object with these optional fields:
//!
//! `initialize`: merged over what it answers; `push`: it reports diagnostics by itself instead of being
//! asked; `noise`: it prints lines before and inside each frame; `full_only`/`ranges_only`: it ends on any
//! other change; `tree`: it has a child that nothing ends but SIGKILL; `deaf`: neither `exit` nor the end of
//! its input ends it; `rules`: a list of `{"on": METHOD, "nth": N, "from": N, "do": [ACTION, …]}`; without
//! `nth` and `from` a rule is for each message of that method, counted over all lives of the server.
//!
//! Actions: `good` (as without a rule), `reply` (a result), `error` (`[code, message]`), `big` (a result of
//! so many bytes), `notify` (`[method, params]`), `request` (`[id, method, params]`), `raw` (bytes),
//! `allocate` (so many MiB, held for ever), `child` (which holds so many MiB), `stderr` (a line), `wait` (until this file is there), `exit` (a code), `write` (so many bytes of
//! notifications before anything else is read), `behind` (`[method, [ACTION, …]]`: these once the next message of
//! that method is answered). `ROOT` in a text is the URI of the project.
//!
//! What it hears is a line of JSON each in the file that `LSP_HEARD` names, and an empty file beside it:
//! `NAME.textDocument-hover.2` for the second of that method.

// A test program: whatever cannot be done ends it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(clippy::print_stdout, clippy::print_stderr, clippy::disallowed_methods)]
#![allow(clippy::string_slice)]

mod toy;

use std::io::Write as _;
use std::sync::Mutex;

use serde_json::{Value, json};

use toy::Toy;

static OUT: Mutex<()> = Mutex::new(());

fn main() {
    let script = std::env::args().nth(1).map(|path| std::fs::read_to_string(path).unwrap());
    let script: Value = script.map_or(json!({}), |text| serde_json::from_str(&text).unwrap());
    let script: &'static Value = Box::leak(Box::new(script));
    if script["tree"] == true {
        let stubborn = "trap '' TERM; while :; do sleep 60; done";
        let child = std::process::Command::new("sh").args(["-c", stubborn]).spawn();
        // Not waited for: whoever ends this server ends it, too.
        std::mem::forget(child.unwrap());
    }
    hear(&json!({"method": "started"}));
    let mut server =
        Server { script, toy: Toy::default(), root: String::new(), behind: Vec::new() };
    let mut input = std::io::stdin().lock();
    while let Some(message) = read(&mut input) {
        server.take(&message);
    }
    if script["deaf"] == true {
        loop {
            std::thread::park();
        }
    }
}

struct Server {
    script: &'static Value,
    toy: Toy,
    root: String,
    /// What is to be done behind the next answer to a method.
    behind: Vec<(String, Vec<Value>)>,
}

impl Server {
    fn take(&mut self, message: &Value) {
        let method = message["method"].as_str().unwrap_or("answer").to_owned();
        let count = hear(message);
        if method == "initialize" {
            self.root = message["params"]["rootUri"].as_str().unwrap().to_owned();
            self.toy.begin(&message["params"], self.script);
        }
        if method == "exit" && self.script["deaf"] != true {
            std::process::exit(1);
        }
        self.check(&method, message);
        let applies = |rule: &&Value| {
            let is_nth = rule.get("nth").is_none_or(|nth| *nth == count);
            let is_behind = rule.get("from").is_none_or(|from| count >= from.as_u64().unwrap());
            rule["on"] == *method && is_nth && is_behind
        };
        let rules = self.script["rules"].as_array();
        match rules.into_iter().flatten().find(applies) {
            Some(rule) => {
                let actions = rule["do"].as_array().unwrap();
                // The text is the newest before anything of it is told.
                self.toy.hear(&method, &message["params"]);
                for action in actions {
                    self.act(action, message);
                }
            }
            None => {
                self.toy.hear(&method, &message["params"]);
                self.good(&method, message);
            }
        }
        let (due, behind) =
            std::mem::take(&mut self.behind).into_iter().partition(|(on, _)| *on == method);
        self.behind = behind;
        let due: Vec<(String, Vec<Value>)> = due;
        for action in due.iter().flat_map(|(_, actions)| actions) {
            self.act(action, message);
        }
    }

    fn check(&self, method: &str, message: &Value) {
        if method != "textDocument/didChange" {
            return;
        }
        let changes = message["params"]["contentChanges"].as_array().unwrap();
        let ranged = changes.iter().all(|change| change.get("range").is_some());
        let wrong = self.script["ranges_only"] == true && !ranged
            || self.script["full_only"] == true && ranged;
        if wrong {
            eprintln!("a change in a form that was not agreed on");
            std::process::exit(9);
        }
    }

    fn good(&mut self, method: &str, message: &Value) {
        if let Some(id) = message.get("id").filter(|_| message.get("method").is_some()) {
            match self.toy.answer(method, &message["params"]) {
                Some(result) => self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result})),
                None => {
                    let error = json!({"code": -32601, "message": "no such method"});
                    self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
                }
            }
        }
        if self.script["push"] == true && method.starts_with("textDocument/did") {
            for params in self.toy.pushes(&message["params"]["textDocument"]["uri"]) {
                let method = "textDocument/publishDiagnostics";
                self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
            }
        }
    }

    fn act(&mut self, action: &Value, message: &Value) {
        let text = action.to_string().replace("ROOT", &self.root);
        let action: Value = serde_json::from_str(&text).unwrap();
        let (name, value) = match &action {
            Value::String(name) => (name.clone(), Value::Null),
            action => action
                .as_object()
                .unwrap()
                .iter()
                .next()
                .map(|(a, b)| (a.clone(), b.clone()))
                .unwrap(),
        };
        let id = message["id"].clone();
        match name.as_str() {
            "good" => self.good(message["method"].as_str().unwrap(), message),
            "reply" => self.say(&json!({"jsonrpc": "2.0", "id": id, "result": value})),
            "error" => {
                let error = json!({"code": value[0], "message": value[1]});
                self.say(&json!({"jsonrpc": "2.0", "id": id, "error": error}));
            }
            "big" => {
                let text = "x".repeat(usize::try_from(value.as_u64().unwrap()).unwrap());
                self.say(&json!({"jsonrpc": "2.0", "id": id, "result": {"contents": text}}));
            }
            "notify" => {
                self.say(&json!({"jsonrpc": "2.0", "method": value[0], "params": value[1]}));
            }
            "request" => self.say(
                &json!({"jsonrpc": "2.0", "id": value[0], "method": value[1], "params": value[2]}),
            ),
            "raw" => raw(value.as_str().unwrap().as_bytes()),
            "behind" => {
                let actions = value[1].as_array().unwrap().clone();
                self.behind.push((value[0].as_str().unwrap().to_owned(), actions));
            }
            "stderr" => eprintln!("{}", value.as_str().unwrap()),
            "wait" => {
                let path = std::path::PathBuf::from(value.as_str().unwrap());
                while !path.exists() {
                    std::thread::park_timeout(std::time::Duration::from_millis(10));
                }
            }
            "allocate" => {
                // Written to, so that it is there.
                std::mem::forget(vec![
                    1_u8;
                    usize::try_from(value.as_u64().unwrap()).unwrap() << 20
                ]);
            }
            "child" => {
                // It holds that much as one long line.
                let hold = format!("x=$(head -c {}M /dev/zero | tr '\\0' x); sleep 600", value);
                std::mem::forget(
                    std::process::Command::new("sh").args(["-c", &hold]).spawn().unwrap(),
                );
            }
            "exit" => std::process::exit(i32::try_from(value.as_i64().unwrap()).unwrap()),
            "write" => {
                for _ in 0..value.as_u64().unwrap() / 4096 {
                    let params = json!({"type": 4, "message": "m".repeat(4096)});
                    self.say(
                        &json!({"jsonrpc": "2.0", "method": "window/logMessage", "params": params}),
                    );
                }
            }
            other => panic!("no action {other}"),
        }
    }

    fn say(&self, message: &Value) {
        let body = message.to_string();
        let noise = self.script["noise"] == true;
        let (before, inside) = if noise { ("a line of log\n", "another one\n") } else { ("", "") };
        let frame = format!("{before}Content-Length: {}\r\n\r\n{inside}{body}", body.len());
        raw(frame.as_bytes());
    }
}

fn raw(bytes: &[u8]) {
    let _one = OUT.lock().unwrap();
    // Nobody may listen any more when the agent is gone.
    std::io::stdout().write_all(bytes).ok();
    std::io::stdout().flush().ok();
}

fn read(input: &mut impl std::io::BufRead) -> Option<Value> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).unwrap_or(0) == 0 {
            return None;
        }
        match line.trim().split_once(": ") {
            Some(("Content-Length", number)) => length = number.parse().unwrap(),
            Some(_) => {}
            None if line.trim().is_empty() => break,
            None => panic!("no header: {line}"),
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(serde_json::from_slice(&body).unwrap())
}

/// Writes down a message; which one of its method it is.
fn hear(message: &Value) -> u64 {
    let Some(path) = std::env::var_os("LSP_HEARD") else { return 1 };
    let mut file = std::fs::OpenOptions::new().append(true).create(true).open(&path).unwrap();
    // In one piece, so that a server that is killed leaves no half of a line.
    file.write_all(format!("{message}\n").as_bytes()).unwrap();
    let method = message["method"].as_str().unwrap_or("answer");
    let mark = format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\"");
    let text = std::fs::read_to_string(&path).unwrap();
    let is_it = |line: &&str| {
        let of = |line| serde_json::from_str::<Value>(line).unwrap()["method"].clone();
        line.starts_with(&mark) || of(line).as_str().unwrap_or("answer") == method
    };
    let count = text.lines().filter(is_it).count();
    let mut beside = path;
    beside.push(format!(".{}.{count}", method.replace(['/', '$'], "-")));
    std::fs::write(beside, "").unwrap();
    count as u64
}
