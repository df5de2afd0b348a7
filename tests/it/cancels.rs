//! Cancel, in every window: the turn answers `cancelled`, nothing is left running, and the
//! session goes on.

use bridle_model_server::{Answer, Gate, Reply, Script};
use bridle_tests::{Client, Permission};
use serde_json::json;

use crate::scene::{Scene, endless, reached};

/// The session after a cancel: no process of it is left, and the next prompt is lawful.
async fn goes_on(scene: &Scene, mut client: Client, session: &str) {
    assert_eq!(client.prompt(session, "and now?").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(trace.text(session).ends_with("after"), "{}", trace.text(session));
    scene.assert_lawful();
}

/// The script of every test here. The rule for the prompt after the cancel comes first: a prompt
/// that was never answered goes to the model again, together with the next one.
fn script() -> Script {
    Script::new().rule("and now?", [Answer::new().text("after")])
}

#[tokio::test]
async fn in_the_same_write_as_its_prompt() {
    let scene = Scene::new(script().rule("go", [Answer::new().text("never")])).await;
    let (client, session) = scene.session().await;
    let prompt = json!({"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": {
        "sessionId": session, "prompt": [{"type": "text", "text": "go"}]
    }});
    let cancel =
        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}});
    client.send_raw(format!("{prompt}\n{cancel}\n").as_bytes()).await;
    assert_eq!(client.reply(&json!("p")).await.stop_reason(), "cancelled");
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn while_the_answer_streams() {
    let gate = Gate::new();
    let answer = Answer::new().text_in(10, "0123456789").hold_after(5, &gate);
    let scene = Scene::new(script().rule("go", [answer])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    client.wait_for("text", |trace| trace.text(&session).contains('0').then_some(())).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn while_the_model_is_silent() {
    let gate = Gate::new();
    let reply = Reply::from(Answer::new().text("never")).held(&gate);
    let scene = Scene::new(script().rule("go", [reply])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    reached(&gate).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn while_tool_arguments_stream() {
    let gate = Gate::new();
    let call = Answer::new()
        .text("I write. ")
        .tool_call("write", json!({"path": "never.txt", "content": "x"}))
        .hold_after(1, &gate);
    let scene = Scene::new(script().rule("go", [call])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    client.wait_for("text", |trace| (!trace.text(&session).is_empty()).then_some(())).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    assert!(!scene.place.workspace().join("never.txt").exists());
    goes_on(&scene, client, &session).await;
}

/// B028: the client never answers; cancel ends the wait without an answer.
#[tokio::test]
async fn while_a_question_is_open() {
    let call = Answer::new().tool_call("shell", json!({"command": "touch never.txt"}));
    let scene = Scene::new(script().rule("go", [call])).await;
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Hold);
    let turn = client.begin_prompt(&session, "go").await;
    let question = client.question().await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    // A yes that comes too late is no yes.
    client.answer(&question, Permission::Allow).await;
    assert!(!scene.place.workspace().join("never.txt").exists());
    client.set_permission(Permission::Allow);
    goes_on(&scene, client, &session).await;
}

/// B032: every descendant is gone when the answer comes, those that left the session included.
#[tokio::test]
async fn while_a_command_runs() {
    let scene = Scene::new(script()).await;
    let mark = scene.place.mark().to_owned();
    let command = format!(
        "setsid sleep 86401 & (setsid setsid sleep 86402 &) & nohup sleep 86403 & \
         trap '' TERM INT HUP; : > started-{mark}; while :; do sleep 86404; done"
    );
    scene.model.push(Answer::new().tool_call("shell", json!({"command": command})));
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    running(&client, &session).await;
    scene.place.appears(&format!("started-{mark}")).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    let left: Vec<_> = scene
        .place
        .processes()
        .into_iter()
        .filter(|process| process.command.contains("864"))
        .collect();
    assert_eq!(left, [], "processes survive the cancel");
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn while_a_retry_waits() {
    let limited = Reply::rate_limited(std::time::Duration::from_secs(31));
    let scene = Scene::new(script().rule("go", [limited])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    // The wait is told to the person; from then on a cancel must reach it.
    client
        .wait_for("a notice of the wait", |trace| {
            trace
                .updates(&session)
                .iter()
                .any(|update| update.to_string().contains("31"))
                .then_some(())
        })
        .await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    goes_on(&scene, client, &session).await;
}

/// The tool has ended and its result is on its way to the model.
#[tokio::test]
async fn behind_the_end_of_a_tool() {
    let gate = Gate::new();
    let call = Reply::from(Answer::new().tool_call("shell", json!({"command": "echo done"})));
    let held = Reply::from(Answer::new().text("never")).held(&gate);
    let scene = Scene::new(script().rule("go", [call, held])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    reached(&gate).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    let calls = client.trace().tool_calls(&session);
    assert!(calls.iter().all(|call| call["status"] == "completed"), "{calls:?}");
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn while_a_prompt_is_queued() {
    let gate = Gate::new();
    let reply = Reply::from(Answer::new().text("never")).held(&gate);
    let scene = Scene::new(script().rule("go", [reply])).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    let queued = client.begin_prompt(&session, "queued").await;
    reached(&gate).await;
    client.cancel(&session).await;
    for prompt in [&turn, &queued] {
        assert_eq!(client.reply(prompt).await.stop_reason(), "cancelled");
    }
    goes_on(&scene, client, &session).await;
}

#[tokio::test]
async fn of_nothing_is_ignored() {
    let scene = Scene::new(script()).await;
    let (client, session) = scene.session().await;
    client.cancel(&session).await;
    client.cancel("no-such-session").await;
    goes_on(&scene, client, &session).await;
}

/// B013: control calls reach a session whose command runs.
#[tokio::test]
async fn control_calls_reach_a_busy_session() {
    let scene = Scene::new(script()).await;
    scene.model.push(Answer::new().tool_call("shell", endless(&scene.place)));
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    running(&client, &session).await;
    let mode = json!({"sessionId": session, "modeId": "auto"});
    client.request("session/set_mode", mode).await.ok();
    let model = json!({"sessionId": session, "configId": "mode", "value": "ask"});
    client.request("session/set_config_option", model).await.ok();
    client.request("session/list", json!({})).await.ok();
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    goes_on(&scene, client, &session).await;
}

/// Waits until a tool call of the session runs.
async fn running(client: &Client, session: &str) {
    let is_running = |call: &serde_json::Value| call["status"] == "in_progress";
    client
        .wait_for("a running tool", |trace| {
            trace.tool_calls(session).iter().any(is_running).then_some(())
        })
        .await;
}
