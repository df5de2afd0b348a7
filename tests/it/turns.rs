//! Turns that go well: text, thoughts, tools, and what is on disk after them.

use bridle_model_server::{Answer, Script};
use bridle_tests::{Client, Permission, rounds};
use serde_json::json;

use crate::scene::{Scene, call_then_done, reached, read_edit_then_done};

#[tokio::test]
async fn a_prompt_is_answered_with_the_models_text() {
    let scene = Scene::new(Script::new().reply(Answer::new().text_in(5, "Hello, editor."))).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.text(&session), "Hello, editor.");
    scene.assert_lawful();
}

#[tokio::test]
async fn thoughts_and_text_are_separate_messages_with_ids() {
    let answer = Answer::new().thinking("let me see").text("seen");
    let scene = Scene::new(Script::new().reply(answer).reply(Answer::new().text("again"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    client.prompt(&session, "two").await.ok();
    let trace = client.finish(&scene.place).await;
    let chunks = trace.updates_of(&session, "agent_message_chunk");
    let ids: Vec<_> = chunks.iter().map(|chunk| chunk["messageId"].clone()).collect();
    assert!(ids.iter().all(|id| id.is_string()), "{ids:?}");
    assert_ne!(ids.first(), ids.last(), "two answers, two ids");
    scene.assert_lawful();
}

/// B001: no update of a turn follows its response, however fast the model is.
#[tokio::test]
async fn all_updates_of_a_turn_precede_its_response() {
    let text: String = (0..200).map(|number| format!("{number} ")).collect();
    let answer = || Answer::new().text_in(200, &text).tool_call("list", json!({"path": "."}));
    let count = rounds(10, 100);
    let mut script = Script::new();
    for _ in 0..count {
        script = script.reply(answer()).reply(Answer::new().text("closing"));
    }
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    for _ in 0..count {
        assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    }
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.text(&session), format!("{text}closing").repeat(count));
    scene.assert_lawful();
}

#[tokio::test]
async fn read_shows_the_file_to_the_model_and_asks_nobody() {
    let scene = Scene::new(call_then_done("read", json!({"path": "a.txt"}))).await;
    let path = scene.place.write("a.txt", "first\nsecond\n");
    let (mut client, session) = scene.session().await;
    client.set_permission(Permission::Reject);
    client.prompt(&session, "read it").await.ok();
    let trace = client.finish(&scene.place).await;
    assert!(scene.last_results().contains("second"), "{}", scene.last_results());
    let calls = trace.tool_calls(&session);
    assert_eq!(calls[0]["kind"], "read");
    assert_eq!(calls[0]["status"], "completed");
    assert_eq!(calls[0]["locations"][0]["path"], json!(path));
    assert_eq!(trace.calls("session/request_permission").len(), 0);
}

#[tokio::test]
async fn edit_changes_the_file_and_shows_the_difference() {
    let edits = json!([{"old_text": "two", "new_text": "zwei"}]);
    let scene = Scene::new(read_edit_then_done("a.txt", edits)).await;
    let path = scene.place.write("a.txt", "one\r\ntwo\r\nthree");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "translate").await.ok();
    let trace = client.finish(&scene.place).await;
    assert_eq!(scene.place.read("a.txt"), "one\r\nzwei\r\nthree");
    let call = &trace.tool_calls(&session)[1];
    assert_eq!(call["kind"], "edit");
    let content = call["content"].as_array().unwrap();
    let diff = content.iter().find(|part| part["type"] == "diff").expect("a diff");
    assert_eq!(diff["path"], json!(path));
    assert!(diff["newText"].as_str().unwrap().contains("zwei"));
}

#[tokio::test]
async fn write_creates_a_file_with_its_folders() {
    let arguments = json!({"path": "new/deep/b.txt", "content": "made\n"});
    let scene = Scene::new(call_then_done("write", arguments)).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "write").await.ok();
    client.finish(&scene.place).await;
    assert_eq!(scene.place.read("new/deep/b.txt"), "made\n");
}

