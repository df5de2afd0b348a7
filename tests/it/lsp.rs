//! What a model learns of code from language servers, through the program. The server is scripted
//! (`tests/lsp-server`): good by itself, with the defects of real ones where a script says so.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Place, Trace};
use serde_json::{Value, json};

use crate::scene::Scene;

mod checks;
mod documents;
mod edits;
mod figures;
mod garbage;
mod hidden;
mod keys;
mod limits;
mod lives;
mod pages;
mod protocol;
mod readiness;
mod sound;
mod texts;

/// A session whose folder is trusted, with the server for `.toy` files.
struct Code {
    scene: Scene,
    client: Client,
    session: String,
}

/// What the user says of servers and of this one, with its script.
pub(crate) fn configure(place: &Place, script: &Value, all: &str, own: &str) {
    let script = place.configure("script.json", script.to_string());
    let (workspace, heard) = (place.workspace(), place.workspace().join("heard"));
    let config = format!(
        r#"
[lsp]
trusted = ["{workspace}"]
{all}
[lsp.toy]
command = "{command}"
args = ["{script}"]
files = {{ ".toy" = "toy" }}
package = ["toy.root"]
env.LSP_HEARD = "{heard}"
{own}
"#,
        workspace = workspace.display(),
        command = env!("CARGO_BIN_EXE_bridle-lsp-scripted"),
        script = script.display(),
        heard = heard.display(),
    );
    place.configure("config.toml", config);
}

impl Code {
    /// A server with this script, and these files.
    async fn new(script: Value, files: &[(&str, &str)]) -> Self {
        Self::with(script, files, "", "").await
    }

    async fn with(script: Value, files: &[(&str, &str)], all: &str, own: &str) -> Self {
        let scene = Scene::new(Script::new()).await;
        for (path, text) in files {
            scene.place.write(path, text);
        }
        configure(&scene.place, &script, all, own);
        Self::open(scene).await
    }

    /// A server of this name: what is known of it holds for whatever program it is.
    async fn known_as(name: &str, script: Value, files: &[(&str, &str)]) -> Self {
        let scene = Scene::new(Script::new()).await;
        for (path, text) in files {
            scene.place.write(path, text);
        }
        configure(&scene.place, &script, "", "");
        let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
        let named = config.replace("[lsp.toy]", &format!("[lsp.{name}]"));
        scene.place.configure("config.toml", named);
        Self::open(scene).await
    }

    /// The server behind a library of others, which reports by itself where it is to `push`.
    async fn sound(pushes: &str, files: &[(&str, &str)]) -> Self {
        let scene = Scene::new(Script::new()).await;
        for (path, text) in files {
            scene.place.write(path, text);
        }
        configure(&scene.place, &json!({}), "", "settings.toy.deep.value = 3");
        let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
        let config = config.replace(
            env!("CARGO_BIN_EXE_bridle-lsp-scripted"),
            env!("CARGO_BIN_EXE_bridle-lsp-sound"),
        );
        let arguments = config.lines().find(|line| line.starts_with("args = ")).unwrap().to_owned();
        let config = config.replace(&arguments, &format!("args = [{pushes:?}]"));
        scene.place.configure("config.toml", config);
        Self::open(scene).await
    }

    async fn open(scene: Scene) -> Self {
        let (client, session) = scene.session().await;
        Self { scene, client, session }
    }

