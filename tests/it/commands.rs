//! What a person can type: `exec`, `demo`, and usage errors.

use bridle_model_server::{Answer, Reply, Script};
use serde_json::{Value, json};

use crate::scene::{Scene, call_then_done};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[tokio::test]
async fn exec_prints_the_answer_on_stdout_only() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("the answer"))).await;
    let launch = scene.place.launch(["exec", "a question"]).model_at(&scene.model.url());
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "the answer\n");
    assert_eq!(scene.place.processes(), []);
}

#[tokio::test]
async fn exec_json_prints_one_event_a_line() {
    let scene = Scene::new(call_then_done("list", json!({"path": "."}))).await;
    let launch = scene.place.launch(["exec", "--json", "go"]).model_at(&scene.model.url());
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.len() >= 2 && lines.iter().all(Value::is_object), "{lines:?}");
}

/// Nobody is there to ask, so what would ask is denied; `--permissions auto` edits.
#[tokio::test]
async fn exec_denies_what_would_ask_and_the_mode_decides() {
    let script = || call_then_done("write", json!({"path": "a.txt", "content": "x"}));
    let scene = Scene::new(script()).await;
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    let output = launch.output().await;
    assert!(!scene.place.workspace().join("a.txt").exists());
    assert_ne!(output.status.code(), Some(0), "blocked is no success: {}", text(&output.stderr));
    let scene = Scene::new(script()).await;
    let launch = scene.place.launch(["exec", "--permissions", "auto", "go"]);
    let output = launch.model_at(&scene.model.url()).output().await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(scene.place.read("a.txt"), "x");
}

#[tokio::test]
async fn exec_has_a_distinct_code_for_each_way_to_fail() {
    let scene = Scene::new(Script::new().reply(Reply::error(400))).await;
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    let model = launch.output().await.status.code().unwrap();
    let usage = scene.place.launch(["exec", "--no-such-flag"]).output().await;
    let usage = usage.status.code().unwrap();
    let refusal = Answer::new().stop_reason(bridle_model_server::StopReason::Refusal {
        category: "general_harms".into(),
        explanation: "no".into(),
    });
    let scene = Scene::new(Script::new().reply(refusal)).await;
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    let refused = launch.output().await.status.code().unwrap();
    let mut codes = vec![0, model, usage, refused];
    codes.sort_unstable();
    codes.dedup();
    assert_eq!(codes.len(), 4, "model {model}, usage {usage}, refused {refused}");
}

/// A model that cannot work is known before there is any session, and told once.
#[tokio::test]
async fn exec_with_a_model_that_cannot_work_opens_no_session() {
    let scene = Scene::new(Script::new()).await;
    for model in ["bogus", "bogus/x", "openai/x"] {
        let flag = scene.place.launch(["exec", "--model", model, "go"]);
        let variable = scene.place.launch(["exec", "go"]).env("BRIDLE_MODEL", model);
        for (launch, code) in [(flag, 2), (variable, 1)] {
            let output = launch.model_at(&scene.model.url()).output().await;
            let told = text(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{model}: {told}");
            assert_eq!(told.lines().count(), 1, "{model}: {told}");
            assert_eq!(text(&output.stdout), "");
        }
    }
    assert!(!scene.place.sessions().exists());
}

#[tokio::test]
async fn exec_tells_a_configuration_problem_once() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("the answer"))).await;
    fs_err::create_dir_all(scene.place.bridle_home()).unwrap();
    let config = "modell = \"x\"\nmood = 1\n";
    fs_err::write(scene.place.bridle_home().join("config.toml"), config).unwrap();
    let launch = scene.place.launch(["exec", "go"]).model_at(&scene.model.url());
    let output = launch.output().await;
    let told = text(&output.stderr);
    for key in ["`modell`", "`mood`"] {
        assert_eq!(told.matches(key).count(), 1, "{told}");
    }
    assert_eq!(text(&output.stdout), "the answer\n");
}

/// State never lands in the folder that Bridle was started in.
#[tokio::test]
async fn a_relative_home_is_refused_and_not_used() {
    let scene = Scene::new(Script::new()).await;
    let launch = scene.place.launch(["exec", "go"]).env("BRIDLE_HOME", "relative");
    let output = launch.model_at(&scene.model.url()).output().await;
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{told}");
    assert!(told.contains("BRIDLE_HOME") && told.contains("absolute"), "{told}");
    assert!(!scene.place.workspace().join("relative").exists());
}

#[tokio::test]
async fn a_missing_home_is_told_once() {
    let place = bridle_tests::Place::new();
    for (arguments, what) in [(["sessions", "list"], "sessions"), (["config", "path"], "config")] {
        let launch = place.launch(arguments).without("HOME").without("BRIDLE_HOME");
        let output = launch.output().await;
        let told = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert_eq!(told.matches("set HOME").count(), 1, "{told}");
        assert!(told.contains(what) && output.stdout.is_empty(), "{told}");
    }
}

#[tokio::test]
async fn the_path_of_a_session_that_does_not_exist_is_an_error() {
    let place = bridle_tests::Place::new();
    let launch = place.launch(["sessions", "path", "01a2313b-6f57-74ab-a469-e7b658bf25e8"]);
    let output = launch.output().await;
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "");
    assert!(text(&output.stderr).contains("01a2313b"), "{}", text(&output.stderr));
}

/// Without a key `exec` says what to set.
#[tokio::test]
async fn exec_without_a_key_says_what_to_set() {
    let scene = Scene::new(Script::new()).await;
    let output = scene.place.launch(["exec", "go"]).output().await;
    assert_ne!(output.status.code(), Some(0));
    assert!(text(&output.stderr).contains("ANTHROPIC_API_KEY"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "");
}

/// The README's first command: the whole job without any key.
#[tokio::test]
async fn the_demo_shows_the_whole_job() {
    let place = bridle_tests::Place::new();
    let output = place.launch(["demo"]).output().await;
    let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{shown}");
    assert_eq!(place.processes(), []);
}

#[tokio::test]
async fn usage_errors_are_errors() {
    let place = bridle_tests::Place::new();
    for arguments in [vec!["no-such-command"], vec!["acp", "--no-such"], vec!["exec"]] {
        let output = place.launch(&arguments).output().await;
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        assert!(!output.stderr.is_empty() && output.stdout.is_empty(), "{arguments:?}");
    }
}
