//! Real language servers at their locked versions (`tests/interop`), each on a small project of which the
//! truth is known, through a session. Names are not ASCII, and other letters stand before them.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Permission, skip};
use serde_json::{Value, json};

use crate::interop::installed;
use crate::scene::Scene;

mod cpp;
mod first;
mod python;
mod rust;
mod typescript;

/// How often it is asked what is wrong with a file, at most, until its server knows; each time takes seconds.
const PATIENCE: usize = 20;

/// What is called everywhere.
const FUNCTION: &str = "gesamtfläche";

/// A project and what is true of it. Places are `file:line`.
struct Truth {
    /// The server that must answer.
    server: &'static str,
    files: Vec<(&'static str, String)>,
    /// Where [`FUNCTION`] is defined, and where a declaration of its own stands besides, if anywhere.
    definition: &'static str,
    /// Every line that it stands on.
    references: &'static [&'static str],
    /// A call behind letters outside of the plane.
    call: (&'static str, u32),
    /// What its description says.
    hover: &'static str,
    /// A variable, where it stands, and where its type is defined.
    variable: (&'static str, &'static str, u32, &'static str),
    /// A method that has implementations, where it is declared, and where they are; none where the server
    /// has no such answer.
    implementations: Option<(&'static str, &'static str, u32, &'static [&'static str])>,
    /// The lines of calls of [`FUNCTION`].
    incoming: &'static [&'static str],
    /// Names in the file of the definition.
    outline: &'static [&'static str],
    /// A file with an edit that breaks it, one that breaks it differently, and one that mends it; and a
    /// word of what is said of each break.
    breaks: Breaks,
}

struct Breaks {
    file: &'static str,
    sound: &'static str,
    first: (&'static str, &'static str),
    second: (&'static str, &'static str),
}

/// A session over a project.
struct Live {
    scene: Scene,
    client: Client,
    session: String,
}

impl Live {
    /// `tools` are folders of programs, before those of this machine.
    async fn open(files: &[(&str, String)], tools: &[PathBuf]) -> Self {
        Self::open_by(files, tools, Path::to_owned).await
    }

    /// `name` gives the workspace the name that the session has for it.
    async fn open_by(
        files: &[(&str, String)],
        tools: &[PathBuf],
        name: impl FnOnce(&Path) -> PathBuf,
    ) -> Self {
        let scene = Scene::new(Script::new()).await;
        let workspace = fs_err::canonicalize(scene.place.workspace()).unwrap();
        for (path, text) in files {
            scene.place.write(path, text.replace("${workspace}", workspace.to_str().unwrap()));
        }
        scene.place.configure("config.toml", format!("[lsp]\ntrusted = [{workspace:?}]\n"));
        let own = std::env::var_os("PATH").unwrap_or_default();
        let folders = tools.iter().cloned().chain(std::env::split_paths(&own));
        let path: OsString = std::env::join_paths(folders).unwrap();
        let mut launch = scene.place.acp(&scene.model.url()).env("PATH", path);
        // Programs of rustup look for themselves below the home of whoever installed them.
        let home = std::env::home_dir().unwrap_or_default();
        for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let value = std::env::var_os(name).unwrap_or_else(|| home.join(folder).into());
            launch = launch.env(name, value);
        }
        let mut client = Client::ready(&launch).await;
        let new = json!({"cwd": name(&workspace), "mcpServers": []});
        let opened = client.request("session/new", new).await.ok();
        let session = opened["sessionId"].as_str().unwrap().to_owned();
        client.set_permission(Permission::Allow);
        Self { scene, client, session }
    }

    /// One call of the model; the text that it reads.
    async fn ask(&mut self, tool: &str, arguments: Value) -> String {
        self.scene.model.push(Answer::new().tool_call(tool, arguments));
        self.scene.model.push(Answer::new().text("done"));
        let turn = self.client.prompt(&self.session, "go").await;
        assert_eq!(turn.stop_reason(), "end_turn");
        let requests = self.scene.requests();
        let messages = requests.last().unwrap()["messages"].as_array().unwrap().clone();
        let content = messages.last().unwrap()["content"].as_array().unwrap().clone();
        let result = content.iter().find(|block| block["type"] == "tool_result").unwrap();
        match &result["content"] {
            Value::String(text) => text.clone(),
            blocks => {
                let blocks = blocks.as_array().unwrap().iter();
                blocks.filter_map(|block| block["text"].as_str()).collect()
            }
        }
    }

    async fn nav(&mut self, op: &str, symbol: &str, path: &str, line: u32) -> String {
        let arguments = json!({"op": op, "symbol": symbol, "path": path, "line": line});
        self.ask("code_nav", arguments).await
    }

    async fn edit(&mut self, path: &str, old: &str, new: &str) -> String {
        let edits = json!([{"old_text": old, "new_text": new}]);
        self.ask("edit", json!({"path": path, "edits": edits})).await
    }

    /// What is wrong with a file, once its server knows; it is never clean before.
    async fn problems(&mut self, path: &str) -> String {
        for _ in 0..PATIENCE {
            let told = self.ask("code_diagnostics", json!({"paths": [path]})).await;
            if !told.contains(" is still ") {
                return told;
            }
            assert!(!told.contains("No errors"), "{told}");
        }
        panic!("{path}: its server is not done with it");
    }
}

/// The places in an answer, `file:line` each.
fn places(answer: &str) -> BTreeSet<String> {
    let rows = answer.lines().skip(1).filter_map(|line| {
        let (file, rest) = line.split_once(':')?;
        let (number, _) = rest.split_once([':', ' '])?;
        number.parse::<u32>().ok().map(|number| format!("{file}:{number}"))
    });
    rows.collect()
}

