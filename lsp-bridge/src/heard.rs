//! What a server says by itself, and what it is answered when it asks. Nothing that it asks for changes
//! anything: edits are refused, and questions to a person have no answer.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use bridle_compose::Clock;
use bridle_world::servers::Voice;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::answer::shown;
use crate::connection::Listener;
use crate::diagnostic::{Diagnostic, diagnostics};
use crate::uri::{path_of, uri_of};
use crate::work::{Checked, Kinds, Work};

/// Of how many files what was pushed is kept.
const MAX_FILES: usize = 2_000;

/// How many diagnostics of one file are kept.
const MAX_DIAGNOSTICS: usize = 1_000;

/// What is known of a server from what it said.
pub(crate) struct Heard {
    root: PathBuf,
    settings: Value,
    voice: Voice,
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
}

/// What a server said last.
#[derive(Clone, Debug)]
pub(crate) struct State {
    work: Work,
    /// Why its answers cannot be trusted, in its words.
    pub(crate) sick: Option<String>,
    /// What it said of files by itself.
    pushed: HashMap<PathBuf, Push>,
    /// How many times it did.
    pub(crate) pushes: u64,
    /// How many there had been when it was waited for another one in vain.
    silent_at: Option<u64>,
    /// What it registered: methods by id.
    registrations: HashMap<String, String>,
}

/// What a server said of a file by itself.
#[derive(Clone, Debug)]
pub(crate) struct Push {
    /// Of which version, if it said so.
    pub(crate) version: Option<i64>,
    /// Which of its pushes it was.
    pub(crate) number: u64,
    pub(crate) at: SystemTime,
    pub(crate) diagnostics: Arc<[Diagnostic]>,
    /// How many more cannot be read.
    pub(crate) unread: usize,
}

/// How far a server's answers can be taken for the whole truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Readiness {
    /// It has nothing more to do.
    Ready,
    /// It is so young that it may not have begun yet to find out.
    Young,
    /// It says that it is still at it.
    Loading(String),
    /// It says that it failed.
    Sick(String),
}

impl Heard {
    pub(crate) fn new(
        root: &Path,
        settings: Value,
        kinds: Kinds,
        voice: Voice,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let state = watch::Sender::new(State {
            work: Work::new(kinds, clock.now()),
            sick: None,
            pushed: HashMap::new(),
            pushes: 0,
            silent_at: None,
            registrations: HashMap::new(),
        });
        Self { root: root.to_owned(), settings, voice, clock, state }
    }

