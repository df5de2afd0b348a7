//! `shell`, from a model's argument text to what it reads back.

use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use bridle_agent::{
    Access, Display, Grant, Observed, Progress, RESULT_LIMIT, Sandboxing, ToolContext, ToolFailure,
    ToolKind,
};
use bridle_compose::{Clock, Sleep, SystemClock};
use bridle_session::{BlobRef, ToolErrorCode};
use bridle_store::{BlobStore, MemoryStore, StoreError};
use expect_test::{Expect, expect};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::rig::{Done, Rig, context};

async fn refused(rig: &Rig, arguments: Value, expected: Expect) {
    let failure = rig.plan("shell", arguments).await.err().unwrap();
    expected.assert_eq(&format!("{:?}: {}", failure.code, failure.message));
}

async fn run(rig: &Rig, command: &str) -> Result<Done, ToolFailure> {
    rig.call("shell", json!({ "command": command })).await
}

fn shown(display: &Display) -> &str {
    display.text.as_deref().unwrap()
}

#[tokio::test]
async fn a_command_that_succeeds_answers_output_and_code() {
    let outcome =
        run(&Rig::new().await, "printf '\\033[32mgreen\\033[0m 1%%\\r100%%\\n'").await.unwrap();
    assert_eq!(outcome.text(), "100%n 1%\n[exit code 0]\n");
    assert_eq!(shown(&outcome.display), "```\n100%n 1%\n[exit code 0]\n```");
    assert_eq!(outcome.display.kind, ToolKind::Execute);
    assert_eq!(outcome.value["facts"]["exit_code"], 0);
    assert_eq!(outcome.display.raw_output.as_ref(), Some(&outcome.value["facts"]));

    let outcome = run(&Rig::new().await, "true").await.unwrap();
    assert_eq!(outcome.text(), "(no output)\n[exit code 0]\n");
}

#[tokio::test]
async fn a_command_that_fails_is_a_failed_call_with_its_output() {
    let failure = run(&Rig::new().await, "echo before; exit 3").await.unwrap_err();
    assert_eq!(failure.code, ToolErrorCode::Failed);
    assert_eq!(failure.message, "before\n[exit code 3]\n");
    let display = failure.display.unwrap();
    assert_eq!(shown(&display), "```\nbefore\n[exit code 3]\n```");
    assert_eq!(display.raw_output.unwrap()["exit_code"], 3);

    let failure = run(&Rig::new().await, "kill -SEGV $$").await.unwrap_err();
    assert_eq!(failure.message, "(no output)\n[ended by signal 11]\n");
}