fn set(places: &[&str]) -> BTreeSet<String> {
    places.iter().map(|place| (*place).to_owned()).collect()
}

/// Asks everything that the tools can be asked, and holds the answers against the truth.
async fn answers_are_true(truth: &Truth, tools: &[PathBuf]) {
    let mut live = Live::open(&truth.files, tools).await;
    let server = truth.server;
    let (call, line) = truth.call;
    let defined = live.nav("definition", FUNCTION, call, line).await;
    assert_eq!(places(&defined), set(&[truth.definition]), "{server}: {defined}");
    assert!(defined.contains(server), "{server}: {defined}");
    let references = live.nav("references", FUNCTION, call, line).await;
    assert_eq!(places(&references), set(truth.references), "{server}: {references}");
    assert!(references.contains("complete"), "{server}: {references}");
    let by_name = live.ask("code_nav", json!({"op": "definition", "symbol": FUNCTION})).await;
    assert_eq!(places(&by_name), set(&[truth.definition]), "{server}: {by_name}");
    let (there, at) = truth.definition.split_once(':').unwrap();
    let from_itself = live.nav("definition", FUNCTION, there, at.parse().unwrap()).await;
    assert_eq!(places(&from_itself), set(&[truth.definition]), "{server}: {from_itself}");
    let hover = live.nav("hover", FUNCTION, call, line).await;
    assert!(hover.contains(FUNCTION) && hover.contains(truth.hover), "{server}: {hover}");
    let (name, file, line, of_type) = truth.variable;
    let types = live.nav("type_definition", name, file, line).await;
    assert_eq!(places(&types), set(&[of_type]), "{server}: {types}");
    match truth.implementations {
        Some((name, file, line, there)) => {
            let told = live.nav("implementations", name, file, line).await;
            assert!(places(&told).is_superset(&set(there)), "{server}: {told}");
        }
        None => {
            let told = live.nav("implementations", FUNCTION, call, line).await;
            assert_eq!(places(&told), set(&[]), "{server}: {told}");
        }
    }
    let (file, line) = truth.definition.split_once(':').unwrap();
    let line: u32 = line.parse().unwrap();
    let incoming = live.nav("incoming_calls", FUNCTION, file, line).await;
    assert_eq!(places(&incoming), set(truth.incoming), "{server}: {incoming}");
    // What is called in it stands a line below its head.
    let outgoing = live.nav("outgoing_calls", "bericht", truth.call.0, truth.call.1 - 1).await;
    let called = format!("{}:{}", truth.call.0, truth.call.1);
    let is_called = |row: &str| row.starts_with(&called) && row.contains(FUNCTION);
    assert!(outgoing.lines().any(is_called), "{server}: {outgoing}");
    let outline = live.ask("code_symbols", json!({"op": "outline", "path": file})).await;
    for name in truth.outline {
        assert!(outline.contains(name), "{server}: {name}: {outline}");
    }
    let query = json!({"op": "search", "query": FUNCTION, "path": file});
    let found = live.ask("code_symbols", query).await;
    assert!(places(&found).contains(truth.definition), "{server}: {found}");
    rename_is_only_shown(&mut live, truth).await;
    errors_come_and_go(&mut live, truth).await;
    live.scene.assert_lawful();
    live.client.finish(&live.scene.place).await;
    assert_eq!(live.scene.place.processes().len(), 0, "{server}: something is left");
}

async fn rename_is_only_shown(live: &mut Live, truth: &Truth) {
    let (call, line) = truth.call;
    let arguments = json!({
        "op": "rename_preview", "symbol": FUNCTION, "path": call, "line": line, "new_name": "größe",
    });
    let preview = live.ask("code_nav", arguments).await;
    for place in truth.references {
        let (file, line) = place.split_once(':').unwrap();
        assert!(preview.contains(file), "{}: {file}: {preview}", truth.server);
        assert!(preview.contains(&format!("- {line}: ")), "{}: {place}: {preview}", truth.server);
    }
    assert!(preview.contains("nothing was changed"), "{preview}");
    for (path, _) in &truth.files {
        assert!(!live.scene.place.read(path).contains("größe("), "{path}");
    }
}

/// A file that is edited twice in a row, an error that is made, another one, and none.
async fn errors_come_and_go(live: &mut Live, truth: &Truth) {
    let Breaks { file, sound, first, second } = truth.breaks;
    let server = truth.server;
    live.ask("read", json!({"path": file})).await;
    let clean = live.problems(file).await;
    assert!(clean.starts_with("No errors"), "{server}: {clean}");
    let edited = live.edit(file, sound, first.0).await;
    assert!(edited.contains("1 new error"), "{server}: {edited}");
    assert!(edited.contains(first.1), "{server}: {edited}");
    let told = live.problems(file).await;
    assert!(told.contains(first.1), "{server}: {told}");
    let edited = live.edit(file, first.0, second.0).await;
    assert!(edited.contains(second.1), "{server}: {edited}");
    let told = live.problems(file).await;
    assert!(told.contains(second.1) && !told.contains(first.1), "{server}: {told}");
    let edited = live.edit(file, second.0, sound).await;
    assert!(!edited.contains("new error"), "{server}: {edited}");
    let told = live.problems(file).await;
    assert!(!told.contains(first.1) && !told.contains(second.1), "{server}: {told}");
    assert!(!told.contains("unknown"), "{server}: {told}");
}