    /// What it said last, now and from now on.
    pub(crate) fn watch(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Whether it registered itself for a method.
    pub(crate) fn has_registered(&self, method: &str) -> bool {
        self.state.borrow().registrations.values().any(|registered| registered == method)
    }

    /// How far its answers can be trusted now.
    pub(crate) fn readiness(&self) -> Readiness {
        let state = self.state.borrow();
        if let Some(why) = &state.sick {
            return Readiness::Sick(why.clone());
        }
        let work = &state.work;
        match work.busy_with() {
            Some(title) => Readiness::Loading(title.to_owned()),
            None if work.is_idle(self.clock.now()) => Readiness::Ready,
            None if work.was_busy() => Readiness::Loading("the project".to_owned()),
            None => Readiness::Young,
        }
    }

    /// Whether it began something of the project at this time or later, and is done with all of it.
    pub(crate) fn has_worked_since(&self, time: SystemTime) -> bool {
        self.state.borrow().work.has_worked_since(time)
    }

    /// Whether it says when it checks what was saved.
    pub(crate) fn has_checks(&self) -> bool {
        self.state.borrow().work.has_checks()
    }

    /// Whether it has checked what it was told last.
    pub(crate) fn checked(&self) -> Checked {
        self.state.borrow().work.checked(self.clock.now())
    }

    /// It is about to be told that something has changed.
    pub(crate) fn changes(&self) {
        self.quietly(Work::changed);
    }

    /// It is about to be told that something was saved.
    pub(crate) fn saves(&self) {
        let now = self.clock.now();
        self.quietly(|work| work.saved(now));
    }

    /// Nobody is woken by what we say ourselves.
    fn quietly(&self, note: impl FnOnce(&mut Work)) {
        self.state.send_if_modified(|state| {
            note(&mut state.work);
            false
        });
    }

    /// The last push of a file.
    pub(crate) fn pushed(&self, path: &Path) -> Option<Push> {
        self.state.borrow().pushed.get(path).cloned()
    }

    /// A file is not open any more: what was said of it is old.
    pub(crate) fn forget(&self, path: &Path) {
        self.state.send_modify(|state| drop(state.pushed.remove(path)));
    }

    /// When it said something of a file last.
    pub(crate) fn last_push(&self) -> Option<SystemTime> {
        self.state.borrow().pushed.values().map(|push| push.at).max()
    }

    /// Whether it was waited in vain for it to say something of a file, and nothing has come since.
    pub(crate) fn is_silent(&self) -> bool {
        let state = self.state.borrow();
        state.silent_at == Some(state.pushes)
    }

    /// It was waited in vain for it to say something of a file.
    pub(crate) fn was_silent(&self) {
        self.state.send_if_modified(|state| {
            state.silent_at = Some(state.pushes);
            false
        });
    }

    /// How many pushes there were.
    pub(crate) fn pushes(&self) -> u64 {
        self.state.borrow().pushes
    }

    fn progress(&self, params: &Value) {
        let now = self.clock.now();
        self.state.send_if_modified(|state| state.work.hear(params, now));
    }

    fn push(&self, params: &Value) {
        let Some(path) = params.get("uri").and_then(Value::as_str).and_then(path_of) else {
            return;
        };
        // What cannot be read is no report.
        let Some((listed, unread)) = diagnostics(params.get("diagnostics")) else { return };
        let diagnostics: Arc<[Diagnostic]> = listed.into_iter().take(MAX_DIAGNOSTICS).collect();
        let version = params.get("version").and_then(Value::as_i64);
        let at = self.clock.now();
        self.state.send_modify(|state| {
            state.pushes += 1;
            // One that was overtaken comes late.
            let is_newer = |known: &Push| known.version.zip(version).is_some_and(|(a, b)| a > b);
            if state.pushed.get(&path).is_some_and(is_newer) {
                return;
            }
            if state.pushed.len() < MAX_FILES || state.pushed.contains_key(&path) {
                let number = state.pushes;
                state.pushed.insert(path, Push { version, number, at, diagnostics, unread });
            }
        });
    }

    fn status(&self, params: &Value) {
        let text = |name: &str| shown(params.get(name));
        let sick = (text("health").as_deref() == Some("error"))
            .then(|| text("message").unwrap_or_else(|| "it does not say why".to_owned()));
        if let Some(why) = &sick {
            self.voice.say(&format!("its health: {why}"));
        }
        self.state.send_modify(|state| state.sick = sick);
    }

    fn register(&self, params: &Value) {
        let listed = params.get("registrations").and_then(Value::as_array);
        self.state.send_modify(|state| {
            for one in listed.into_iter().flatten() {
                let text = |name: &str| one.get(name).and_then(Value::as_str).map(str::to_owned);
                if let (Some(id), Some(method)) = (text("id"), text("method")) {
                    state.registrations.insert(id, method);
                }
            }
        });
    }

    fn unregister(&self, params: &Value) {
        // The misspelt name is the protocol's.
        let listed = params.get("unregisterations").or_else(|| params.get("unregistrations"));
        self.state.send_modify(|state| {
            for one in listed.and_then(Value::as_array).into_iter().flatten() {
                if let Some(id) = one.get("id").and_then(Value::as_str) {
                    state.registrations.remove(id);
                }
            }
        });
    }

    /// One element for each item, in its order.
    fn configuration(&self, params: &Value) -> Value {
        let items = params.get("items").and_then(Value::as_array);
        let answer = |item: &Value| {
            let section = item.get("section").and_then(Value::as_str).unwrap_or_default();
            section
                .split('.')
                .filter(|part| !part.is_empty())
                .try_fold(&self.settings, |value, part| value.get(part))
                .cloned()
                .unwrap_or_default()
        };
        items.into_iter().flatten().map(answer).collect()
    }
}

impl Listener for Heard {
    fn heard(&self, method: &str, params: Value) {
        match method {
            "$/progress" => self.progress(&params),
            "textDocument/publishDiagnostics" => self.push(&params),
            "experimental/serverStatus" => self.status(&params),
            "window/logMessage" | "window/showMessage" => {
                // Errors and warnings: the rest is chatter.
                let kind = params.get("type").and_then(Value::as_u64).unwrap_or_default();
                if let Some(text) = params.get("message").and_then(Value::as_str)
                    && (1..=2).contains(&kind)
                {
                    self.voice.say(text);
                }
            }
            _ => {}
        }
    }

