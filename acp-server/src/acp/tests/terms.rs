//! What a client asks of a session at its beginning: folders, instructions, limits; all of it holds
//! after a restart.

use bridle_model_server::{Answer, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model};

/// The answer to `session/new` with further parameters.
async fn new_with(client: &mut TestClient, place: &Place, more: Value) -> Value {
    let mut params = json!({"cwd": place.workspace(), "mcpServers": []});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.call("session/new", params).await
}

/// A session with further parameters.
async fn session_with(client: &mut TestClient, place: &Place, more: Value) -> String {
    let answer = new_with(client, place, more).await;
    answer["result"]["sessionId"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

async fn resume(client: &mut TestClient, place: &Place, session: &str, more: Value) -> Value {
    let mut params = json!({"sessionId": session, "cwd": place.workspace()});
    params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    client.call("session/resume", params).await
}

/// The system prompt of the last request.
fn system(model: &ModelServer) -> String {
    model.requests().pop().unwrap().body["system"].to_string()
}

fn tools(model: &ModelServer) -> Vec<String> {
    let request = model.requests().pop().unwrap();
    let tools = request.body["tools"].as_array().cloned().unwrap_or_default();
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

const OWN_WORDS: &str = "Bridle";

#[tokio::test]
async fn instructions_are_appended_or_take_the_place_of_bridles_own_and_last() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let text = |text: &str| json!([{"type": "text", "text": text}]);
    for (asked, replaces) in [
        (json!({"systemPrompt": {"mode": "append", "content": text("PIRATE {{x}}")}}), false),
        (json!({"systemPrompt": {"mode": "override", "content": text("PIRATE {{x}}")}}), true),
        (json!({"_meta": {"systemPrompt": {"append": "PIRATE {{x}}"}}}), false),
        (json!({"_meta": {"systemPrompt": "PIRATE {{x}}"}}), true),
    ] {
        let mut client = TestClient::ready(&place, Some(&model)).await;
        let session = session_with(&mut client, &place, asked).await;
        for _ in 0..2 {
            let prompt = client.prompt(&session, "go").await;
            assert_eq!(client.stop(prompt).await, "end_turn");
            let said = system(&model);
            assert!(said.contains("PIRATE {{x}}"), "{said}");
            assert_eq!(said.contains(OWN_WORDS), !replaces, "{said}");
            client.call("session/close", json!({"sessionId": session})).await;
            resume(&mut client, &place, &session, json!({})).await;
        }
        client.leave().await;
    }
    assert_eq!(model.violations(), []);
}

#[tokio::test]
async fn instructions_that_cannot_be_followed_are_refused_and_nothing_is_created() {
    let place = Place::new();
    let mut client = TestClient::ready(&place, None).await;
    let image = json!({"type": "image", "data": "", "mimeType": "image/png"});
    let long = "x".repeat(300 * 1024);
    for asked in [
        json!({"systemPrompt": {"mode": "sing", "content": [{"type": "text", "text": "x"}]}}),
        json!({"systemPrompt": {"mode": "append", "content": [image]}}),
        json!({"systemPrompt": {"mode": "append", "content": []}}),
        json!({"systemPrompt": {"mode": "append"}}),
        json!({"systemPrompt": "x"}),
        json!({"_meta": {"systemPrompt": long}}),
        json!({"_meta": {"systemPrompt": 7}}),
        json!({"_meta": {"bridle.dev/permissionCeiling": "none"}}),
        json!({"_meta": {"bridle.dev/permissionCeiling": 1}}),
        json!({"_meta": {"claudeCode": {"options": {"maxTurns": 0}}}}),
        json!({"_meta": {"claudeCode": {"options": {"allowedTools": "Read"}}}}),
        json!({"additionalDirectories": ["relative"]}),
        json!({"additionalDirectories": ["/no/such/folder"]}),
    ] {
        let answer = new_with(&mut client, &place, asked.clone()).await;
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    let sessions = place.home().join("state/sessions");
    assert!(!sessions.exists() || sessions.read_dir().unwrap().next().is_none());
    client.leave().await;
}

/// ADDDIRS-001.
#[tokio::test]
async fn further_folders_are_part_of_the_workspace() {
    let other = tempfile::tempdir().unwrap();
    let folder = fs_err::canonicalize(other.path()).unwrap();
    let write = |name: &str| {
        let path = folder.join(name);
        Answer::new().tool_call("write", json!({"path": path, "content": "text"}))
    };
    let script = Script::new()
        .reply(write("a"))
        .reply(Answer::new().text("done"))
        .reply(write("b"))
        .reply(Answer::new().text("done"));
    let model = model(script).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let asked = json!({"additionalDirectories": [other.path()]});
    let session = session_with(&mut client, &place, asked.clone()).await;
    let auto = json!({"sessionId": session, "modeId": "auto"});
    client.call("session/set_mode", auto).await;
    let prompt = client.prompt(&session, "go").await;
    // In `auto` nothing inside the workspace is asked about.
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(fs_err::read_to_string(folder.join("a")).unwrap(), "text");
    let row = client.call("session/list", json!({})).await["result"]["sessions"][0].clone();
    assert_eq!(row["additionalDirectories"], json!([folder]));

    // The list of a load is the whole list: without it the folder is outside, and that asks.
    client.call("session/close", json!({"sessionId": session})).await;
    resume(&mut client, &place, &session, json!({})).await;
    let prompt = client.prompt(&session, "go").await;
    let question = client.incoming("session/request_permission").await;
    let no = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"outcome": {"outcome": "selected", "optionId": "reject_once"}}});
    client.raw(format!("{no}\n")).await;
    client.stop(prompt).await;
    assert!(!folder.join("b").exists());
    // A session that is open keeps its folders; a load that wants others is told.
    let error = resume(&mut client, &place, &session, asked).await["error"].clone();
    assert_eq!(error["data"]["kind"], "open-otherwise", "{error}");
    client.leave().await;
}

