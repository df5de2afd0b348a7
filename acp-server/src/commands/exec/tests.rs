//! `exec` from prompt to exit code, in process, against the scripted model over HTTP.

use std::io;

use bridle_model_server::{Answer, Gate, ModelServer, Reply, Script, StopReason};
use serde_json::{Value, json};

use super::*;
use crate::config::Environment;

/// What a run left behind.
struct Ran {
    exit: Exit,
    out: String,
    progress: String,
    /// What the model was sent, as JSON.
    sent: String,
    workspace: tempfile::TempDir,
}

impl Ran {
    fn events(&self) -> Vec<Value> {
        self.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn file(&self) -> String {
        fs_err::read_to_string(self.workspace.path().join("a.txt")).unwrap()
    }
}

/// Output that a test reads afterwards.
#[derive(Default)]
struct Memory(Vec<u8>);

impl io::Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Memory {
    fn is_terminal(&self) -> bool {
        false
    }
}

struct Setup {
    script: Script,
    mode: Option<Mode>,
    key: bool,
    json: bool,
    stop: CancellationToken,
}

impl Setup {
    fn new(script: Script) -> Self {
        Self { script, mode: None, key: true, json: false, stop: CancellationToken::new() }
    }

    async fn run(self) -> Ran {
        let model = ModelServer::start(self.script).await.unwrap();
        let home = tempfile::tempdir().unwrap();
        let workspace = tempfile::tempdir().unwrap();
        fs_err::write(workspace.path().join("a.txt"), "one\n").unwrap();
        let variables = [
            ("BRIDLE_HOME".into(), home.path().into()),
            ("ANTHROPIC_BASE_URL".into(), model.url().into()),
        ];
        let key = self.key.then(|| ("ANTHROPIC_API_KEY".to_owned(), "test-key".to_owned()));
        let overrides = Overrides { mode: self.mode, ..Overrides::default() };
        let app = Arc::new(App::compose(Environment::new(variables, key), overrides).await);
        let cwd = fs_err::canonicalize(workspace.path()).unwrap();
        let job = Job { prompt: "do it".to_owned(), cwd, json: self.json };
        let (mut out, mut progress) = (Memory::default(), Vec::new());
        let exit = job.run(Arc::clone(&app), &self.stop, &mut out, &mut progress).await.unwrap();
        app.close().await;
        let sent = model.requests().into_iter().map(|request| request.body.to_string()).collect();
        let (out, progress) =
            (String::from_utf8(out.0).unwrap(), String::from_utf8(progress).unwrap());
        Ran { exit, out, progress, sent, workspace }
    }
}

fn edit() -> Answer {
    let edits = json!([{"old_text": "one", "new_text": "two"}]);
    Answer::new()
        .text("First the edit.")
        .tool_call("read", json!({"path": "a.txt"}))
        .tool_call("edit", json!({"path": "a.txt", "edits": edits}))
}

fn editing() -> Script {
    Script::new().rule("do it", [edit(), Answer::new().text("All done.")])
}

#[tokio::test]
async fn the_answer_is_the_last_message_and_the_rest_is_progress() {
    let ran = Setup { mode: Some(Mode::Auto), ..Setup::new(editing()) }.run().await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Done, "All done.\n"), "{}", ran.progress);
    assert_eq!(ran.file(), "two\n");
    assert!(ran.progress.contains("First the edit."), "{}", ran.progress);
    assert!(ran.progress.contains("a.txt"), "{}", ran.progress);
}

#[tokio::test]
async fn where_a_mode_asks_the_answer_is_no_and_the_exit_code_says_so() {
    let ran = Setup::new(editing()).run().await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Blocked, "All done.\n"), "{}", ran.progress);
    assert_eq!(ran.file(), "one\n");
    assert!(ran.progress.contains("--permissions"), "{}", ran.progress);
    // Neither the model nor the reader hears of a person who said no: there is none.
    for text in [&ran.progress, &ran.sent] {
        assert!(text.contains("there is nobody to ask"), "{text}");
        assert!(!text.contains("The person declined"), "{text}");
    }
}

#[tokio::test]
async fn what_a_mode_forbids_is_blocked_too_and_the_reason_is_shown() {
    for mode in [Mode::ReadOnly, Mode::Plan] {
        let ran = Setup { mode: Some(mode), ..Setup::new(editing()) }.run().await;
        let shown = (ran.exit, ran.out.as_str());
        assert_eq!(shown, (Exit::Blocked, "All done.\n"), "{}", ran.progress);
        assert_eq!(ran.file(), "one\n");
        assert!(ran.progress.contains("failed  Denied by the permission mode"), "{}", ran.progress);
    }
}