#[tokio::test]
async fn what_was_left_in_the_background_is_said() {
    let outcome = run(&Rig::new().await, "sleep 600 & echo up").await.unwrap();
    assert_eq!(
        outcome.text(),
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
    let planned =
        rig.plan("shell", json!({ "command": "sleep 600", "timeout_s": 7 })).await.unwrap();
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
    let planned = rig.plan("shell", json!({ "command": "echo begun; sleep 600" })).await.unwrap();
    let cancel = token.clone();
    // The live output is the barrier: the command is running when it is cancelled.
    let progress = Progress::new(move |text| {
        assert_eq!(text, "```\nbegun\n```");
        cancel.cancel();
    });
    let failure = planned
        .run(Grant::for_tests(), ToolContext { token, progress, observed: Observed::default() })
        .await
        .unwrap_err();
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
    let planned = rig.plan("shell", json!({ "command": "seq 100000" })).await.unwrap();
    let context =
        ToolContext { token: CancellationToken::new(), progress, observed: Observed::default() };
    planned.run(Grant::for_tests(), context).await.unwrap();
    let texts = texts.lock().unwrap();
    assert!(texts.last().unwrap().ends_with("100000\n```"), "{texts:?}");
    assert!(texts.iter().all(|text| text.len() < 4200));
}

#[tokio::test]
async fn a_fence_in_the_output_does_not_end_the_fence_around_it() {
    let outcome = run(&Rig::new().await, "echo '````'").await.unwrap();
    assert_eq!(shown(&outcome.display), "`````\n````\n[exit code 0]\n`````");
}

#[tokio::test]
async fn a_plan_shows_the_whole_command_and_runs_it_unchanged() {
    let rig = Rig::new().await;
    let command = "printf 'a\u{202e}b' >out\necho '\u{1b}' >>out";
    let planned = rig.plan("shell", json!({ "command": command })).await.unwrap();
    let display = planned.display();
    assert_eq!(display.title, "printf 'a\u{202e}b' >out\\necho '\\u{1b}' >>out");
    assert_eq!(shown(&display), format!("```sh\n{command}\n```"));
    assert_eq!(rig.tool("shell").outline(&json!({ "command": command }).to_string()), display);
    planned.run(Grant::for_tests(), context()).await.unwrap();
    let written = fs_err::read_to_string(rig.folder.path().join("out")).unwrap();
    assert_eq!(written, "a\u{202e}b\u{1b}\n");

    let long = format!("echo {}", "x".repeat(1000));
    let display = rig.plan("shell", json!({ "command": long })).await.unwrap().display();
    assert!(display.title.chars().count() < 300 && shown(&display).contains(&long));
    assert_eq!(rig.plan("shell", json!({ "command": "ls" })).await.unwrap().display().text, None);
}

#[tokio::test]
async fn needs_and_reason_reach_the_gate() {
    let rig = Rig::new().await;
    let arguments = json!({ "command": "true", "needs": ["network"], "reason": "fetches" });
    let access = |network, unconfined, reason: Option<&str>| {
        vec![Access::Run {
            command: "true".to_owned(),
            network,
            unconfined,
            reason: reason.map(str::to_owned),
            sandboxing: Sandboxing::Unavailable,
        }]
    };
    assert_eq!(
        rig.plan("shell", arguments).await.unwrap().access(),
        access(true, false, Some("fetches"))
    );
    let arguments = json!({ "command": "true", "needs": ["unconfined"] });
    assert_eq!(rig.plan("shell", arguments).await.unwrap().access(), access(false, true, None));
    let arguments = json!({ "command": "true" });
    assert_eq!(rig.plan("shell", arguments).await.unwrap().access(), access(false, false, None));
}

#[tokio::test]
async fn bad_arguments_are_refused_with_a_hint() {
    let rig = Rig::new().await;
    refused(&rig, json!({ "cmd": "ls" }), expect!["BadArguments: The arguments of `shell` do not fit as a whole: the property `command` is missing. Nothing was done."]).await;
    refused(&rig, json!({ "command": ["ls"] }), expect!["BadArguments: The arguments of `shell` do not fit at `command`: expected a string, found an array. Nothing was done."]).await;
    refused(&rig, json!({ "command": "ls", "needs": ["root"] }), expect![[r#"BadArguments: The arguments of `shell` do not fit at `needs[0]`: expected one of "network", "unconfined", found the string "root". Nothing was done."#]]).await;
    refused(
        &rig,
        json!({ "command": "ls", "timeout_s": 601 }),
        expect!["BadArguments: The arguments of `shell` do not fit at `timeout_s`: expected at most 600, found 601. Nothing was done."],
    )
    .await;
    refused(
        &rig,
        json!({ "command": "ls", "timeout_s": 0 }),
        expect!["BadArguments: The arguments of `shell` do not fit at `timeout_s`: expected at least 1, found 0. Nothing was done."],
    )
    .await;
    refused(
        &rig,
        json!({ "command": " " }),
        expect!["BadArguments: `command` is empty or holds a NUL character; nothing was run."],
    )
    .await;
    assert_eq!(
        rig.tool("shell").outline("{\"command\": \"l"),
        Display::new("shell", ToolKind::Execute)
    );
}

#[tokio::test]
async fn a_folder_that_is_gone_is_named() {
    let rig = Rig::new().await;
    let path = rig.folder.path().to_owned();
    let planned = rig.plan("shell", json!({ "command": "true" })).await.unwrap();
    drop(rig);
    let failure = planned.run(Grant::for_tests(), context()).await.unwrap_err();
    let message = failure.message.replace(path.to_str().unwrap(), "FOLDER");
    expect!["the working directory FOLDER cannot be used: No such file or directory (os error 2). The command was not run; create the folder first."].assert_eq(&message);
}

#[tokio::test]
async fn what_a_model_is_told() {
    let rig = Rig::new().await;
    let tool = rig.tool("shell");
    let spec = tool.spec();
    expect![[r#"
        Runs a command with bash (sh where there is none) in the working directory and returns its output (stdout and stderr together) and its exit code. There is no terminal and no input: use flags that avoid prompts, pagers and editors. Each call is a new shell: directory and variables do not carry over. When it ends, processes that it left in the background are ended; a server or another long process belongs in a call with `background`, which returns at once (see `job`). Of long output you get the two ends and the path of the whole. Where the machine has a sandbox, a command can change only the workspace (not the settings and hooks of git and of editors in it) and `/tmp`, which is this session's own, and has no network but a loopback that no other command reaches; what it needs beyond that goes into `needs`, and a person is asked. Prefer `read`, `search`, `glob` and `edit` for files.

        {"type":"object","additionalProperties":false,"properties":{"command":{"type":"string","description":"The command."},"timeout_s":{"type":"integer","maximum":600,"minimum":1,"description":"How many seconds it may run, 1 to 600. Without it: 120; in the background: until the session\nis closed."},"needs":{"type":"array","items":{"description":"What a command may ask for.","type":"string","enum":["network","unconfined"]},"description":"What it needs beyond writing in the workspace; a person is asked."},"reason":{"type":"string","description":"Why it needs that, in one sentence for the person who is asked."},"background":{"type":"boolean","description":"Whether to return at once with the id of a job, and to let the command run beside the turn.","default":false}},"required":["command"]}"#]].assert_eq(&format!("{}\n\n{}", spec.description, spec.input_schema));
}

#[tokio::test]
async fn large_output_is_shown_by_its_ends_and_kept_whole() {
    for exit in [0, 3] {
        let rig = Rig::new().await;
        let command = format!("echo begin; yes abc | head -c 1000000; echo end; exit {exit}");
        let (preview, blob) = match run(&rig, &command).await {
            Ok(outcome) => (outcome.text().to_owned(), outcome.blob().unwrap().clone()),
            Err(failure) => (failure.message, *failure.whole.unwrap()),
        };
        assert!((60_000..RESULT_LIMIT).contains(&preview.len()), "{}", preview.len());
        assert!(preview.starts_with("begin\n") && preview.contains("bytes, "));
        assert!(preview.ends_with(&format!("end\n[exit code {exit}]\n")));
        let whole = rig.blobs.get(&blob).unwrap();
        assert_eq!(whole.len(), 1_000_010);
        assert!(whole.starts_with(b"begin\nabc\n") && whole.ends_with(b"abc\nend\n"));
    }
}

#[tokio::test]
async fn output_beyond_what_is_kept_is_counted_and_said() {
    let rig = Rig::new().await;
    let outcome = run(&rig, "head -c 68000000 /dev/zero; echo end").await.unwrap();
    assert_eq!(outcome.blob().unwrap().bytes, 64 * 1024 * 1024);
    assert!(outcome.text().ends_with("[only the first 67108864 of 68000004 bytes are kept]\n"));
    assert_eq!(outcome.value["facts"]["stored_bytes"], 64 * 1024 * 1024);
    assert_eq!(outcome.value["facts"]["output_bytes"], 68_000_004);
}

/// A disk that is full.
struct Full;

impl BlobStore for Full {
    fn put(&self, _: &[u8]) -> Result<BlobRef, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn scratch(&self) -> Result<std::fs::File, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn put_file(&self, _: &std::fs::File) -> Result<BlobRef, StoreError> {
        Err(std::io::Error::from(std::io::ErrorKind::StorageFull).into())
    }

    fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        MemoryStore::new().get(blob)
    }
}

#[tokio::test]
async fn a_full_disk_costs_the_middle_of_a_large_output_and_says_so() {
    let rig = Rig::with(Arc::new(SystemClock), Arc::new(Full)).await;
    let outcome = run(&rig, "echo small").await.unwrap();
    assert_eq!(outcome.text(), "small\n[exit code 0]\n");
    let outcome = run(&rig, "yes abc | head -c 1000000").await.unwrap();
    let expected = "[exit code 0]\n[what is omitted is lost: it could not be stored, because no \
                    storage space]\n";
    assert!(outcome.text().ends_with(expected), "{:.300}", outcome.text());
}