#[tokio::test]
async fn search_list_and_glob_find_what_is_there() {
    let both = Answer::new()
        .tool_call("search", json!({"pattern": "need.e"}))
        .tool_call("glob", json!({"pattern": "**/*.rs"}))
        .tool_call("list", json!({"path": "src"}));
    let scene = Scene::new(Script::new().reply(both).reply(Answer::new().text("done"))).await;
    scene.place.write("src/hay.rs", "straw\nneedle\n");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "find").await.ok();
    let trace = client.finish(&scene.place).await;
    let results = scene.last_results();
    assert!(results.contains("needle") && results.matches("hay.rs").count() >= 3, "{results}");
    assert!(trace.tool_calls(&session).iter().all(|call| call["status"] == "completed"));
    scene.assert_lawful();
}

#[tokio::test]
async fn shell_runs_in_the_workspace_and_reports_the_exit_code() {
    let command = "pwd; echo made > by-shell.txt; exit 3";
    let scene = Scene::new(call_then_done("shell", json!({"command": command}))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "run").await.ok();
    let trace = client.finish(&scene.place).await;
    assert_eq!(scene.place.read("by-shell.txt"), "made\n");
    let results = scene.last_results();
    let cwd = scene.place.workspace().display().to_string();
    assert!(results.contains(&cwd) && results.contains('3'), "{results}");
    assert_eq!(trace.tool_calls(&session)[0]["kind"], "execute");
}

/// B068: a background process that holds the output pipe does not hold the call.
#[tokio::test]
async fn a_background_process_does_not_hold_the_call() {
    let command = "sleep 86400 & echo back";
    let scene = Scene::new(call_then_done("shell", json!({"command": command}))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "run").await.ok();
    assert!(scene.last_results().contains("back"));
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn an_unknown_tool_and_broken_arguments_are_results_for_the_model() {
    let wrong = Answer::new()
        .tool_call("no_such_tool", json!({}))
        .tool_call_raw("read", "{\"path\": ")
        .tool_call("read", json!({"path": 7}))
        .tool_call("read", json!({"path": "missing.txt"}));
    let scene = Scene::new(Script::new().reply(wrong).reply(Answer::new().text("sorry"))).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert!(trace.tool_calls(&session).iter().all(|call| call["status"] == "failed"));
    let last = scene.requests().last().unwrap()["messages"].as_array().unwrap().last().cloned();
    let results = last.unwrap()["content"].as_array().unwrap().clone();
    assert_eq!(results.iter().filter(|result| result["is_error"] == true).count(), 4);
    scene.assert_lawful();
}

/// B010: the response comes once, after the last call, and usage is the model's.
#[tokio::test]
async fn five_steps_are_one_turn_and_the_usage_is_told() {
    let mut script = Script::new();
    for number in 0..5 {
        script =
            script.reply(Answer::new().tool_call("glob", json!({"pattern": number.to_string()})));
    }
    let scene = Scene::new(script.reply(Answer::new().text("end"))).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "go").await.stop_reason(), "end_turn");
    assert_eq!(scene.requests().len(), 6);
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.tool_calls(&session).len(), 5);
    let usage = trace.updates_of(&session, "usage_update");
    let last = usage.last().expect("usage");
    assert!(last["used"].as_u64().unwrap() > 0 && last["size"].as_u64() >= last["used"].as_u64());
}

