//! Live clients that others wrote, at locked versions: acpx, Toad, and the SDKs for TypeScript and
//! Python. `tests/interop/install` puts them into ignored folders; without them (a plain
//! `cargo test` on a fresh clone) these tests say so and skip.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Output;
use std::time::Instant;

use bridle_model_server::{Answer, Gate, ModelServer, Script};
use bridle_tests::{DEADLINE, Place, Process, binary, skip, wait_until_gone};
use rustix::process::{Pid, Signal};
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

/// acpx with an agent of its own name, from the configuration in `editor-configs`.
struct Acpx {
    live: Live,
    program: String,
}

impl Acpx {
    /// `None`, said once, when it is not installed.
    async fn new() -> Option<Self> {
        let program = installed("acpx", "node_modules/acpx/dist/cli.js")?.display().to_string();
        let live = Live::new().await;
        let home = live.place.user_home();
        for folder in ["bin", ".acpx"] {
            fs_err::create_dir(home.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink(binary(), home.join("bin/bridle")).unwrap();
        let configuration = root().join("editor-configs/acpx.json");
        fs_err::copy(configuration, home.join(".acpx/config.json")).unwrap();
        Some(Self { live, program })
    }

    fn launch(&self, words: &[&str]) -> bridle_tests::Launch {
        let own = self.live.place.user_home().join("bin").display().to_string();
        let path = format!("{own}:{}", std::env::var("PATH").unwrap());
        let agent = words.iter().position(|word| !word.starts_with("--")).unwrap();
        let words = [&words[..agent], &["bridle"], &words[agent..]].concat();
        self.live.client("node", &[&[self.program.as_str()], &words[..]].concat()).env("PATH", path)
    }

    /// Whether it ended well, and what it printed.
    async fn ends(&self, words: &[&str]) -> (bool, String) {
        let output = self.launch(words).output().await;
        let shown = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&shown).into_owned())
    }

    async fn runs(&self, words: &[&str]) -> String {
        let (succeeds, shown) = self.ends(words).await;
        assert!(succeeds, "{words:?}: {shown}");
        shown
    }

    /// Sends a prompt that hangs, and waits until the model has it.
    async fn hangs(&self) -> tokio::process::Child {
        let mut hanging = self.launch(&["--approve-all", "please hang"]).command();
        let hanging = hanging.stdin(std::process::Stdio::null()).spawn().unwrap();
        reached(&self.live.hanging).await;
        hanging
    }

    /// Closes the session; nothing is left, and all was one session.
    async fn close(self) {
        self.runs(&["sessions", "close"]).await;
        for process in self.live.place.processes() {
            assert!(wait_until_gone(&process, DEADLINE), "{process:?} survives");
        }
        assert_eq!(fs_err::read_dir(self.live.place.sessions()).unwrap().count(), 1);
        assert_eq!(self.live.model.violations(), []);
    }

    /// The newest request to the model.
    fn last_request(&self) -> String {
        self.live.model.requests().pop().unwrap().body.to_string()
    }
}

async fn ended(child: tokio::process::Child) {
    let ended = tokio::time::timeout(DEADLINE, child.wait_with_output()).await;
    ended.expect("the cancelled prompt ends").unwrap();
}

/// A session, a read and an edit in it, a cancel from a second process, a close.
#[tokio::test]
async fn acpx_reads_edits_cancels_and_closes() {
    let Some(acpx) = Acpx::new().await else { return };
    acpx.runs(&["sessions", "new"]).await;
    let read = acpx.runs(&["--approve-reads", "please read"]).await;
    assert!(read.contains("read it"), "{read}");
    let edited = acpx.runs(&["--approve-all", "please edit"]).await;
    assert!(edited.contains("edited it"), "{edited}");
    acpx.live.assert_edited();
    let hanging = acpx.hangs().await;
    acpx.runs(&["cancel"]).await;
    ended(hanging).await;
    acpx.close().await;
}