    /// One prompt, in which the model calls a tool; what it reads of it.
    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        self.calls(&[(tool, arguments)]).await
    }

    /// One prompt, in which the model makes these calls at once.
    async fn calls(&mut self, calls: &[(&str, Value)]) -> String {
        let answer = calls.iter().fold(Answer::new(), |answer, (tool, arguments)| {
            answer.tool_call(tool, arguments.clone())
        });
        self.scene.model.push(answer);
        self.scene.model.push(Answer::new().text("done"));
        let turn = self.client.prompt(&self.session, "go").await;
        assert_eq!(turn.stop_reason(), "end_turn");
        self.scene.last_results()
    }

    async fn nav(&mut self, op: &str, path: &str, line: usize, symbol: &str) -> String {
        let arguments = json!({"op": op, "path": path, "line": line, "symbol": symbol});
        self.call("code_nav", arguments).await
    }

    async fn check(&mut self, path: &str) -> String {
        self.call("code_diagnostics", json!({"paths": [path]})).await
    }

    /// What the server has heard, by method.
    fn heard(&self, method: &str) -> Vec<Value> {
        let path = self.scene.place.workspace().join("heard");
        let text = fs_err::read_to_string(path).unwrap_or_default();
        let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        messages.filter(|message| message["method"] == method).collect()
    }

    /// The answers that the server got to its own requests, by id.
    fn answers(&self) -> BTreeMap<String, Value> {
        let text = self.scene.place.read("heard");
        let messages = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let answers = messages.filter(|message| message.get("method").is_none());
        answers.map(|message| (message["id"].to_string(), message)).collect()
    }

    async fn finish(self) -> Trace {
        self.scene.assert_lawful();
        self.client.finish(&self.scene.place).await
    }
}

/// The files of the workspace that are the project's.
fn tree(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    collect(&place.workspace(), &mut found);
    found
}

fn collect(folder: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs_err::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() {
            collect(&path, found);
        } else if !name.starts_with("heard") {
            found.insert(path.clone(), fs_err::read(path).unwrap());
        }
    }
}

const AREA: &str = "def area\n  side(1) * side(2)\ndef side\n";
const MAIN: &str = "def main\n  let width = area() + area()\nimpl area\n";

/// Every question has its answer in lines of the source, and nothing is changed by any: whoever wrote the server.
#[tokio::test]
async fn every_question_is_answered_in_lines_of_the_source() {
    let files = [("src/area.toy", AREA), ("src/main.toy", MAIN)];
    let it = Code::new(json!({}), &files).await;
    questions_are_answered(it).await;
    for pushes in ["", "push"] {
        let it = Code::sound(pushes, &files).await;
        questions_are_answered(it).await;
    }
}

async fn questions_are_answered(mut it: Code) {
    let before = tree(&it.scene.place);
    let result = it.nav("definition", "src/main.toy", 2, "area").await;
    assert!(result.contains("1 definition in 1 file (toy, complete"), "{result}");
    assert!(result.contains("src/area.toy:1: def area"), "{result}");
    assert!(result.contains("`area` stands 2 times on line 2"), "{result}");
    let result = it.nav("type_definition", "src/main.toy", 2, "area#2").await;
    assert!(result.contains("src/area.toy:1: def area"), "{result}");
    let result = it.nav("implementations", "src/area.toy", 1, "area").await;
    assert!(result.contains("src/main.toy:3: impl area"), "{result}");
    let result = it.nav("references", "src/area.toy", 1, "area").await;
    assert!(result.contains("4 references in 2 files (toy, complete)"), "{result}");
    assert!(result.contains("src/main.toy:2: let width = area() + area()"), "{result}");
    let result = it.nav("hover", "src/main.toy", 2, "area").await;
    assert!(result.contains("def area"), "{result}");
    let result = it.nav("incoming_calls", "src/area.toy", 3, "side").await;
    assert!(result.contains("2 incoming calls in 1 file"), "{result}");
    assert!(result.contains("src/area.toy:2: function area: side(1) * side(2)"), "{result}");
    let result = it.nav("outgoing_calls", "src/main.toy", 1, "main").await;
    assert!(result.contains("src/main.toy:2: function area: let width"), "{result}");
    // Without a line, and without a file.
    let named = json!({"op": "references", "path": "src/area.toy", "symbol": "side"});
    let result = it.call("code_nav", named).await;
    assert!(result.contains("3 references in 1 file"), "{result}");
    let result = it.call("code_nav", json!({"op": "definition", "symbol": "side"})).await;
    assert!(result.contains("src/area.toy:3: def side"), "{result}");
    let result = it.call("code_symbols", json!({"op": "outline", "path": "src/area.toy"})).await;
    assert!(result.contains("2 symbols (toy, complete)"), "{result}");
    assert!(result.contains("3: function side: def side"), "{result}");
    let result = it.call("code_symbols", json!({"op": "search", "query": "mai"})).await;
    assert!(result.contains("src/main.toy:1: function main: def main"), "{result}");
    let result = it.nav("references", "src/main.toy", 1, "nowhere").await;
    assert!(result.contains("`nowhere` is not on line 1: \\\"def main\\\""), "{result}");
    let result = it.nav("definition", "src/main.toy", 2, "width").await;
    assert!(result.contains("No definitions (confirmed by toy)"), "{result}");
    assert_eq!(tree(&it.scene.place), before);
    it.finish().await;
}

