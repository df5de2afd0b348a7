//! A language that is easily understood: `def NAME` defines, `impl NAME` implements, `NAME(` calls,
//! `undefined NAME` is an error and `doubtful NAME` a warning, `needs NAME` is one where NAME is defined nowhere. The project is all `.toy` files below the
//! root as they were at the start, or when it was last told that they changed; an open document goes before
//! the disk.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// What the server knows.
#[derive(Default)]
pub(crate) struct Toy {
    root: PathBuf,
    disk: BTreeMap<PathBuf, String>,
    open: BTreeMap<PathBuf, (String, i64)>,
    encoding: String,
    initialize: Value,
    push: bool,
}

/// A word in a text.
struct Word<'a> {
    path: &'a Path,
    line: usize,
    at: usize,
    text: &'a str,
    name: &'a str,
}

impl Toy {
    pub(crate) fn begin(&mut self, params: &Value, script: &Value) {
        self.root = path_of(params["rootUri"].as_str().unwrap());
        self.push = script["push"] == true;
        self.initialize = json!({
            "capabilities": {
                "positionEncoding": "utf-16",
                "textDocumentSync": {"openClose": true, "change": 2, "save": true},
                "definitionProvider": true, "typeDefinitionProvider": true,
                "implementationProvider": true, "referencesProvider": true,
                "hoverProvider": true, "documentSymbolProvider": true,
                "workspaceSymbolProvider": true, "callHierarchyProvider": true,
                "renameProvider": true,
            },
            "serverInfo": {"name": "toy", "version": "1"},
        });
        if !self.push {
            self.initialize["capabilities"]["diagnosticProvider"] =
                json!({"interFileDependencies": true, "workspaceDiagnostics": false});
        }
        merge(&mut self.initialize, &script["initialize"]);
        let encoding = &self.initialize["capabilities"]["positionEncoding"];
        self.encoding = encoding.as_str().unwrap_or("utf-16").to_owned();
        let root = self.root.clone();
        self.load(&root);
    }