/// Each policy decides as its name says.
#[tokio::test]
async fn acpx_permission_policies_are_heeded() {
    let Some(acpx) = Acpx::new().await else { return };
    let before = acpx.live.place.read("src/event.rs");
    acpx.runs(&["sessions", "new"]).await;
    for policy in ["--deny-all", "--approve-reads"] {
        acpx.ends(&[policy, "please edit"]).await;
        assert_eq!(acpx.live.place.read("src/event.rs"), before, "{policy}");
    }
    acpx.runs(&["--approve-all", "please edit"]).await;
    acpx.live.assert_edited();
    acpx.close().await;
}

/// The session outlives its agent, which the next prompt starts again.
#[tokio::test]
async fn acpx_resumes_a_session_whose_agent_has_died() {
    let Some(acpx) = Acpx::new().await else { return };
    acpx.runs(&["sessions", "new"]).await;
    acpx.runs(&["the first prompt"]).await;
    let is_agent = |process: &Process| process.command.ends_with("bridle acp");
    let agents: Vec<Process> = acpx.live.place.processes().into_iter().filter(is_agent).collect();
    for agent in agents {
        let pid = Pid::from_raw(i32::try_from(agent.pid).unwrap()).unwrap();
        rustix::process::kill_process(pid, Signal::KILL).unwrap();
        assert!(wait_until_gone(&agent, DEADLINE));
    }
    let said = acpx.runs(&["--format=json", "the second prompt"]).await;
    assert!(said.contains("session/resume"), "{said}");
    let sent = acpx.last_request();
    assert!(sent.contains("the first prompt") && sent.contains("the second prompt"), "{sent}");
    acpx.close().await;
}

/// A prompt behind a running one waits for its turn.
#[tokio::test]
async fn acpx_queues_a_prompt_behind_a_running_one() {
    let Some(acpx) = Acpx::new().await else { return };
    acpx.runs(&["sessions", "new"]).await;
    let hanging = acpx.hangs().await;
    acpx.runs(&["--approve-reads", "prompt", "--no-wait", "please read"]).await;
    assert!(!acpx.last_request().contains("please read"), "it waits");
    acpx.runs(&["cancel"]).await;
    ended(hanging).await;
    acpx.runs(&["and one more"]).await;
    let sent = acpx.last_request();
    assert!(
        sent.contains("please read") && sent.contains("read it"),
        "its turn was before: {sent}"
    );
    acpx.close().await;
}

/// Toad in a terminal of its own, by the command in `editor-configs`: a prompt and its answer.
#[tokio::test]
async fn toad_shows_an_answer_in_a_terminal() {
    let Some(toad) = installed("toad", ".toad/bin/toad") else { return };
    let live = Live::new().await;
    let home = live.place.user_home();
    let (own, toads) = (home.join("bin"), toad.parent().unwrap().display());
    fs_err::create_dir(&own).unwrap();
    std::os::unix::fs::symlink(binary(), own.join("bridle")).unwrap();
    let path = format!("{}:{toads}:{}", own.display(), std::env::var("PATH").unwrap());
    let tmux = async |words: &[&str]| {
        let words = [&["-L", live.place.mark(), "-f", "/dev/null"], words].concat();
        let launch = live.client("tmux", &words).env("PATH", &path).env("TMUX_TMPDIR", &home);
        let output = launch.env("TERM", "xterm-256color").env("LANG", "C.UTF-8").output().await;
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let shows = async |text: &str| {
        let begun = Instant::now();
        loop {
            let screen = tmux(&["capture-pane", "-p"]).await;
            if screen.contains(text) {
                break;
            }
            assert!(begun.elapsed() < DEADLINE, "no {text:?} in\n{screen}");
        }
    };
    let toad = format!("sh {}", root().join("editor-configs/toad.sh").display());
    tmux(&["new-session", "-d", "-x", "110", "-y", "36", &toad]).await;
    shows("How can I help you").await;
    shows(" Ask").await;
    tmux(&["send-keys", "please read"]).await;
    shows("please read").await;
    tmux(&["send-keys", "Enter"]).await;
    shows("read it").await;
    tmux(&["kill-server"]).await;
    for process in live.place.processes() {
        assert!(wait_until_gone(&process, DEADLINE), "{process:?} survives");
    }
    assert_eq!(live.model.violations(), []);
}
