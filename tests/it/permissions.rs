//! The question before every change: what it says, and that only a clear yes is a yes.

use bridle_model_server::{Answer, Script};
use bridle_tests::Permission;
use serde_json::json;

use crate::scene::{Scene, call_then_done};

/// Writes a file, edits another and runs a command; then ends.
fn three_changes() -> Script {
    let changes = Answer::new()
        .tool_call("read", json!({"path": "old.txt"}))
        .tool_call("write", json!({"path": "new.txt", "content": "x"}))
        .tool_call(
            "edit",
            json!({
                "path": "old.txt", "edits": [{"old_text": "before", "new_text": "after"}]
            }),
        )
        .tool_call("shell", json!({"command": "touch by-shell.txt"}));
    Script::new().reply(changes).reply(Answer::new().text("done"))
}

/// B022: whatever is no clear yes leaves the workspace as it was, and the model is told.
async fn nothing_happens_after(permission: Permission) {
    let scene = Scene::new(three_changes()).await;
    scene.place.write("old.txt", "before");
    let (mut client, session) = scene.session().await;
    client.set_permission(permission);
    let reply = client.prompt(&session, "change").await;
    let trace = client.finish(&scene.place).await;
    assert_eq!(scene.place.read("old.txt"), "before");
    let names: Vec<_> = fs_err::read_dir(scene.place.workspace())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["old.txt"]);
    let calls = trace.tool_calls(&session);
    let mut changes = calls.iter().filter(|call| call["kind"] != "read");
    assert!(changes.all(|call| call["status"] == "failed"));
    if permission != Permission::Cancelled {
        assert_eq!(reply.stop_reason(), "end_turn");
        assert_eq!(trace.calls("session/request_permission").len(), 3);
        assert!(scene.last_results().matches("is_error").count() <= 3);
    }
    scene.assert_lawful();
}

#[tokio::test]
async fn a_rejected_change_does_not_happen() {
    nothing_happens_after(Permission::Reject).await;
}

#[tokio::test]
async fn an_error_instead_of_an_answer_is_a_no() {
    nothing_happens_after(Permission::Error).await;
}

#[tokio::test]
async fn an_unknown_option_is_a_no() {
    nothing_happens_after(Permission::UnknownOption).await;
}

#[tokio::test]
async fn a_cancelled_question_is_a_no() {
    nothing_happens_after(Permission::Cancelled).await;
}

