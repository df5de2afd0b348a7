//! A language server that is spoken with directly, by a client that does nothing else: what is its own time.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

/// The least of several times: whatever else runs only adds.
pub(crate) fn least(times: &[Duration]) -> Duration {
    times.iter().copied().min().unwrap()
}

/// The server and its pipes. Dropped, it is ended.
pub(crate) struct Direct {
    child: Child,
    answers: BufReader<ChildStdout>,
    root: PathBuf,
    asked: u64,
}

impl Direct {
    #[expect(clippy::disallowed_methods, reason = "what it costs without us")]
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        root: &Path,
        variable: Option<(&str, &Path)>,
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root).envs(variable);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Self { child, answers, root: root.to_owned(), asked: 0 }
    }

    fn send(&mut self, message: &Value) {
        let text = message.to_string();
        let pipe = self.child.stdin.as_mut().unwrap();
        write!(pipe, "Content-Length: {}\r\n\r\n{text}", text.len()).unwrap();
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params}));
    }

    /// Asks, and answers what the server asks meanwhile: it has no settings.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        loop {
            let message = self.read();
            match (message.get("method"), message.get("id")) {
                (None, Some(answered)) if *answered == id => return message["result"].clone(),
                (Some(_), Some(asked)) => {
                    let items = message["params"]["items"].as_array();
                    let nothing = items.map(|items| vec![Value::Null; items.len()]);
                    self.send(&json!({"jsonrpc": "2.0", "id": asked, "result": nothing}));
                }
                _ => {}
            }
        }
    }

    fn read(&mut self) -> Value {
        let mut length = 0;
        loop {
            let mut line = String::new();
            self.answers.read_line(&mut line).unwrap();
            match line.trim().strip_prefix("Content-Length: ") {
                Some(number) => length = number.parse().unwrap(),
                None if line.trim().is_empty() => break,
                None => {}
            }
        }
        let mut text = vec![0; length];
        self.answers.read_exact(&mut text).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    fn uri(&self, file: &str) -> String {
        format!("file://{}/{file}", self.root.display())
    }

    pub(crate) fn introduce(&mut self, options: &Value) {
        let root = format!("file://{}", self.root.display());
        let dynamic = json!({"dynamicRegistration": true});
        let linked = json!({"dynamicRegistration": true, "linkSupport": true});
        // What we can do, too: it decides what a server does before it answers.
        let capabilities = json!({
            "window": {"workDoneProgress": true},
            "workspace": {"configuration": true, "workspaceFolders": true, "symbol": dynamic,
                "didChangeConfiguration": dynamic, "diagnostics": {"refreshSupport": true},
                "didChangeWatchedFiles": {"dynamicRegistration": true, "relativePatternSupport": true}},
            "textDocument": {"synchronization": {"didSave": true}, "definition": linked,
                "publishDiagnostics": {"versionSupport": true, "relatedInformation": true},
                "diagnostic": {"dynamicRegistration": true, "relatedDocumentSupport": true},
                "documentSymbol": {"hierarchicalDocumentSymbolSupport": true}},
            "experimental": {"serverStatusNotification": true},
        });
        let params = json!({"processId": std::process::id(), "rootUri": root,
            "workspaceFolders": [{"uri": root, "name": "w"}], "initializationOptions": options,
            "capabilities": capabilities});
        self.ask("initialize", params);
        self.tell("initialized", json!({}));
    }

    pub(crate) fn open(&mut self, file: &str, language: &str, text: &str) {
        let document =
            json!({"uri": self.uri(file), "languageId": language, "version": 1, "text": text});
        self.tell("textDocument/didOpen", json!({"textDocument": document}));
    }

    /// `line` from 0, `character` in units of UTF-16.
    pub(crate) fn definition(&mut self, file: &str, line: usize, character: usize) -> Value {
        let position = json!({"line": line, "character": character});
        let document = json!({"uri": self.uri(file)});
        self.ask("textDocument/definition", json!({"textDocument": document, "position": position}))
    }
}

impl Drop for Direct {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}
