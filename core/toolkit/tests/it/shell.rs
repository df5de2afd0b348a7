//! `shell`, from a model's argument text to what it reads back.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bridle_agent::{
    Access, Display, Grant, PlannedCall, Progress, Tool, ToolContext, ToolFailure, ToolKind,
    read_arguments,
};
use bridle_compose::{Clock, Plugins, Row, Scope, Sleep, SystemClock, TaskSet};
use bridle_session::{Content, ToolErrorCode};
use bridle_toolkit::plugins;
use bridle_world::Roots;
use bridle_world::process::{Environment, Processes};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Rig {
    folder: tempfile::TempDir,
    tool: Arc<dyn Tool>,
}

impl Rig {
    async fn new() -> Self {
        Self::on(Arc::new(SystemClock)).await
    }

    async fn on(clock: Arc<dyn Clock>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let supervisor = PathBuf::from(env!("CARGO_BIN_EXE_bridle-toolkit-supervisor"));
        let environment = Environment::from_variables(std::iter::empty::<(OsString, OsString)>());
        let processes = Processes::with_clock(supervisor, environment, clock);
        let scope = Scope::root("session", plugins(Plugins::new()), TaskSet::new());
        scope.provide("processes", Arc::new(processes)).await;
        scope.provide("roots", Arc::new(Roots::new(folder.path().to_owned(), Vec::new()))).await;
        scope.mount(vec![Row::new("shell")]).await;
        let tool = scope.all::<dyn Tool>().remove(0);
        Self { folder, tool }
    }

    async fn plan(&self, arguments: Value) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = read_arguments(self.tool.spec(), &arguments.to_string())?;
        self.tool.plan(arguments, &context()).await
    }

    async fn run(&self, command: &str) -> Result<Done, ToolFailure> {
        let planned = self.plan(json!({ "command": command })).await.unwrap();
        let outcome = planned.run(Grant::for_tests(), context()).await?;
        let content = self.tool.render(&outcome.value);
        let [Content::Text { text }] = content.as_slice() else { panic!("{content:?}") };
        Ok(Done { text: text.clone(), display: outcome.display, value: outcome.value })
    }

    async fn refused(&self, arguments: Value, expected: Expect) {
        let failure = self.plan(arguments).await.err().unwrap();
        expected.assert_eq(&format!("{:?}: {}", failure.code, failure.message));
    }
}

fn context() -> ToolContext {
    ToolContext { token: CancellationToken::new(), progress: Progress::none() }
}

/// A command that succeeded, with what the model reads.
#[derive(Debug)]
struct Done {
    text: String,
    display: Display,
    value: Value,
}

fn shown(display: &Display) -> &str {
    display.text.as_deref().unwrap()
}

#[tokio::test]
async fn a_command_that_succeeds_answers_output_and_code() {
    let outcome =
        Rig::new().await.run("printf '\\033[32mgreen\\033[0m 1%%\\r100%%\\n'").await.unwrap();
    assert_eq!(outcome.text, "100%\n[exit code 0]\n");
    assert_eq!(shown(&outcome.display), "```\n100%\n[exit code 0]\n```");
    assert_eq!(outcome.display.kind, ToolKind::Execute);
    assert_eq!(outcome.value["facts"]["exit_code"], 0);
    assert_eq!(outcome.display.raw_output.as_ref(), Some(&outcome.value["facts"]));

    let outcome = Rig::new().await.run("true").await.unwrap();
    assert_eq!(outcome.text, "(no output)\n[exit code 0]\n");
}

#[tokio::test]
async fn a_command_that_fails_is_a_failed_call_with_its_output() {
    let failure = Rig::new().await.run("echo before; exit 3").await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Failed);
    assert_eq!(failure.message, "before\n[exit code 3]\n");
    let display = failure.display.unwrap();
    assert_eq!(shown(&display), "```\nbefore\n[exit code 3]\n```");
    assert_eq!(display.raw_output.unwrap()["exit_code"], 3);

    let failure = Rig::new().await.run("kill -SEGV $$").await.unwrap_err();
    assert_eq!(failure.message, "(no output)\n[ended by signal 11]\n");
}