/// B025, B026: the question alone carries everything, and offers exactly this call, once.
#[tokio::test]
async fn a_question_is_complete_and_grants_one_call() {
    let tail = "t".repeat(4096);
    let command = format!("echo head > out.txt; echo {tail} >> out.txt");
    let shell = || Answer::new().tool_call("shell", json!({"command": command}));
    let script = Script::new().reply(shell()).reply(shell()).reply(Answer::new().text("done"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "run").await.ok();
    let trace = client.finish(&scene.place).await;
    let asked = trace.calls("session/request_permission");
    assert_eq!(asked.len(), 2, "the same call asks again");
    let params = &asked[0]["params"];
    let kinds: Vec<_> = params["options"]
        .as_array()
        .unwrap()
        .iter()
        .map(|option| option["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["allow_once", "reject_once"]);
    let call = &params["toolCall"];
    assert_eq!(call["kind"], "execute");
    assert_eq!(call["rawInput"]["command"], command);
    assert!(call["title"].as_str().is_some_and(|title| !title.is_empty()));
    assert_eq!(scene.place.read("out.txt"), format!("head\n{tail}\n"));
}

#[tokio::test]
async fn a_question_about_an_edit_shows_the_difference_before_it_happens() {
    let scene = Scene::new(three_changes()).await;
    scene.place.write("old.txt", "before");
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Hold);
    let turn = client.begin_prompt(&session, "change").await;
    let write = client.question().await;
    client.answer(&write, Permission::Allow).await;
    let edit = client.question().await;
    assert_eq!(scene.place.read("old.txt"), "before", "nothing before the answer");
    let content = edit["params"]["toolCall"]["content"].as_array().unwrap().clone();
    let diff = content.iter().find(|part| part["type"] == "diff").expect("a diff");
    assert!(diff["newText"].as_str().unwrap().contains("after"));
    client.answer(&edit, Permission::Allow).await;
    let shell = client.question().await;
    client.answer(&shell, Permission::Allow).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    assert_eq!(scene.place.read("old.txt"), "after");
}

#[tokio::test]
async fn the_answer_is_in_the_log() {
    let scene = Scene::new(call_then_done("shell", json!({"command": "true"}))).await;
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Reject);
    client.prompt(&session, "run").await.ok();
    client.finish(&scene.place).await;
    assert_eq!(scene.events(&session, "approval/asked").len(), 1);
    let decided = scene.events(&session, "approval/decided");
    assert_eq!(decided[0]["data"]["allowed"], false);
    assert_eq!(decided[0]["data"]["by"], "client");
}

fn configure(scene: &Scene, config: &str) {
    fs_err::create_dir_all(scene.place.bridle_home()).unwrap();
    fs_err::write(scene.place.bridle_home().join("config.toml"), config).unwrap();
}

/// A user's rules: what they allow does not ask, what they deny never runs, and the log says which
/// one decided. A project's own file of that name has no say.
#[tokio::test]
async fn rules_of_the_user_decide_and_are_named() {
    let changes = Answer::new()
        .tool_call("write", json!({"path": "free.txt", "content": "x"}))
        .tool_call("write", json!({"path": "kept.txt", "content": "x"}))
        .tool_call("shell", json!({"command": "touch by-shell.txt"}))
        .tool_call("shell", json!({"command": "touch by-shell.txt; touch other.txt"}));
    let script = Script::new().reply(changes).reply(Answer::new().text("done"));
    let scene = Scene::new(script).await;
    let root = fs_err::canonicalize(scene.place.workspace()).unwrap();
    let root = root.display();
    let rules = format!(
        "[permissions]\nallow = [\"write {root}/*\", \"run touch by-shell.txt\"]\n\
         deny = [\"write {root}/kept.txt\"]\n"
    );
    configure(&scene, &rules);
    scene.place.write("config.toml", "[permissions]\nallow = [\"run touch ...\"]\n");
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Reject);
    client.prompt(&session, "change").await.ok();
    let trace = client.finish(&scene.place).await;
    assert_eq!(scene.place.read("free.txt"), "x");
    let exists = |name: &str| scene.place.workspace().join(name).exists();
    assert!(exists("by-shell.txt") && !exists("kept.txt") && !exists("other.txt"));
    assert_eq!(trace.calls("session/request_permission").len(), 1, "only what no rule knows");
    let decided: Vec<_> = scene
        .events(&session, "approval/decided")
        .iter()
        .map(|event| event["data"]["by"].as_str().unwrap().replace(&root.to_string(), "ROOT"))
        .collect();
    assert_eq!(
        decided,
        [
            "rule: allow write ROOT/*",
            "rule: deny write ROOT/kept.txt",
            "rule: allow run touch by-shell.txt",
            "client"
        ]
    );
    assert!(scene.last_results().contains("Denied by the user's rule `deny write"));
    scene.assert_lawful();
}

/// A rule that cannot be read might have refused something: nothing is allowed by the others, and
/// even `auto` asks.
#[tokio::test]
async fn a_rule_that_cannot_be_read_makes_everything_ask() {
    let write = json!({"path": "a.txt", "content": "x"});
    let scene = Scene::new(call_then_done("write", write)).await;
    let rules = "mode = \"auto\"\n[permissions]\ndeny = [\"write secrets/**\"]\n";
    configure(&scene, rules);
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Reject);
    client.prompt(&session, "write").await.ok();
    let trace = client.finish(&scene.place).await;
    let asked = trace.calls("session/request_permission");
    assert_eq!(asked.len(), 1);
    let title = asked[0]["params"]["toolCall"]["title"].as_str().unwrap();
    assert!(title.starts_with("some of your permission rules could not be read"), "{title}");
    assert!(!scene.place.workspace().join("a.txt").exists());
}

/// Modes are what they say, from the next call on, and `set_mode` reaches a session at once.
#[tokio::test]
async fn read_only_denies_and_auto_edits_without_asking() {
    let write = || Answer::new().tool_call("write", json!({"path": "a.txt", "content": "x"}));
    let script = Script::new()
        .reply(write())
        .reply(Answer::new().text("denied"))
        .reply(write())
        .reply(Answer::new().text("written"));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    let mode = |id: &str| json!({"sessionId": session, "modeId": id});
    client.request("session/set_mode", mode("read-only")).await.ok();
    client.prompt(&session, "one").await.ok();
    assert!(!scene.place.workspace().join("a.txt").exists());
    client.request("session/set_mode", mode("auto")).await.ok();
    client.prompt(&session, "two").await.ok();
    assert_eq!(scene.place.read("a.txt"), "x");
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.calls("session/request_permission").len(), 0);
    scene.assert_lawful();
}
