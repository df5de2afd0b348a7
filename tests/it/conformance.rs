//! The requirements of the protocol's conformance registry, each test named after its id. Those
//! about the transport as a whole are rules of every trace, too, and are checked at the end of
//! every test.

use bridle_model_server::{Answer, Gate, Reply, Script};
use bridle_tests::{Client, Place};
use serde_json::{Value, json};

use crate::scene::{Scene, endless, reached};

/// The smallest PNG.
const PIXEL: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==";

async fn initialized(capabilities: Value) -> (Place, Client, Value) {
    let place = Place::new();
    let mut client = Client::start(&place.launch(["acp"]));
    let params = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    let result = client.request("initialize", params).await.ok();
    (place, client, result)
}

#[tokio::test]
async fn init_001_to_004_the_agent_says_what_it_is() {
    let (place, client, result) = initialized(json!({})).await;
    assert_eq!(result["protocolVersion"], 1);
    assert_eq!(result["agentInfo"]["name"], "bridle");
    assert!(result["agentInfo"]["version"].is_string());
    let capabilities = &result["agentCapabilities"];
    assert_eq!(capabilities["loadSession"], true);
    assert_eq!(capabilities["promptCapabilities"]["embeddedContext"], true);
    for method in ["list", "resume", "close", "delete"] {
        assert!(capabilities["sessionCapabilities"][method].is_object(), "{method}");
    }
    client.finish(&place).await;
}

/// The last bytes, too, which come while the agent ends.
#[tokio::test]
async fn transport_001_002_every_line_is_a_message_in_utf_8() {
    let text = "grün\n\u{2028}\u{1F600}\u{7f}\r\nend";
    let scene = Scene::new(Script::new()).await;
    let call = Answer::new().text(text).tool_call("shell", endless(&scene.place));
    scene.model.push(call);
    let (mut client, session) = scene.session().await;
    client.begin_prompt(&session, text).await;
    client.wait_for("the call", |trace| trace.tool_calls(&session).pop()).await;
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.text(&session), text);
    assert!(trace.from_agent().all(Value::is_object), "{trace}");
}

#[tokio::test]
async fn prompt_001_002_the_stop_reason_is_defined_and_updates_are_the_sessions() {
    let script = Script::new().otherwise(Answer::new().thinking("well").text("said"));
    let scene = Scene::new(script).await;
    let (mut client, first) = scene.session().await;
    let second = client.new_session(&scene.place).await;
    for session in [&first, &second] {
        assert_eq!(client.prompt(session, "hi").await.stop_reason(), "end_turn");
    }
    let trace = client.finish(&scene.place).await;
    for session in [&first, &second] {
        assert_eq!(trace.text(session), "said");
    }
    for call in trace.calls("session/update") {
        let of = call["params"]["sessionId"].as_str().unwrap();
        assert!([&first, &second].iter().any(|session| *session == of), "{call}");
    }
}

/// Nothing of the session follows, of whatever kind.
#[tokio::test]
async fn cancel_001_002_the_result_is_cancelled_and_the_last_word() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "half of it").hold_after(1, &gate);
    let scene = Scene::new(Script::new().reply(held)).await;
    let (mut client, session) = scene.session().await;
    let turn = client.begin_prompt(&session, "go").await;
    reached(&gate).await;
    client.cancel(&session).await;
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    client.request("session/list", json!({})).await.ok();
    let trace = client.finish(&scene.place).await;
    let said: Vec<&Value> = trace.from_agent().collect();
    let end = said.iter().position(|message| message["id"] == turn).unwrap();
    let late = said[end..].iter().filter(|message| message["method"] == "session/update");
    assert_eq!(late.count(), 0, "{trace}");
}