#[tokio::test]
async fn what_was_left_in_the_background_is_said() {
    let outcome = Rig::new().await.run("sleep 600 & echo up").await.unwrap();
    assert_eq!(
        outcome.text,
        "up\n[exit code 0]\n[1 background process was still running and was ended]\n"
    );
}

/// A clock on which seven seconds pass at once.
struct Hasty;

impl Clock for Hasty {
    fn now(&self) -> SystemTime {
        SystemClock.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        let seven = duration == Duration::from_secs(7);
        if seven { Box::pin(std::future::ready(())) } else { SystemClock.sleep(duration) }
    }
}

#[tokio::test]
async fn a_time_out_says_what_would_help() {
    let rig = Rig::on(Arc::new(Hasty)).await;
    let planned = rig.plan(json!({ "command": "sleep 600", "timeout_s": 7 })).await.unwrap();
    let failure = planned.run(Grant::for_tests(), context()).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Failed);
    expect![[r#"
        (no output)
        [timed out after 7 s and was ended; timeout_s may be 600]
        [ended by signal 15]
    "#]]
    .assert_eq(&failure.message);
}

#[tokio::test]
async fn a_cancel_is_an_abort_that_keeps_the_output() {
    let rig = Rig::new().await;
    let token = CancellationToken::new();
    let planned = rig.plan(json!({ "command": "echo begun; sleep 600" })).await.unwrap();
    let cancel = token.clone();
    // The live output is the barrier: the command is running when it is cancelled.
    let progress = Progress::new(move |text| {
        assert_eq!(text, "```\nbegun\n```");
        cancel.cancel();
    });
    let failure =
        planned.run(Grant::for_tests(), ToolContext { token, progress }).await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Aborted);
    assert_eq!(
        failure.message,
        "begun\n[cancelled and ended; its effect may be partial]\n[ended by signal 15]\n"
    );
}

#[tokio::test]
async fn live_output_is_a_bounded_tail() {
    let texts = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&texts);
    let progress = Progress::new(move |text| sink.lock().unwrap().push(text));
    let rig = Rig::new().await;
    let planned = rig.plan(json!({ "command": "seq 100000" })).await.unwrap();
    let context = ToolContext { token: CancellationToken::new(), progress };
    planned.run(Grant::for_tests(), context).await.unwrap();
    let texts = texts.lock().unwrap();
    assert!(texts.last().unwrap().ends_with("100000\n```"), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() < 4200));
}

#[tokio::test]
async fn a_fence_in_the_output_does_not_end_the_fence_around_it() {
    let outcome = Rig::new().await.run("echo '````'").await.unwrap();
    assert_eq!(shown(&outcome.display), "`````\n````\n[exit code 0]\n`````");
}

#[tokio::test]
async fn a_plan_shows_the_whole_command_and_runs_it_unchanged() {
    let rig = Rig::new().await;
    let command = "printf 'a\u{202e}b' >out\necho '\u{1b}' >>out";
    let planned = rig.plan(json!({ "command": command })).await.unwrap();
    let display = planned.display();
    assert_eq!(display.title, "printf 'a\u{202e}b' >out\\necho '\\u{1b}' >>out");
    assert_eq!(shown(&display), format!("```sh\n{command}\n```"));
    assert_eq!(rig.tool.outline(&json!({ "command": command }).to_string()), display);
    planned.run(Grant::for_tests(), context()).await.unwrap();
    let written = fs_err::read_to_string(rig.folder.path().join("out")).unwrap();
    assert_eq!(written, "a\u{202e}b\u{1b}\n");

    let long = format!("echo {}", "x".repeat(1000));
    let display = rig.plan(json!({ "command": long })).await.unwrap().display();
    assert!(display.title.chars().count() < 300 && shown(&display).contains(&long));
    assert_eq!(rig.plan(json!({ "command": "ls" })).await.unwrap().display().text, None);
}