#[tokio::test]
async fn every_kind_of_prompt_block_reaches_the_model() {
    let scene = Scene::new(Script::new()).await;
    let path = scene.place.write("notes.md", "1\n2\n3\n");
    let (mut client, session) = scene.session().await;
    let uri = format!("file://{}#L2:3", path.display());
    let prompt = json!([
        {"type": "text", "text": "text-block"},
        {"type": "resource_link", "uri": uri, "name": "notes.md"},
        {"type": "resource_link", "uri": "zed:///agent/thread/7", "name": "thread-seven"},
        {"type": "resource", "resource": {"uri": "file:///x/embedded.rs", "text": "embedded-text"}},
    ]);
    let reply = client.request("session/prompt", json!({"sessionId": session, "prompt": prompt}));
    assert_eq!(reply.await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
    let sent = scene.requests()[0]["messages"].to_string();
    for part in ["text-block", "notes.md", "zed:///agent/thread/7", "embedded-text", "embedded.rs"]
    {
        assert!(sent.contains(part), "{part} is missing in {sent}");
    }
}

#[tokio::test]
async fn instructions_of_the_root_reach_the_model() {
    let scene = Scene::new(Script::new()).await;
    scene.place.write("AGENTS.md", "Always answer in marker-language.\n");
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    client.finish(&scene.place).await;
    assert!(scene.requests()[0].to_string().contains("marker-language"));
}

#[tokio::test]
async fn two_sessions_run_side_by_side() {
    let gate = bridle_model_server::Gate::new();
    let held = bridle_model_server::Reply::from(Answer::new().text("slow")).held(&gate);
    let script = Script::new().rule("first", [held]).rule("second", [Answer::new().text("quick")]);
    let scene = Scene::new(script).await;
    let (mut client, first) = scene.session().await;
    let second = client.new_session(&scene.place).await;
    assert_ne!(first, second);
    let waiting = client.begin_prompt(&first, "first").await;
    reached(&gate).await;
    assert_eq!(client.prompt(&second, "second").await.stop_reason(), "end_turn");
    gate.open();
    assert_eq!(client.reply(&waiting).await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert_eq!((trace.text(&first), trace.text(&second)), ("slow".into(), "quick".into()));
}

/// B004: no terminal, no session of its own, nearly no environment.
#[tokio::test]
async fn it_works_without_a_terminal_and_nearly_without_environment() {
    let scene = Scene::new(Script::new()).await;
    let launch = scene.place.launch(["acp"]).without("HOME").without("BRIDLE_HOME");
    let mut client = Client::start(&launch.without("PATH").through(["/usr/bin/setsid", "--wait"]));
    client.request("initialize", json!({"protocolVersion": 1})).await.ok();
    client.finish(&scene.place).await;
}

/// A client that tells plans apart gets the to-do list under an id, live and in a replay, and is told
/// when there is none any more; no other client gets anything but the list.
#[tokio::test]
async fn a_to_do_list_has_an_id_for_clients_that_tell_plans_apart() {
    for takes in [true, false] {
        let item = |status: &str| json!({"items": [{"text": "look", "status": status}]});
        let script = Script::new()
            .reply(Answer::new().tool_call("todo", item("pending")))
            .reply(Answer::new().tool_call("todo", json!({"items": []})))
            .otherwise(Answer::new().text("done"));
        let scene = Scene::new(script).await;
        let mut client = Client::start(&scene.place.acp(&scene.model.url()));
        let capabilities = if takes { json!({"plan": {}}) } else { json!({"plan": null}) };
        let hello = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
        client.request("initialize", hello).await.ok();
        let session = client.new_session(&scene.place).await;
        client.prompt(&session, "go").await.ok();
        client.request("session/close", json!({"sessionId": session})).await.ok();
        client.load(&scene.place, &session).await.ok();
        let trace = client.finish(&scene.place).await;
        let entries = json!([{"content": "look", "priority": "medium", "status": "pending"}]);
        let told = match takes {
            true => [
                json!({"sessionUpdate": "plan_update",
                    "plan": {"type": "items", "planId": "todo", "entries": entries}}),
                json!({"sessionUpdate": "plan_removed", "planId": "todo"}),
            ],
            false => [entries, json!([])]
                .map(|entries| json!({"sessionUpdate": "plan", "entries": entries})),
        };
        let mut plans = trace.updates(&session);
        plans.retain(|it| it["sessionUpdate"].as_str().unwrap().starts_with("plan"));
        assert_eq!(plans, [told.as_slice(), &told].concat());
    }
}
