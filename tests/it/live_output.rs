//! The output of a command while it runs, in the form that the client understands.

use bridle_model_server::Answer;
use bridle_tests::{Client, Trace};
use serde_json::{Value, json};

use crate::scene::{Scene, call_then_done};

/// Writes, waits for the file `go`, writes more, and fails.
const COMMAND: &str = "echo first; until [ -e go ]; do sleep 0.01; done; echo second; exit 3";

async fn session_of(scene: &Scene, capabilities: Value) -> (Client, String) {
    let mut client = Client::start(&scene.place.acp(&scene.model.url()));
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    client.request("initialize", params).await.ok();
    let session = client.new_session(&scene.place).await;
    (client, session)
}

/// What was written to the terminals.
fn written(trace: &Trace, session: &str) -> String {
    let updates = trace.updates(session);
    let data = updates.iter().filter_map(|u| u["_meta"]["terminal_output"]["data"].as_str());
    data.collect()
}

/// What is shown of a call as text.
fn texts(call: &Value) -> String {
    let content = call["content"].as_array().into_iter().flatten();
    content.filter_map(|part| part["content"]["text"].as_str()).collect()
}

#[tokio::test]
async fn a_client_that_takes_terminals_gets_each_line_once_and_the_end() {
    let scene = Scene::new(call_then_done("shell", json!({"command": COMMAND}))).await;
    let (mut client, session) =
        session_of(&scene, json!({"_meta": {"terminal_output": true}})).await;
    let prompt = client.begin_prompt(&session, "go").await;
    client
        .wait_for("the first line", |trace| {
            written(trace, &session).contains("first").then_some(())
        })
        .await;
    scene.place.write("go", "");
    assert_eq!(client.reply(&prompt).await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert_eq!(written(&trace, &session), "first\nsecond\n[exit code 3]\n");

    let updates = trace.updates(&session);
    let begun = updates.iter().find(|u| u["sessionUpdate"] == "tool_call").unwrap();
    let id = &begun["toolCallId"];
    assert_eq!(begun["_meta"]["terminal_info"]["terminal_id"], *id);
    assert_eq!(begun["_meta"]["terminal_info"]["cwd"], json!(scene.place.workspace()));
    let terminal = json!([{"type": "terminal", "terminalId": id}]);
    assert_eq!(begun["content"], terminal);
    let ended = updates.iter().find(|u| u["status"] == "failed").unwrap();
    // What the command is taken to have changed stands beside its output.
    assert_eq!([&ended["content"][0]], [&terminal[0]]);
    assert_eq!(ended["content"][1]["type"], "diff");
    let exit = json!({"terminal_id": id, "exit_code": 3, "signal": null});
    assert_eq!(ended["_meta"]["terminal_exit"], exit);

    // A load shows the whole as text: the terminal is gone with the process.
    let (mut client, _) = session_of(&scene, json!({"_meta": {"terminal_output": true}})).await;
    client.load(&scene.place, &session).await.ok();
    let trace = client.finish(&scene.place).await;
    let call = &trace.tool_calls(&session)[0];
    assert!(texts(call).contains("second"), "{call}");
}

/// What never ran has no output; the reason is what there is to see.
#[tokio::test]
async fn a_command_that_is_refused_says_why_instead_of_an_empty_terminal() {
    let scene = Scene::new(call_then_done("shell", json!({"command": ""}))).await;
    let (mut client, session) =
        session_of(&scene, json!({"_meta": {"terminal_output": true}})).await;
    client.prompt(&session, "go").await.ok();
    let trace = client.finish(&scene.place).await;
    let call = &trace.tool_calls(&session)[0];
    assert_eq!(call["status"], "failed");
    assert!(texts(call).contains("empty"), "{call}");
    assert_eq!(written(&trace, &session), "");
}

#[tokio::test]
async fn any_other_client_gets_the_end_of_the_output_as_text() {
    let script = call_then_done("shell", json!({"command": COMMAND}));
    let scene = Scene::new(script.otherwise(Answer::new().text("done"))).await;
    let (mut client, session) = session_of(&scene, json!({"terminal": true})).await;
    let prompt = client.begin_prompt(&session, "go").await;
    client
        .wait_for("the first line", |trace| {
            let calls = trace.tool_calls(&session);
            let text = calls.first()?["content"][0]["content"]["text"].as_str()?.to_owned();
            (text == "```\nfirst\n```").then_some(())
        })
        .await;
    scene.place.write("go", "");
    client.reply(&prompt).await.ok();
    let trace = client.finish(&scene.place).await;
    assert!(trace.updates(&session).iter().all(|update| update.get("_meta").is_none()));
    let call = &trace.tool_calls(&session)[0];
    assert!(texts(call).contains("second"), "{call}");
}