#[tokio::test]
async fn a_call_that_fails_by_itself_is_not_blocked() {
    let call = Answer::new().tool_call("read", json!({"path": "missing.txt"}));
    let script = Script::new().rule("do it", [call, Answer::new().text("It is missing.")]);
    let ran = Setup::new(script).run().await;
    assert_eq!((ran.exit, ran.out.as_str()), (Exit::Done, "It is missing.\n"), "{}", ran.progress);
    assert!(ran.progress.contains("missing.txt"), "{}", ran.progress);
}

#[tokio::test]
async fn what_bridle_says_itself_is_no_part_of_the_answer() {
    let silent = || Script::new().otherwise(Answer::new());
    let ran = Setup::new(silent()).run().await;
    assert_eq!(ran.out, "");
    assert!(ran.progress.contains("warning  The model gave no answer"), "{}", ran.progress);
    let ran = Setup { json: true, ..Setup::new(silent()) }.run().await;
    assert_eq!(ran.events().last().unwrap()["answer"], "");
}

#[tokio::test]
async fn a_refusal_and_a_cut_answer_have_exit_codes_of_their_own() {
    let refusal =
        StopReason::Refusal { category: "cyber".to_owned(), explanation: "No.".to_owned() };
    for (stop, exit) in [(refusal, Exit::Blocked), (StopReason::MaxTokens, Exit::Failed)] {
        let script = Script::new().otherwise(Answer::new().text("Hm.").stop_reason(stop));
        let ran = Setup::new(script).run().await;
        assert_eq!(ran.exit, exit, "{}", ran.progress);
    }
}

#[tokio::test]
async fn a_missing_and_a_refused_key_fail_and_say_what_to_do() {
    let missing = Setup { key: false, ..Setup::new(Script::new()) }.run().await;
    assert_eq!((missing.exit, missing.out.as_str()), (Exit::Failed, ""));
    assert!(missing.progress.contains("ANTHROPIC_API_KEY"), "{}", missing.progress);
    let refused = Setup::new(Script::new().otherwise(Reply::error(401))).run().await;
    assert_eq!((refused.exit, refused.out.as_str()), (Exit::Failed, ""));
    assert!(refused.progress.contains("error"), "{}", refused.progress);
}

#[tokio::test]
async fn a_stop_cancels_the_turn() {
    let gate = Gate::new();
    let answer = Answer::new().text_in(2, "Half of it.").hold_after(1, &gate);
    let setup = Setup::new(Script::new().otherwise(answer));
    let stop = setup.stop.clone();
    let (ran, ()) = tokio::join!(setup.run(), async {
        gate.reached().await;
        stop.cancel();
    });
    assert_eq!(ran.exit, Exit::Cancelled, "{}", ran.progress);
}

#[tokio::test]
async fn json_is_one_event_a_line_and_ends_with_the_result() {
    let ran = Setup { json: true, ..Setup::new(editing()) }.run().await;
    let events = ran.events();
    let types: Vec<_> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(types.first(), Some(&"session"));
    assert!(types.contains(&"update") && types.contains(&"permission"), "{types:?}");
    let result = events.last().unwrap();
    assert_eq!(result["type"], "result");
    assert_eq!(result["answer"], "All done.");
    assert_eq!((&result["denied"], &result["exitCode"]), (&json!(1), &json!(3)));
}

/// Output whose reader has gone away.
struct Gone;

impl io::Write for Gone {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Output for Gone {
    fn is_terminal(&self) -> bool {
        false
    }
}

#[tokio::test]
async fn a_reader_that_went_away_ends_the_run() {
    let home = tempfile::tempdir().unwrap();
    let environment = Environment::new([("BRIDLE_HOME".into(), home.path().into())], []);
    let app = Arc::new(App::compose(environment, Overrides::default()).await);
    let job = Job { prompt: "x".to_owned(), cwd: home.path().to_owned(), json: true };
    let never = CancellationToken::new();
    let error = job.run(Arc::clone(&app), &never, &mut Gone, &mut Vec::new()).await.unwrap_err();
    assert!(crate::commands::is_broken_pipe(&error), "{error:#}");
    app.close().await;
}