/// L31, L43: a rename is shown, made nowhere, and asked where the symbol is defined.
#[tokio::test]
async fn a_rename_is_shown_and_never_made() {
    let mut it = Code::new(json!({}), &[("area.toy", AREA), ("main.toy", MAIN)]).await;
    let before = tree(&it.scene.place);
    let arguments = json!({
        "op": "rename_preview", "path": "main.toy", "line": 2, "symbol": "area", "new_name": "size",
    });
    let result = it.call("code_nav", arguments).await;
    assert!(result.contains("4 edits in 2 files; nothing was changed"), "{result}");
    assert!(result.contains("- 2: let width = area() + area()"), "{result}");
    assert!(result.contains("+ 2: let width = size() + size()"), "{result}");
    assert_eq!(tree(&it.scene.place), before);
    let asked = &it.heard("textDocument/rename")[0]["params"];
    assert!(asked["textDocument"]["uri"].as_str().unwrap().ends_with("area.toy"), "{asked}");
    it.finish().await;
}

/// L28: no server runs in a folder that the user does not name, and both are told what to add.
#[tokio::test]
async fn nothing_is_started_in_a_folder_that_is_not_trusted() {
    let scene = Scene::new(Script::new()).await;
    scene.place.write("main.toy", MAIN);
    configure(&scene.place, &json!({}), "", "");
    let elsewhere = scene.place.write("trusted/only/here", "");
    let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
    let (workspace, only) = (scene.place.workspace(), elsewhere.parent().unwrap().to_owned());
    let trusted = |path: &Path| format!("trusted = [\"{}\"]", path.display());
    let config = config.replace(&trusted(&workspace), &trusted(&only));
    scene.place.configure("config.toml", config);
    let mut it = Code::open(scene).await;
    for _ in 0..2 {
        let result = it.nav("definition", "main.toy", 2, "area").await;
        assert!(result.contains("the user has not said that"), "{result}");
        assert!(result.contains("`trusted` under [lsp] in config.toml"), "{result}");
    }
    it.scene.place.write("toy.toy", "undefined x");
    it.check("toy.toy").await;
    assert_eq!(it.heard("started").len(), 0);
    let told = it.client.trace().text(&it.session);
    assert_eq!(
        told.matches("none is started before you say that you trust it").count(),
        1,
        "{told}"
    );
    it.finish().await;
}