#[tokio::test]
async fn nothing_raises_a_session_above_its_ceiling() {
    let leave_plan = Answer::new().tool_call("exit_plan_mode", json!({"plan": "1. go"}));
    let model = model(Script::new().reply(leave_plan).reply(Answer::new().text("done"))).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let ceiling = |mode: &str| json!({"_meta": {"bridle.dev/permissionCeiling": mode}});
    let answer = new_with(&mut client, &place, ceiling("plan")).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    // The user's own default is higher.
    assert_eq!(answer["result"]["modes"]["currentModeId"], "plan");
    let prompt = client.prompt(&session, "go").await;
    let question = client.incoming("session/request_permission").await;
    let yes = json!({"jsonrpc": "2.0", "id": question["id"],
        "result": {"outcome": {"outcome": "selected", "optionId": "allow_once"}}});
    client.raw(format!("{yes}\n")).await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    for reopened in [false, true] {
        if reopened {
            client.call("session/close", json!({"sessionId": session})).await;
            // A higher one, declared later, counts for nothing.
            let answer = resume(&mut client, &place, &session, ceiling("auto")).await;
            let modes = answer["result"]["modes"]["availableModes"].as_array().unwrap().len();
            assert_eq!(modes, 2, "{answer}");
        }
        let mode = |id: &str| json!({"sessionId": session, "modeId": id});
        let option = json!({"sessionId": session, "configId": "mode", "value": "auto"});
        for (method, params) in [
            ("session/set_mode", mode("ask")),
            ("session/set_mode", mode("full-access")),
            ("session/set_config_option", option),
        ] {
            let error = client.call(method, params).await["error"].clone();
            assert_eq!(error["code"], -32602);
            assert_eq!(error["data"]["ceiling"], "plan", "{error}");
        }
        assert_eq!(client.call("session/set_mode", mode("read-only")).await["result"], json!({}));
    }
    let went = client.updates_of(&session).filter(|u| u["sessionUpdate"] == "current_mode_update");
    assert!(went.map(|u| u["currentModeId"].clone()).all(|mode| mode == "read-only"));
    client.leave().await;
}

/// What acpx sends for `--model`, `--allowed-tools` and `--max-turns`.
#[tokio::test]
async fn the_options_of_acpx_hold_and_last() {
    let endless = Answer::new().tool_call("read", json!({"path": "x"}));
    let model = model(Script::new().otherwise(endless)).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let options = json!({
        "model": "claude-haiku-5-5", "allowedTools": ["Read", "Bash", "Teleport"], "maxTurns": 3,
    });
    let asked = json!({"_meta": {"claudeCode": {"options": options}}});
    let answer = new_with(&mut client, &place, asked).await;
    let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
    let current = &answer["result"]["configOptions"][1]["currentValue"];
    assert_eq!(current, "anthropic/claude-haiku-5-5");
    for turn in 1..=2 {
        let prompt = client.prompt(&session, "go").await;
        assert_eq!(client.stop(prompt).await, "max_turn_requests");
        assert_eq!(model.requests().len(), turn * 3);
        assert_eq!(tools(&model), ["read", "shell"]);
        client.call("session/close", json!({"sessionId": session})).await;
        resume(&mut client, &place, &session, json!({})).await;
    }
    let text = client.text_of(&session, "agent_message_chunk");
    assert!(text.contains("allowed tools are not known here: teleport"), "{text}");
    client.leave().await;

    // Without them the model has every tool that can be named.
    let mut client = TestClient::ready(&place, Some(&model)).await;
    let none = json!({"model": null, "allowedTools": null, "maxTurns": null});
    let none = json!({"_meta": {"model": "nobody", "claudeCode": {"options": none}}});
    let session = session_with(&mut client, &place, none).await;
    let prompt = client.prompt(&session, "go").await;
    model.wait_for_requests(7).await;
    client.cancel(&session).await;
    client.stop(prompt).await;
    let offered = tools(&model);
    assert!(offered.len() > 10);
    let named = [bridle_toolkit::TOOL_NAMES.as_slice(), &bridle_lsp::TOOL_NAMES].concat();
    assert!(offered.iter().all(|name| named.contains(&name.as_str())));
    assert!(client.text_of(&session, "agent_message_chunk").contains("no model `nobody`"));
    client.leave().await;
}
