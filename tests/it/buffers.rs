//! An editor that offers the texts it holds (`fs`): what it was not asked for, it cannot answer wrongly.

use bridle_model_server::{Answer, Script};
use bridle_tests::Client;
use serde_json::json;

use crate::scene::Scene;

/// B005: what a session needs to begin is read from the disk, before the editor knows of the session.
/// B055, B056: what a command changed is what is edited, and the disk is asked, never the editor, whose
/// text may be older or not saved. Nothing is written into what the editor holds.
#[tokio::test]
async fn the_disk_is_read_and_written_whatever_the_editor_holds() {
    let edit = json!({"path": "f", "edits": [{"old_text": "two", "new_text": "four"}]});
    let script = [
        Answer::new().tool_call("read", json!({"path": "f"})),
        Answer::new().tool_call("shell", json!({"command": "sed -i s/one/three/ f"})),
        Answer::new().tool_call("edit", edit.clone()),
        Answer::new().tool_call("read", json!({"path": "f"})),
        Answer::new().tool_call("edit", edit),
        Answer::new().text("done"),
    ];
    let scene = Scene::new(script.into_iter().fold(Script::new(), Script::reply)).await;
    scene.place.write("f", "one\ntwo\n");
    let mut client = Client::start(&scene.place.acp(&scene.model.url()));
    let files = json!({"fs": {"readTextFile": true, "writeTextFile": true}});
    let hello = json!({"protocolVersion": 1, "clientCapabilities": files});
    client.request("initialize", hello).await.ok();
    scene.place.write("AGENTS.md", "Be brief.\n");
    let session = client.new_session(&scene.place).await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    assert_eq!(scene.place.read("f"), "three\nfour\n");
    let asked = scene.requests()[0].to_string();
    assert!(asked.contains("Be brief."), "{asked}");
    let trace = client.finish(&scene.place).await;
    for method in ["fs/read_text_file", "fs/write_text_file"] {
        assert!(trace.calls(method).is_empty(), "{method}");
    }
}
