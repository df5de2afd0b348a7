//! How the process ends: at once, with code 0, and with nothing left behind.

use std::time::Duration;

use bridle_model_server::{Answer, Gate, Reply, Script};
use bridle_tests::{Client, Permission, Place, wait_until_gone};
use rustix::process::Signal;
use serde_json::json;

use crate::scene::{Scene, endless, reached};

/// An agent whose session runs a command that never ends.
async fn busy() -> (Scene, Client) {
    let scene = Scene::new(Script::new()).await;
    scene.model.push(Answer::new().tool_call("shell", endless(&scene.place)));
    let (mut client, session) = scene.session().await;
    client.begin_prompt(&session, "go").await;
    scene.place.appears(&format!("started-{}", scene.place.mark())).await;
    (scene, client)
}

#[tokio::test]
async fn shutdown_001_stderr_001_end_of_input_ends_an_idle_agent_without_a_word() {
    let place = Place::new();
    let ready = Client::ready(&place.launch(["acp"])).await.finish(&place).await;
    let silent = Client::start(&place.launch(["acp"])).finish(&place).await;
    assert_eq!((ready.stderr(), silent.stderr()), ("", ""));
}

/// B131: the editor is gone in mid-turn.
#[tokio::test]
async fn end_of_input_in_mid_turn_leaves_no_child() {
    let (scene, client) = busy().await;
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn end_of_input_while_the_model_is_silent() {
    let gate = Gate::new();
    let reply = Reply::from(Answer::new().text("never")).held(&gate);
    let scene = Scene::new(Script::new().reply(reply)).await;
    let (mut client, session) = scene.session().await;
    client.begin_prompt(&session, "go").await;
    reached(&gate).await;
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn end_of_input_while_a_question_is_open() {
    let call = Answer::new().tool_call("shell", json!({"command": "touch never.txt"}));
    let scene = Scene::new(Script::new().reply(call)).await;
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Hold);
    client.begin_prompt(&session, "go").await;
    client.question().await;
    client.finish(&scene.place).await;
    assert!(!scene.place.workspace().join("never.txt").exists());
}

#[tokio::test]
async fn sigterm_in_mid_turn_leaves_no_child() {
    let (scene, mut client) = busy().await;
    client.signal(Signal::TERM);
    let (_, trace) = client.wait().await;
    assert_eq!(scene.place.processes(), [], "{trace}");
}

#[tokio::test]
async fn kill_9_in_mid_turn_leaves_no_child() {
    let (scene, mut client) = busy().await;
    let running = scene.place.processes();
    assert!(running.len() >= 2, "the agent and its command: {running:?}");
    client.signal(Signal::KILL);
    client.wait().await;
    for process in running {
        assert!(wait_until_gone(&process, Duration::from_secs(10)), "{process:?} survives");
    }
    assert_eq!(scene.place.processes(), []);
}

/// Close ends the turn as cancelled, and the session can be loaded again at once.
#[tokio::test]
async fn close_in_mid_turn_cancels_and_releases() {
    let scene = Scene::new(Script::new()).await;
    scene.model.push(Answer::new().tool_call("shell", endless(&scene.place)));
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    scene.place.appears(&format!("started-{}", scene.place.mark())).await;
    client.request("session/close", json!({"sessionId": session})).await.ok();
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    client.load(&scene.place, &session).await.ok();
    assert_eq!(client.prompt(&session, "again").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    scene.assert_lawful();
}