#[tokio::test]
async fn resume_001_002_a_session_goes_on_without_being_shown_again() {
    let scene = Scene::new(Script::new().otherwise(Answer::new().text("said"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "asked").await.ok();
    client.finish(&scene.place).await;
    let mut client = scene.client().await;
    let params = json!({"sessionId": session, "cwd": scene.place.workspace()});
    assert!(client.request("session/resume", params).await.ok().is_object());
    assert_eq!(client.prompt(&session, "and?").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.text(&session), "said", "the new answer only");
    // What follows the answer to the request is no replay: the commands come then.
    assert_eq!(trace.updates_of(&session, "user_message_chunk"), [] as [Value; 0], "{trace}");
    let sent = scene.requests().pop().unwrap().to_string();
    assert!(sent.contains("asked") && sent.contains("said"), "the model knows what was: {sent}");
}

#[tokio::test]
async fn delete_001_002_a_session_is_gone_and_gone_again() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "hi").await.ok();
    for _ in 0..2 {
        let deleted = client.request("session/delete", json!({"sessionId": session})).await.ok();
        assert!(deleted.is_object(), "{deleted}");
    }
    assert_eq!(client.request("session/list", json!({})).await.ok()["sessions"], json!([]));
    client.finish(&scene.place).await;
    assert!(!scene.place.sessions().join(&session).exists());
}

#[tokio::test]
async fn adddirs_001_an_absolute_folder_is_accepted() {
    let (place, mut client, _) = initialized(json!({})).await;
    let more = place.user_home();
    let params =
        json!({"cwd": place.workspace(), "mcpServers": [], "additionalDirectories": [more]});
    client.request("session/new", params).await.ok();
    client.finish(&place).await;
}

