//! Whole conversations on the wire, as snapshots: a change that a client can see changes one of
//! them. `UPDATE_EXPECT=1 cargo test -p bridle-tests transcripts` rewrites; a person reads the diff.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Permission};
use expect_test::expect_file;
use serde_json::json;

use crate::scene::Scene;

#[tokio::test]
async fn a_session_from_its_first_line_to_its_replay() {
    let edit = json!({"path": "a.txt", "edits": [{"old_text": "old", "new_text": "new"}]});
    let work = Answer::new()
        .thinking("Read, then change.")
        .text("I will change it.")
        .tool_call("read", json!({"path": "a.txt"}))
        .tool_call("edit", edit)
        .tool_call("shell", json!({"command": "touch ran.txt"}));
    let script = Script::new()
        .reply(work)
        .reply(Answer::new().text("Done."))
        .reply(Answer::new().text("You are welcome."));
    let scene = Scene::new(script).await;
    scene.place.write("a.txt", "old\n");

    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Allow);
    commands_are_told(&client).await;
    client.prompt(&session, "Change a.txt").await.ok();
    let live = client.finish(&scene.place).await;
    expect_file!["../transcripts/live.txt"].assert_eq(&live.transcript(&scene.place));

    let mut client = Client::ready(&scene.place.acp(&scene.model.url())).await;
    client.load(&scene.place, &session).await.ok();
    commands_are_told(&client).await;
    client.prompt(&session, "Thanks").await.ok();
    let replay = client.finish(&scene.place).await;
    expect_file!["../transcripts/replay.txt"].assert_eq(&replay.transcript(&scene.place));
    scene.assert_lawful();
}

/// Waits for the update that follows the opening of a session, so that it cannot cross with the
/// prompt.
async fn commands_are_told(client: &Client) {
    client
        .wait_for("the commands", |trace| {
            let updates = trace.calls("session/update");
            let kind = |call: &serde_json::Value| call["params"]["update"]["sessionUpdate"].clone();
            updates.iter().any(|call| kind(call) == "available_commands_update").then_some(())
        })
        .await;
}
