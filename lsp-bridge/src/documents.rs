//! The documents that a server has open: shown before it is asked about them, kept as the disk has them,
//! and closed again when there are too many.
//!
//! A server believes what it was shown more than the disk, so each open document is compared with the
//! disk before every question, not only the one that is asked about.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_world::files::{ContentHash, Files};
use serde_json::{Value, json};

use crate::connection::{Connection, NoAnswer, put};
use crate::heard::Heard;
use crate::position::{Encoding, Range, whole};
use crate::source::{Mark, Source};
use crate::uri::uri_of;

/// How many documents a server has open at most; the one that was used least recently is closed.
const MAX_OPEN: usize = 50;

/// How a server takes changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    /// Not at all: the document is closed and opened again.
    None,
    /// As the whole text.
    Full,
    /// As ranges.
    Ranges,
}

/// How a server wants to be told of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sync {
    pub(crate) changes: Changes,
    /// Whether it is told that a file was written, and with its text.
    pub(crate) save: Option<bool>,
}

impl Sync {
    /// Reads what the server says of it.
    pub(crate) fn of(capability: Option<&Value>) -> Self {
        let kind = |kind: Option<u64>| match kind {
            Some(1) => Changes::Full,
            Some(2) => Changes::Ranges,
            _ => Changes::None,
        };
        match capability {
            Some(Value::Number(number)) => {
                Self { changes: kind(number.as_u64()), save: Some(false) }
            }
            Some(options) => {
                let save = options.get("save");
                let with_text = |save: &Value| save.get("includeText").and_then(Value::as_bool);
                let wanted = save.filter(|save| save.is_object() || **save == Value::Bool(true));
                Self {
                    changes: kind(options.get("change").and_then(Value::as_u64)),
                    save: wanted.map(|save| with_text(save).unwrap_or(false)),
                }
            }
            None => Self { changes: Changes::None, save: None },
        }
    }
}

/// The open documents of one server.
pub(crate) struct Documents {
    open: HashMap<PathBuf, Open>,
    sync: Sync,
    encoding: Encoding,
    /// Counts uses and versions, which are never given twice.
    count: i64,
}

struct Open {
    version: i64,
    hash: ContentHash,
    mark: Option<Mark>,
    /// The range of all of what was shown last.
    range: Range,
    language: String,
    used: i64,
    /// How many pushes had come when it was shown.
    pushes: u64,
}

/// What a server has been shown of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) version: i64,
    /// How many pushes had come before.
    pub(crate) pushes: u64,
}

/// A document that a server has open.
#[derive(Clone, Debug)]
pub(crate) struct Document {
    pub(crate) path: PathBuf,
    pub(crate) language: String,
    pub(crate) shown: Shown,
}

/// To whom it is shown.
pub(crate) struct Wire<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) heard: &'a Heard,
}

impl Documents {
    pub(crate) fn new(sync: Sync, encoding: Encoding) -> Self {
        Self { open: HashMap::new(), sync, encoding, count: 0 }
    }