/// S32: a project does not bring the program that runs as a server, also where the user's PATH would let it.
#[tokio::test]
async fn a_program_of_the_project_is_no_server() {
    let scene = Scene::new(Script::new()).await;
    scene.place.write("main.toy", MAIN);
    configure(&scene.place, &json!({}), "", "");
    let config = fs_err::read_to_string(scene.place.bridle_home().join("config.toml")).unwrap();
    let own = format!("command = \"{}\"", env!("CARGO_BIN_EXE_bridle-lsp-scripted"));
    scene.place.configure("config.toml", config.replace(&own, "command = \"toy-server\""));
    for path in ["toy-server", "node_modules/.bin/toy-server"] {
        let program = scene.place.write(path, "#!/bin/sh\ntouch marked\n");
        fs_err::set_permissions(program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let usual = std::env::var("PATH").unwrap();
    let workspace = scene.place.workspace().display().to_string();
    let path = format!(".:node_modules/.bin:{workspace}:{workspace}/node_modules/.bin:{usual}");
    let launch = scene.place.acp(&scene.model.url()).env("PATH", path);
    let (client, session) = Client::in_session(&scene.place, &launch).await;
    let mut it = Code { scene, client, session };
    let result = it.nav("definition", "main.toy", 2, "area").await;
    assert!(result.contains("lies in the workspace, of which no program is taken"), "{result}");
    it.scene.place.write("toy.toy", "undefined x");
    it.check("toy.toy").await;
    assert!(!it.scene.place.workspace().join("marked").exists(), "{result}");
    it.finish().await;
}

/// What has no server, or is elsewhere, is told as such.
#[tokio::test]
async fn a_file_without_a_server_is_told_from_one_without_an_answer() {
    let mut it = Code::new(json!({}), &[("a.unheard", "x"), ("b.toy", "x")]).await;
    let result = it.nav("definition", "a.unheard", 1, "x").await;
    assert!(result.contains("no language server is known for .unheard files"), "{result}");
    let result = it.nav("definition", "/etc/hostname", 1, "x").await;
    assert!(result.contains("outside of the session's folders"), "{result}");
    let result = it.nav("definition", "missing.toy", 1, "x").await;
    assert!(result.contains("is no file"), "{result}");
    let result = it.call("code_nav", json!({"op": "jump", "symbol": "x"})).await;
    assert!(result.contains("op"), "{result}");
    it.finish().await;
}

/// A kind of symbols that there is not is no kind that a file has none of.
#[tokio::test]
async fn a_kind_that_there_is_not_is_refused() {
    let mut it = Code::new(json!({}), &[("area.toy", AREA)]).await;
    for op in
        [json!({"op": "outline", "path": "area.toy"}), json!({"op": "search", "query": "area"})]
    {
        let of = |kind: &str| {
            let mut arguments = op.clone();
            arguments["kind"] = json!(kind);
            arguments
        };
        let result = it.call("code_symbols", of("func")).await;
        assert!(
            result.contains("there is no `kind` \\\"func\\\"; it is one of: file, "),
            "{result}"
        );
        assert!(result.contains("function, variable"), "{result}");
        for kind in ["function", "Functions"] {
            let result = it.call("code_symbols", of(kind)).await;
            assert!(result.contains("function area"), "{kind}: {result}");
        }
        let result = it.call("code_symbols", of("enum_member")).await;
        assert!(!result.contains("there is no `kind`"), "{result}");
        assert!(!result.contains("function area"), "{result}");
    }
    it.finish().await;
}

/// L40: whatever becomes of servers, the tools are the same bytes.
#[tokio::test]
async fn the_tools_are_the_same_whatever_becomes_of_servers() {
    let rules = json!([{"on": "textDocument/hover", "do": [{"exit": 3}]}]);
    let mut it = Code::new(json!({"rules": rules}), &[("main.toy", MAIN)]).await;
    it.nav("definition", "main.toy", 2, "area").await;
    it.nav("hover", "main.toy", 2, "area").await;
    it.nav("definition", "main.toy", 2, "area").await;
    let tools: Vec<_> =
        it.scene.requests().iter().map(|request| request["tools"].to_string()).collect();
    assert!(tools[0].contains("code_nav"), "{}", tools[0]);
    assert!(tools.iter().all(|other| *other == tools[0]));
    it.finish().await;
}

/// What a mode that changes nothing allows.
#[tokio::test]
async fn a_mode_that_only_reads_may_ask() {
    let mut it = Code::new(json!({}), &[("main.toy", MAIN)]).await;
    let mode = json!({"sessionId": it.session, "modeId": "read-only"});
    it.client.request("session/set_mode", mode).await.ok();
    let result = it.nav("references", "main.toy", 2, "area").await;
    assert!(result.contains("3 references"), "{result}");
    assert_eq!(it.client.trace().calls("session/request_permission").len(), 0);
    it.finish().await;
}