/// What is advertised resolves; audio is not, and is refused without harm.
#[tokio::test]
async fn promptcap_001_002_an_image_is_taken_and_a_sound_is_not() {
    let scene = Scene::new(Script::new()).await;
    let mut client = scene.client().await;
    let capabilities = client.trace().response(&json!(1)).unwrap()["result"].clone();
    let capabilities = &capabilities["agentCapabilities"]["promptCapabilities"];
    assert_eq!((&capabilities["image"], &capabilities["audio"]), (&json!(true), &json!(false)));
    let session = client.new_session(&scene.place).await;
    let block = |kind: &str, mime: &str, data: &str| {
        json!({"sessionId": session,
            "prompt": [{"type": kind, "mimeType": mime, "data": data}]})
    };
    let image = block("image", "image/png", PIXEL);
    assert_eq!(client.request("session/prompt", image).await.stop_reason(), "end_turn");
    let sound = block("audio", "audio/wav", "UklGRg==");
    assert_eq!(client.request("session/prompt", sound).await.code(), -32602);
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn init_003_an_unknown_version_is_not_echoed() {
    let place = Place::new();
    let mut client = Client::start(&place.launch(["acp"]));
    let params = json!({
        "protocolVersion": 65535, "clientCapabilities": {}, "capabilities": {},
        "clientInfo": {"name": "tck", "version": "1"}, "info": {"name": "tck", "version": "1"},
    });
    assert_eq!(client.request("initialize", params).await.ok()["protocolVersion"], 1);
    client.finish(&place).await;
}

#[tokio::test]
async fn jsonrpc_004_005_an_unknown_method_is_refused_and_the_connection_usable() {
    let (place, mut client, _) = initialized(json!({})).await;
    assert_eq!(client.request("tck/unknown", json!({})).await.code(), -32601);
    client.new_session(&place).await;
    client.finish(&place).await;
}

#[tokio::test]
async fn session_001_002_new_gives_distinct_ids() {
    let (place, mut client, _) = initialized(json!({})).await;
    assert_ne!(client.new_session(&place).await, client.new_session(&place).await);
    client.finish(&place).await;
}

#[tokio::test]
async fn prompt_003_a_resource_link_is_accepted() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    let prompt = json!([{"type": "resource_link", "uri": "file:///x", "name": "x"}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    assert_eq!(client.request("session/prompt", params).await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn promptcap_003_an_embedded_resource_is_accepted() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    let prompt = json!([{"type": "resource", "resource": {"uri": "file:///x", "text": "x"}}]);
    let params = json!({"sessionId": session, "prompt": prompt});
    assert_eq!(client.request("session/prompt", params).await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn load_001_002_003_replay_is_whole_and_the_result_an_object() {
    let scene = Scene::new(Script::new().reply(Answer::new().text("said"))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "asked").await.ok();
    client.finish(&scene.place).await;
    let mut client = scene.client().await;
    let result = client.load(&scene.place, &session).await.ok();
    assert!(result.is_object(), "{result}");
    assert_eq!(client.trace().text(&session), "said");
    // What follows the response is news of the session and nothing that was said.
    client.request("session/list", json!({})).await.ok();
    let trace = client.finish(&scene.place).await;
    let said: Vec<&Value> = trace.from_agent().collect();
    let end = said.iter().position(|message| message["result"]["modes"].is_object()).unwrap();
    let late = said[end..].iter().filter_map(|message| message["params"]["update"].as_object());
    let late: Vec<_> = late.map(|update| update["sessionUpdate"].clone()).collect();
    assert_eq!(late, ["available_commands_update"], "{trace}");
}

#[tokio::test]
async fn list_001_002_and_close_001_002() {
    let gate = Gate::new();
    let held = Reply::from(Answer::new().text("never")).held(&gate);
    let scene = Scene::new(Script::new().reply(Answer::new().text("a")).reply(held)).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    assert!(client.request("session/list", json!({})).await.ok()["sessions"].is_array());
    let unused = client.request("session/list", json!({"cwd": "/unused"})).await.ok();
    assert_eq!(unused["sessions"], json!([]));
    let idle = client.new_session(&scene.place).await;
    let closed = client.request("session/close", json!({"sessionId": idle})).await.ok();
    assert!(closed.is_object());
    let turn = client.begin_prompt(&session, "two").await;
    reached(&gate).await;
    client.request("session/close", json!({"sessionId": session})).await.ok();
    assert_eq!(client.reply(&turn).await.stop_reason(), "cancelled");
    client.finish(&scene.place).await;
}

/// B019.
#[tokio::test]
async fn modes_001_002_config_001_to_003_options_are_valid_complete_and_in_step() {
    let (place, mut client, _) = initialized(json!({})).await;
    let params = json!({"cwd": place.workspace(), "mcpServers": []});
    let result = client.request("session/new", params).await.ok();
    let session = result["sessionId"].as_str().unwrap().to_owned();
    let modes = result["modes"]["availableModes"].as_array().unwrap().clone();
    let current = &result["modes"]["currentModeId"];
    assert!(modes.iter().any(|mode| mode["id"] == *current), "{result}");
    let options = result["configOptions"].as_array().unwrap().clone();
    for option in &options {
        assert_eq!(option["type"], "select", "no boolean option unadvertised");
        let values = option["options"].as_array().unwrap();
        assert!(values.iter().any(|value| value["value"] == option["currentValue"]), "{option}");
    }
    let ids: Vec<_> = options.iter().map(|option| option["id"].as_str().unwrap()).collect();
    assert!(ids.contains(&"mode") && ids.contains(&"model"), "{ids:?}");

    let set = json!({"sessionId": session, "modeId": "read-only"});
    client.request("session/set_mode", set).await.ok();
    let set = json!({"sessionId": session, "configId": "mode", "value": "auto"});
    let changed = client.request("session/set_config_option", set).await.ok();
    let changed = changed["configOptions"].as_array().unwrap();
    assert_eq!(changed.len(), options.len(), "always the complete list");
    let mode = changed.iter().find(|option| option["id"] == "mode").unwrap();
    assert_eq!(mode["currentValue"], "auto");
    for (key, value) in [("modeId", "no-such"), ("modeId", "full-access")] {
        let set = json!({"sessionId": session, key: value});
        assert_eq!(client.request("session/set_mode", set).await.code(), -32602, "{value}");
    }
    let trace = client.finish(&place).await;
    let told = trace.updates_of(&session, "current_mode_update");
    assert!(told.iter().all(|update| update["currentModeId"].is_string()), "{told:?}");
    assert!(!trace.updates_of(&session, "config_option_update").is_empty(), "kept in step");
}

#[tokio::test]
async fn auth_001_to_003_005_methods_are_unique_untyped_and_work_when_a_key_is_there() {
    let (place, client, result) = initialized(json!({})).await;
    let methods = result["authMethods"].as_array().unwrap().clone();
    assert_eq!(methods.len(), 1);
    assert!(methods[0].get("type").is_none_or(|kind| kind == "agent"), "{methods:?}");
    client.finish(&place).await;

    let scene = Scene::new(Script::new()).await;
    let mut client = scene.client().await;
    let id = &methods[0]["id"];
    client.request("authenticate", json!({"methodId": id})).await.ok();
    assert!(client.request("authenticate", json!({"methodId": "no-such"})).await.code() < 0);
    client.new_session(&scene.place).await;
    client.finish(&scene.place).await;

    let mut client = Client::ready(&place.launch(["acp"])).await;
    let error = client.request("authenticate", json!({"methodId": id})).await.error();
    assert!(error.to_string().contains("ANTHROPIC_API_KEY"), "says what to set: {error}");
    client.finish(&place).await;
}

/// The key arrives in the configuration while the agent runs; `authenticate` sees it.
#[tokio::test]
async fn auth_004_a_key_that_is_added_later_is_found() {
    let scene = Scene::new(Script::new()).await;
    let provider = format!("[providers.anthropic]\nbase_url = \"{}\"\n", scene.model.url());
    scene.place.configure("config.toml", &provider);
    let launch = scene.place.launch(["acp"]);
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    assert_eq!(client.prompt(&session, "hi").await.code(), -32000);
    scene.place.configure("config.toml", provider + "api_key = \"late-key\"\n");
    client.request("authenticate", json!({"methodId": "configured-key"})).await.ok();
    assert_eq!(client.prompt(&session, "hi").await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

#[tokio::test]
async fn ext_001_meta_001_error_001_what_is_unknown_is_answered_or_accepted() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    let error = client.request("_tck.example/custom", json!({"x": 1})).await.error();
    let message = error["message"].as_str().unwrap();
    assert!(!message.is_empty() && !message.contains('\n'), "{message:?}");
    let prompt = json!([{"type": "text", "text": "hi"}]);
    let params = json!({"sessionId": session, "prompt": prompt, "_meta": {"tck": true}});
    assert_eq!(client.request("session/prompt", params).await.stop_reason(), "end_turn");
    client.finish(&scene.place).await;
}

/// B002: nothing of a session precedes the response that introduces it; commands follow it.
#[tokio::test]
async fn commands_are_told_after_the_response() {
    let scene = Scene::new(Script::new()).await;
    let (client, session) = scene.session().await;
    let commands = client
        .wait_for("the commands", |trace| {
            trace.updates_of(&session, "available_commands_update").first().cloned()
        })
        .await;
    let names: Vec<_> = commands["availableCommands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|command| command["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        names,
        ["help", "status", "mcp", "lsp", "compact", "configure-bridle", "write-a-skill"]
    );
    client.finish(&scene.place).await;
}

/// B016: each advertised command does something, and the model never sees its text.
#[tokio::test]
async fn advertised_commands_work_without_the_model() {
    let scene = Scene::new(Script::new()).await;
    let (mut client, session) = scene.session().await;
    for command in ["/help", "/status"] {
        let before = client.trace().text(&session).len();
        assert_eq!(client.prompt(&session, command).await.stop_reason(), "end_turn");
        assert!(client.trace().text(&session).len() > before, "{command} says something");
    }
    assert_eq!(scene.requests().len(), 0);
    client.finish(&scene.place).await;
}
