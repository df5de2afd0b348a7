//! Live clients that others wrote, at locked versions: acpx, and the SDKs for TypeScript and
//! Python. `tests/interop/install` puts them into ignored folders; without them (a plain
//! `cargo test` on a fresh clone) these tests say so and skip.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Output;

use bridle_model_server::{Answer, Gate, ModelServer, Script};
use bridle_tests::{DEADLINE, Place, binary, skip, wait_until_gone};
use serde_json::{Value, json};

use crate::repository::root;
use crate::scene::reached;

/// The file that the model edits: a copy of one of our own.
const SOURCE: &str = "core/session/src/event.rs";

/// A place with a copied project, and a model that edits it and hangs when asked to.
struct Live {
    place: Place,
    model: ModelServer,
    hanging: Gate,
}

impl Live {
    async fn new() -> Self {
        let hanging = Gate::new();
        let edit = json!({"path": "src/event.rs", "edits": [
            {"old_text": "use serde::{", "new_text": "// seen by the model\nuse serde::{"}
        ]});
        let script = Script::new()
            .rule(
                "please read",
                [
                    Answer::new().tool_call("read", json!({"path": "src/event.rs"})),
                    Answer::new().text("read it"),
                ],
            )
            .rule(
                "please edit",
                [
                    Answer::new().tool_call("read", json!({"path": "src/event.rs"})),
                    Answer::new().tool_call("edit", edit),
                    Answer::new().text("edited it"),
                ],
            )
            .rule("please hang", [Answer::new().text_in(2, "hanging...").hold_after(1, &hanging)]);
        let place = Place::new();
        place.write("src/event.rs", fs_err::read(root().join(SOURCE)).unwrap());
        Self { place, model: ModelServer::start(script).await.unwrap(), hanging }
    }

    /// A program of the interop folder, with what a client needs in its environment.
    fn client(&self, program: impl Into<OsString>, arguments: &[&str]) -> bridle_tests::Launch {
        self.place
            .launch(arguments)
            .replacing_program(program)
            .model_at(&self.model.url())
            .env("BRIDLE_BIN", binary())
    }

    fn assert_edited(&self) {
        assert!(self.place.read("src/event.rs").contains("// seen by the model\nuse serde::{"));
        assert_eq!(self.model.violations(), []);
    }
}

/// A program of the interop folder; `None`, said once, when it is not installed.
pub(crate) fn installed(name: &str, path: &str) -> Option<PathBuf> {
    let path = root().join("tests/interop").join(path);
    if !path.exists() {
        skip(name, "not installed; tests/interop/install does it");
        return None;
    }
    Some(path)
}

pub(crate) fn seen(output: &Output) -> Value {
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    serde_json::from_str(stdout.trim()).unwrap_or_else(|_| panic!("{stdout}\n{stderr}"))
}

async fn sdk(name: &str, program: PathBuf, script: &str) {
    let live = Live::new().await;
    let script = root().join("tests/interop").join(script);
    let output = live.client(program, &[script.to_str().unwrap()]).output().await;
    let seen = seen(&output);
    assert_eq!(seen["version"], 1, "{name}: {seen}");
    assert_eq!(seen["first"], "end_turn", "{name}: {seen}");
    assert_eq!(seen["second"], "cancelled", "{name}: {seen}");
    assert_eq!(seen["questions"], 1, "{name}: {seen}");
    assert!(seen["text"].as_str().unwrap().contains("edited it"), "{name}: {seen}");
    assert_eq!(seen["exit"], 0, "{name}: {seen}");
    live.assert_edited();
    assert_eq!(live.place.processes(), []);
}

#[tokio::test]
async fn the_typescript_sdk_drives_a_session() {
    if installed("typescript_sdk", "node_modules/@agentclientprotocol/sdk").is_some() {
        sdk("TypeScript", "node".into(), "sdk_client.mjs").await;
    }
}

#[tokio::test]
async fn the_python_sdk_drives_a_session() {
    if let Some(python) = installed("python_sdk", ".venv/bin/python3") {
        sdk("Python", python, "sdk_client.py").await;
    }
}

/// acpx: a session, a read and an edit in it, a cancel from a second process, a close.
#[tokio::test]
async fn acpx_reads_edits_cancels_and_closes() {
    let Some(acpx) = installed("acpx", "node_modules/acpx/dist/cli.js") else { return };
    let live = Live::new().await;
    let agent = format!("{} acp", binary().display());
    let cwd = live.place.workspace();
    let options = [acpx.to_str().unwrap(), "--agent", &agent, "--cwd", cwd.to_str().unwrap()];
    let launch = |words: &[&str]| live.client("node", &[&options, words].concat());
    let run = async |words: &[&str]| {
        let output = launch(words).output().await;
        let shown = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{words:?}: {shown}");
        shown
    };
    let session = run(&["sessions", "new"]).await;
    let read = run(&["--approve-reads", "please read"]).await;
    assert!(read.contains("read it"), "{read}");
    let edited = run(&["--approve-all", "please edit"]).await;
    assert!(edited.contains("edited it"), "{edited}");
    live.assert_edited();

    let mut hanging = launch(&["--approve-all", "please hang"]).command();
    let hanging = hanging.stdin(std::process::Stdio::null()).spawn().unwrap();
    reached(&live.hanging).await;
    run(&["cancel"]).await;
    let ended = tokio::time::timeout(DEADLINE, hanging.wait_with_output()).await;
    ended.expect("the cancelled prompt ends").unwrap();
    run(&["sessions", "close"]).await;
    for process in live.place.processes() {
        assert!(wait_until_gone(&process, DEADLINE), "{process:?} survives");
    }
    let sessions = fs_err::read_dir(live.place.sessions()).unwrap().count();
    assert_eq!(sessions, 1, "all in one session: {session}");
}