#[tokio::test]
async fn needs_and_reason_reach_the_gate() {
    let rig = Rig::new().await;
    let arguments = json!({ "command": "true", "needs": ["network"], "reason": "fetches" });
    let run = |network, unconfined, reason: Option<&str>| {
        vec![Access::Run {
            command: "true".to_owned(),
            network,
            unconfined,
            reason: reason.map(str::to_owned),
        }]
    };
    assert_eq!(rig.plan(arguments).await.unwrap().access(), run(true, false, Some("fetches")));
    let arguments = json!({ "command": "true", "needs": ["unconfined"] });
    assert_eq!(rig.plan(arguments).await.unwrap().access(), run(false, true, None));
    let arguments = json!({ "command": "true" });
    assert_eq!(rig.plan(arguments).await.unwrap().access(), run(false, false, None));
}

#[tokio::test]
async fn bad_arguments_are_refused_with_a_hint() {
    let rig = Rig::new().await;
    rig.refused(json!({ "cmd": "ls" }), expect!["BadArguments: The arguments of `shell` do not fit as a whole: the property `command` is missing. Nothing was done."]).await;
    rig.refused(json!({ "command": ["ls"] }), expect!["BadArguments: The arguments of `shell` do not fit at `command`: expected a string, found an array. Nothing was done."]).await;
    rig.refused(json!({ "command": "ls", "needs": ["root"] }), expect![[r#"BadArguments: The arguments of `shell` do not fit at `needs[0]`: expected one of "network", "unconfined", found "root". Nothing was done."#]]).await;
    rig.refused(
        json!({ "command": "ls", "timeout_s": 601 }),
        expect!["BadArguments: The arguments of `shell` do not fit at `timeout_s`: expected at most 600, found 601. Nothing was done."],
    )
    .await;
    rig.refused(
        json!({ "command": "ls", "timeout_s": 0 }),
        expect!["BadArguments: The arguments of `shell` do not fit at `timeout_s`: expected at least 1, found 0. Nothing was done."],
    )
    .await;
    rig.refused(
        json!({ "command": " " }),
        expect!["BadArguments: `command` is empty or holds a NUL character; nothing was run."],
    )
    .await;
    rig.refused(json!({ "command": "ls", "background": true }), expect!["BadArguments: The arguments of `shell` do not fit at `background`: no such property; expected are command, needs, reason, timeout_s. Nothing was done."]).await;
    assert_eq!(rig.tool.outline("{\"command\": \"l"), Display::new("shell", ToolKind::Execute));
}

#[tokio::test]
async fn a_folder_that_is_gone_is_named() {
    let rig = Rig::new().await;
    let path = rig.folder.path().to_owned();
    let planned = rig.plan(json!({ "command": "true" })).await.unwrap();
    drop(rig);
    let failure = planned.run(Grant::for_tests(), context()).await.unwrap_err();
    let message = failure.message.replace(path.to_str().unwrap(), "FOLDER");
    expect!["the working directory FOLDER cannot be used: No such file or directory (os error 2). The command was not run; create the folder first."].assert_eq(&message);
}

#[tokio::test]
async fn what_a_model_is_told() {
    let rig = Rig::new().await;
    let spec = rig.tool.spec();
    expect![[r#"
        Runs a command with bash (sh where there is none) in the working directory and returns its output (stdout and stderr together) and its exit code. There is no terminal and no input: use flags that avoid prompts, pagers and editors. Each call is a new shell: directory and variables do not carry over. When it ends, processes that it left in the background are ended. Of long output you get the two ends and the path of the whole. Prefer `read`, `search`, `glob` and `edit` for files.

        {"type":"object","additionalProperties":false,"properties":{"command":{"type":"string","description":"The command."},"timeout_s":{"type":"integer","maximum":600,"minimum":1,"description":"How many seconds it may run, 1 to 600. Without it: 120."},"needs":{"type":"array","items":{"description":"What a command may ask for.","type":"string","enum":["network","unconfined"]},"description":"What it needs beyond writing in the workspace; a person is asked."},"reason":{"type":"string","description":"Why it needs that, in one sentence for the person who is asked."}},"required":["command"]}"#]].assert_eq(&format!("{}\n\n{}", spec.description, spec.input_schema));
}

#[tokio::test]
async fn a_long_output_is_given_whole_for_the_driver_to_keep() {
    let done = Rig::new().await.run("yes abc | head -c 1000000").await.unwrap();
    assert_eq!(done.text, "abc\n".repeat(250_000) + "[exit code 0]\n");
}