    /// Shows the server what a file holds now, and what has changed in the others.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn show(
        &mut self,
        wire: &Wire<'_>,
        source: &Source,
        language: &str,
        files: &Arc<dyn Files>,
    ) -> Result<Shown, NoAnswer> {
        self.refresh(wire, files, Some(&source.path)).await?;
        self.put(wire, source, language).await?;
        self.close_excess(wire).await?;
        let open = self.open.get(&source.path).ok_or(NoAnswer::Gone)?;
        Ok(Shown { version: open.version, pushes: open.pushes })
    }

    /// What is open, what was used last first.
    pub(crate) fn all(&self) -> Vec<Document> {
        let mut open: Vec<_> = self.open.iter().collect();
        open.sort_by_key(|(_, open)| std::cmp::Reverse(open.used));
        let document = |(path, open): (&PathBuf, &Open)| Document {
            path: path.clone(),
            language: open.language.clone(),
            shown: Shown { version: open.version, pushes: open.pushes },
        };
        open.into_iter().map(document).collect()
    }

    /// What is open, each with what the file looked like when it was shown last.
    pub(crate) fn marks(&self) -> Vec<(PathBuf, Option<Mark>)> {
        self.open.iter().map(|(path, open)| (path.clone(), open.mark)).collect()
    }

    /// Shows what has changed on the disk of the open documents, except of this one.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn refresh(
        &mut self,
        wire: &Wire<'_>,
        files: &Arc<dyn Files>,
        except: Option<&Path>,
    ) -> Result<(), NoAnswer> {
        let mut known = self.marks();
        known.retain(|(path, _)| Some(path.as_path()) != except);
        if known.is_empty() {
            return Ok(());
        }
        let files = Arc::clone(files);
        let look = tokio::task::spawn_blocking(move || {
            let changed = known.into_iter().filter(|(path, mark)| Mark::of(path) != *mark);
            changed
                .map(|(path, _)| {
                    let source = Source::read(&*files, &path).ok();
                    (path, source)
                })
                .collect::<Vec<_>>()
        });
        for (path, source) in look.await.unwrap_or_default() {
            let language = self.open.get(&path).map(|open| open.language.clone());
            match source {
                Some(source) => self.put(wire, &source, &language.unwrap_or_default()).await?,
                None => self.close(wire, &path).await?,
            }
        }
        Ok(())
    }

    async fn put(
        &mut self,
        wire: &Wire<'_>,
        source: &Source,
        language: &str,
    ) -> Result<(), NoAnswer> {
        self.count += 1;
        let used = self.count;
        if let Some(open) = self.open.get_mut(&source.path) {
            open.used = used;
            open.mark = source.mark;
            if open.hash == source.hash {
                // Nothing is said again of a text that is the same.
                return Ok(());
            }
            if self.sync.changes != Changes::None {
                return self.change(wire, source).await;
            }
            wire.heard.changes();
            self.close(wire, &source.path).await?;
        }
        let open = Open {
            version: used,
            hash: source.hash,
            mark: source.mark,
            range: whole(&source.text, self.encoding),
            language: language.to_owned(),
            used,
            pushes: wire.heard.pushes(),
        };
        let document = json!({
            "uri": uri_of(&source.path),
            "languageId": language,
            "version": open.version,
            "text": &*source.text,
        });
        self.open.insert(source.path.clone(), open);
        wire.connection.tell("textDocument/didOpen", Some(json!({"textDocument": document}))).await
    }

    async fn change(&mut self, wire: &Wire<'_>, source: &Source) -> Result<(), NoAnswer> {
        let Some(open) = self.open.get_mut(&source.path) else { return Ok(()) };
        let before = open.range;
        open.version = self.count;
        open.hash = source.hash;
        open.range = whole(&source.text, self.encoding);
        open.pushes = wire.heard.pushes();
        let uri = uri_of(&source.path);
        let text = &*source.text;
        // One range around all: some servers do not survive a text without one.
        let change = match self.sync.changes {
            Changes::Ranges => json!({"range": before.to_wire(), "text": text}),
            Changes::Full | Changes::None => json!({"text": text}),
        };
        let document = json!({"uri": uri, "version": open.version});
        let params = json!({"textDocument": document, "contentChanges": [change]});
        wire.heard.changes();
        wire.connection.tell("textDocument/didChange", Some(params)).await?;
        // It is on the disk: some servers check nothing before they hear so.
        self.save(wire, source).await
    }

    /// Tells the server that a file was saved, if it wants to hear that.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn save(&self, wire: &Wire<'_>, source: &Source) -> Result<(), NoAnswer> {
        // Whatever it does on account of a change, it does from now on.
        wire.heard.saves();
        let Some(with_text) = self.sync.save else { return Ok(()) };
        let mut params = json!({"textDocument": {"uri": uri_of(&source.path)}});
        if with_text {
            put(&mut params, "text", json!(&*source.text));
        }
        wire.connection.tell("textDocument/didSave", Some(params)).await
    }

    async fn close(&mut self, wire: &Wire<'_>, path: &Path) -> Result<(), NoAnswer> {
        if self.open.remove(path).is_none() {
            return Ok(());
        }
        wire.heard.forget(path);
        let params = json!({"textDocument": {"uri": uri_of(path)}});
        wire.connection.tell("textDocument/didClose", Some(params)).await
    }

    async fn close_excess(&mut self, wire: &Wire<'_>) -> Result<(), NoAnswer> {
        while self.open.len() > MAX_OPEN {
            let oldest = self.open.iter().min_by_key(|(_, open)| open.used);
            let Some(path) = oldest.map(|(path, _)| path.clone()) else { return Ok(()) };
            self.close(wire, &path).await?;
        }
        Ok(())
    }
}