    fn load(&mut self, folder: &Path) {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                self.load(&path);
            } else if path.extension().is_some_and(|it| it == "toy") {
                let bytes = std::fs::read(&path).unwrap();
                self.disk.insert(path, String::from_utf8_lossy(&bytes).into_owned());
            }
        }
    }

    pub(crate) fn hear(&mut self, method: &str, params: &Value) {
        let document = &params["textDocument"];
        match method {
            "textDocument/didOpen" => {
                let text = document["text"].as_str().unwrap().to_owned();
                let version = document["version"].as_i64().unwrap();
                self.open.insert(path_of(document["uri"].as_str().unwrap()), (text, version));
            }
            "textDocument/didChange" => {
                let path = path_of(document["uri"].as_str().unwrap());
                let (mut text, _) = self.open.remove(&path).expect("it is open");
                for change in params["contentChanges"].as_array().unwrap() {
                    let new = change["text"].as_str().unwrap();
                    match change.get("range") {
                        Some(range) => {
                            let (start, end) = (
                                self.byte(&text, &range["start"]),
                                self.byte(&text, &range["end"]),
                            );
                            text.replace_range(start..end, new);
                        }
                        None => text = new.to_owned(),
                    }
                }
                self.open.insert(path, (text, document["version"].as_i64().unwrap()));
            }
            "textDocument/didClose" => {
                self.open.remove(&path_of(document["uri"].as_str().unwrap()));
            }
            "workspace/didChangeWatchedFiles" => {
                for change in params["changes"].as_array().unwrap() {
                    let path = path_of(change["uri"].as_str().unwrap());
                    match std::fs::read_to_string(&path) {
                        Ok(text) if path.extension().is_some_and(|it| it == "toy") => {
                            self.disk.insert(path, text);
                        }
                        _ => drop(self.disk.remove(&path)),
                    }
                }
            }
            _ => {}
        }
    }

    pub(crate) fn answer(&self, method: &str, params: &Value) -> Option<Value> {
        let name = || self.name_at(params);
        Some(match method {
            "initialize" => self.initialize.clone(),
            "shutdown" => Value::Null,
            "textDocument/definition" | "textDocument/typeDefinition" => {
                self.behind("def ", &name())
            }
            "textDocument/implementation" => self.behind("impl ", &name()),
            "textDocument/references" => {
                let name = name();
                self.words()
                    .filter(|word| word.name == name)
                    .map(|word| self.location(&word))
                    .collect()
            }
            "textDocument/hover" => {
                let name = name();
                let mut defined =
                    self.words().filter(|word| is_behind(word, "def ") && word.name == name);
                match defined.next() {
                    Some(word) => json!({"contents": {"kind": "markdown", "value": word.text}}),
                    None => Value::Null,
                }
            }
            "textDocument/documentSymbol" => {
                let path = path_of(params["textDocument"]["uri"].as_str().unwrap());
                let here = self.words().filter(|word| word.path == path && is_behind(word, "def "));
                here.map(|word| {
                    let range = &self.location(&word)["range"];
                    json!({"name": word.name, "kind": 12, "range": range, "selectionRange": range})
                })
                .collect()
            }
            "workspace/symbol" => {
                let query = params["query"].as_str().unwrap();
                let like = self
                    .words()
                    .filter(|word| is_behind(word, "def ") && word.name.contains(query));
                like.map(
                    |word| json!({"name": word.name, "kind": 12, "location": self.location(&word)}),
                )
                .collect()
            }
            "textDocument/prepareCallHierarchy" => {
                let name = name();
                self.functions().into_iter().filter(|item| item["name"] == *name).collect()
            }
            "callHierarchy/incomingCalls" => {
                self.incoming(params["item"]["name"].as_str().unwrap())
            }
            "callHierarchy/outgoingCalls" => {
                self.outgoing(params["item"]["name"].as_str().unwrap())
            }
            "textDocument/rename" => {
                let (name, mut changes) = (name(), serde_json::Map::new());
                for word in self.words().filter(|word| word.name == name) {
                    let location = self.location(&word);
                    let edit = json!({"range": location["range"], "newText": params["newName"]});
                    let list =
                        changes.entry(location["uri"].as_str().unwrap()).or_insert(json!([]));
                    list.as_array_mut().unwrap().push(edit);
                }
                json!({"changes": changes})
            }
            "textDocument/diagnostic" if !self.push => {
                let path = path_of(params["textDocument"]["uri"].as_str().unwrap());
                json!({"kind": "full", "items": self.problems(&path)})
            }
            _ => return None,
        })
    }

    /// What it reports of an open document by itself.
    pub(crate) fn pushes(&self, uri: &Value) -> Vec<Value> {
        let path = path_of(uri.as_str().unwrap());
        let Some((_, version)) = self.open.get(&path) else { return Vec::new() };
        let own = json!({"uri": uri, "version": version, "diagnostics": self.problems(&path)});
        // And of the open ones that may depend on it.
        let depends = |(other, (text, _)): &(&PathBuf, &(String, i64))| {
            **other != path && text.contains("needs ")
        };
        let others = self.open.iter().filter(depends).map(|(other, (_, version))| {
            let uri = format!("file://{}", other.display());
            json!({"uri": uri, "version": version, "diagnostics": self.problems(other)})
        });
        std::iter::once(own).chain(others).collect()
    }

    fn problems(&self, path: &Path) -> Value {
        let here = self.words().filter(|word| word.path == path);
        here.filter_map(|word| {
            let (severity, message) = match () {
                () if is_behind(&word, "undefined ") => (1, format!("{} is undefined", word.name)),
                () if is_behind(&word, "needs ")
                    && self.behind("def ", word.name) == json!([]) =>
                {
                    (1, format!("{} is needed and not defined", word.name))
                }
                () if is_behind(&word, "doubtful ") => (2, format!("{} is doubtful", word.name)),
                () => return None,
            };
            let range = &self.location(&word)["range"];
            Some(json!({"range": range, "severity": severity, "message": message, "source": "toy", "code": 7}))
        })
        .collect()
    }

    fn behind(&self, keyword: &str, name: &str) -> Value {
        let found = self.words().filter(|word| word.name == name && is_behind(word, keyword));
        found.map(|word| self.location(&word)).collect()
    }

    fn functions(&self) -> Vec<Value> {
        let defined = self.words().filter(|word| is_behind(word, "def "));
        defined
            .map(|word| {
                let Value::Object(mut item) = self.location(&word) else { unreachable!() };
                item.insert("selectionRange".into(), item["range"].clone());
                item.insert("name".into(), json!(word.name));
                item.insert("kind".into(), json!(12));
                Value::Object(item)
            })
            .collect()
    }

    /// Calls as (caller, called, range): a call belongs to the last definition above it.
    fn calls(&self) -> Vec<(Value, String, Value)> {
        let functions = self.functions();
        let is_call = |word: &Word<'_>| {
            word.text[word.at + word.name.len()..].starts_with('(') && !is_behind(word, "def ")
        };
        self.words()
            .filter(is_call)
            .filter_map(|word| {
                let location = self.location(&word);
                let above = |item: &&Value| {
                    item["uri"] == location["uri"]
                        && item["range"]["start"]["line"].as_u64() <= Some(word.line as u64)
                };
                let caller = functions.iter().rfind(above)?;
                Some((caller.clone(), word.name.to_owned(), location["range"].clone()))
            })
            .collect()
    }

    fn incoming(&self, name: &str) -> Value {
        let calls = self.calls().into_iter().filter(|(_, called, _)| called == name);
        calls.map(|(caller, _, range)| json!({"from": caller, "fromRanges": [range]})).collect()
    }

    fn outgoing(&self, name: &str) -> Value {
        let functions = self.functions();
        let calls = self.calls().into_iter().filter(|(caller, _, _)| caller["name"] == name);
        calls
            .filter_map(|(_, called, range)| {
                let to = functions.iter().find(|item| item["name"] == *called)?;
                Some(json!({"to": to, "fromRanges": [range]}))
            })
            .collect()
    }

    /// All files, the open ones as they are shown.
    fn texts(&self) -> impl Iterator<Item = (&Path, &str)> {
        let closed = self.disk.iter().filter(|(path, _)| !self.open.contains_key(*path));
        let closed = closed.map(|(path, text)| (path.as_path(), text.as_str()));
        closed.chain(self.open.iter().map(|(path, (text, _))| (path.as_path(), text.as_str())))
    }

    fn words(&self) -> impl Iterator<Item = Word<'_>> {
        self.texts().flat_map(|(path, text)| {
            lines(text).into_iter().enumerate().flat_map(move |(line, text)| {
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let mut found = Vec::new();
                let mut begin = None;
                for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
                    match (is_word(c), begin) {
                        (true, None) => begin = Some(at),
                        (false, Some(start)) => {
                            found.push(Word {
                                path,
                                line,
                                at: start,
                                text,
                                name: &text[start..at],
                            });
                            begin = None;
                        }
                        _ => {}
                    }
                }
                found
            })
        })
    }

    fn name_at(&self, params: &Value) -> String {
        let path = path_of(params["textDocument"]["uri"].as_str().unwrap());
        let position = &params["position"];
        let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
        let column = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
        let mut here =
            self.words().filter(|word| word.path == path && word.line == line).peekable();
        let Some(first) = here.peek() else { return String::new() };
        let place = json!({"line": 0, "character": column});
        let column = self.byte(first.text, &place);
        let at = |word: &Word<'_>| (word.at..=word.at + word.name.len()).contains(&column);
        here.filter(at).last().map_or_else(String::new, |word| word.name.to_owned())
    }

    fn location(&self, word: &Word<'_>) -> Value {
        let (start, end) = self.columns(word);
        json!({"uri": uri_of(word.path), "range": {
            "start": {"line": word.line, "character": start},
            "end": {"line": word.line, "character": end},
        }})
    }

    fn columns(&self, word: &Word<'_>) -> (usize, usize) {
        let units = |text: &str| match self.encoding.as_str() {
            "utf-8" => text.len(),
            "utf-32" => text.chars().count(),
            _ => text.encode_utf16().count(),
        };
        let start = units(&word.text[..word.at]);
        (start, start + units(word.name))
    }

    fn byte(&self, text: &str, position: &Value) -> usize {
        let line = usize::try_from(position["line"].as_u64().unwrap()).unwrap();
        let column = usize::try_from(position["character"].as_u64().unwrap()).unwrap();
        let line = lines(text)[line];
        let begin = line.as_ptr() as usize - text.as_ptr() as usize;
        let mut units = 0;
        for (at, c) in line.char_indices() {
            if units == column {
                return begin + at;
            }
            units += match self.encoding.as_str() {
                "utf-8" => c.len_utf8(),
                "utf-32" => 1,
                _ => c.len_utf16(),
            };
        }
        assert_eq!(units, column, "a column behind the line's end");
        begin + line.len()
    }
}