    fn asked(&self, method: &str, params: Value) -> Option<Value> {
        Some(match method {
            "workspace/configuration" => self.configuration(&params),
            "client/registerCapability" => {
                self.register(&params);
                Value::Null
            }
            "client/unregisterCapability" => {
                self.unregister(&params);
                Value::Null
            }
            "workspace/workspaceFolders" => {
                let name = self.root.file_name().map(|name| name.to_string_lossy().into_owned());
                json!([{"uri": uri_of(&self.root), "name": name.unwrap_or_default()}])
            }
            "workspace/applyEdit" => {
                json!({"applied": false, "failureReason": "the client only reads"})
            }
            "window/showDocument" => json!({"success": false}),
            "window/workDoneProgress/create" | "window/showMessageRequest" => Value::Null,
            _ if method.starts_with("workspace/") && method.ends_with("/refresh") => Value::Null,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use bridle_compose::{SystemClock, TaskSet};
    use bridle_world::servers::{Journal, Secrets};

    use super::*;

    fn heard(settings: Value) -> Heard {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let journal = Journal::new(None, Arc::clone(&clock), &TaskSet::new());
        let voice = Voice::new("s", Secrets::default(), &journal);
        Heard::new(Path::new("/w"), settings, Kinds::default(), voice, clock)
    }

    /// L33: one answer for each item, whatever is there.
    #[test]
    fn configuration_is_answered_item_by_item() {
        let heard = heard(json!({"a": {"b": {"c": 1}}, "x": null}));
        let items =
            json!({"items": [{"section": "a.b"}, {"section": "no"}, {}, {"section": "a.b.c"}, 7]});
        let whole = json!({"a": {"b": {"c": 1}}, "x": null});
        let expected = json!([{"c": 1}, null, whole, 1, whole]);
        assert_eq!(heard.asked("workspace/configuration", items), Some(expected));
    }

    /// L30: no edit of a server is ever made.
    #[test]
    fn an_edit_of_a_server_is_refused() {
        let heard = heard(json!({}));
        let answer = heard.asked("workspace/applyEdit", json!({"edit": {}})).unwrap();
        assert_eq!(answer["applied"], false);
        assert_eq!(heard.asked("window/showMessageRequest", json!({})), Some(Value::Null));
        assert_eq!(heard.asked("workspace/executeCommand", json!({})), None);
    }

    #[test]
    fn work_on_the_project_means_that_a_server_is_not_ready() {
        let heard = heard(json!({}));
        assert_eq!(heard.readiness(), Readiness::Young);
        let say = |kind: &str| {
            let value = json!({"kind": kind, "title": "Indexing"});
            heard.heard("$/progress", json!({"token": 7, "value": value}));
        };
        say("begin");
        assert_eq!(heard.readiness(), Readiness::Loading("Indexing".into()));
        say("end");
        assert_eq!(heard.readiness(), Readiness::Loading("the project".into()));
        let sick = json!({"health": "error", "message": "no toolchain", "quiescent": true});
        heard.heard("experimental/serverStatus", sick);
        assert_eq!(heard.readiness(), Readiness::Sick("no toolchain".into()));
    }

    #[test]
    fn what_was_registered_is_known_until_it_is_withdrawn() {
        let heard = heard(json!({}));
        let one = json!([{"id": "1", "method": "textDocument/diagnostic", "registerOptions": {}}]);
        heard.asked("client/registerCapability", json!({"registrations": one}));
        assert!(heard.has_registered("textDocument/diagnostic"));
        heard.asked("client/unregisterCapability", json!({"unregisterations": [{"id": "1"}]}));
        assert!(!heard.has_registered("textDocument/diagnostic"));
    }

    #[test]
    fn a_bad_diagnostic_costs_itself_only() {
        let heard = heard(json!({}));
        let at = |line: Value| json!({"start": {"line": line, "character": -1}, "end": {"line": line, "character": 1.0}});
        let listed = json!([
            {"range": at(json!(1)), "message": "one", "severity": 1},
            {"range": at(json!("x")), "message": "none"},
            {"message": "nowhere"}, 7, null,
            {"range": at(json!(2)), "message": {"kind": "markdown", "value": "two"}},
        ]);
        let params = json!({"uri": "file:///w/a%28b.rs", "version": 3, "diagnostics": listed});
        heard.heard("textDocument/publishDiagnostics", params);
        let push = heard.pushed(Path::new("/w/a(b.rs")).unwrap();
        let texts: Vec<_> = push.diagnostics.iter().map(|it| it.message.as_str()).collect();
        assert_eq!((push.version, texts, push.unread), (Some(3), vec!["one", "two"], 4));
        for bad in [json!(5), json!(null), json!([7])] {
            let params = json!({"uri": "file:///w/b.rs", "diagnostics": bad});
            heard.heard("textDocument/publishDiagnostics", params);
            assert!(heard.pushed(Path::new("/w/b.rs")).is_none(), "{bad}");
        }
    }
}