/// Lines as the protocol has them.
fn lines(text: &str) -> Vec<&str> {
    let (mut lines, mut start, mut chars) = (Vec::new(), 0, text.char_indices().peekable());
    while let Some((at, c)) = chars.next() {
        match c {
            '\r' if chars.peek().is_some_and(|(_, next)| *next == '\n') => {
                lines.push(&text[start..at]);
                chars.next();
                start = at + 2;
            }
            '\n' | '\r' => {
                lines.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    lines.push(&text[start..]);
    lines
}

fn is_behind(word: &Word<'_>, keyword: &str) -> bool {
    word.text[..word.at].ends_with(keyword)
}

fn merge(into: &mut Value, from: &Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (name, value) in from {
                merge(into.entry(name).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (into, from) => *into = from.clone(),
    }
}

fn path_of(uri: &str) -> PathBuf {
    let text = uri.strip_prefix("file://").unwrap();
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        if *first == b'%' {
            let digits = std::str::from_utf8(&behind[..2]).unwrap();
            bytes.push(u8::from_str_radix(digits, 16).unwrap());
            rest = &behind[2..];
        } else {
            bytes.push(*first);
            rest = behind;
        }
    }
    PathBuf::from(String::from_utf8(bytes).unwrap())
}

/// As rust-analyzer and ty spell it: brackets and more as they are.
fn uri_of(path: &Path) -> String {
    let text = path.to_str().unwrap();
    let escaped = text.chars().map(|c| match c {
        ' ' | '%' | '#' | '?' => format!("%{:02x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("file://{}", escaped.collect::<String>())
}
