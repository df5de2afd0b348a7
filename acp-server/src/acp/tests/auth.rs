//! Logging in and out over the wire, and what clients of other kinds are told at the beginning.

use bridle_model_server::Script;
use serde_json::{Value, json};

use super::client::{Place, TestClient, model};

async fn methods_for(capabilities: Value) -> Vec<Value> {
    let place = Place::new();
    let mut client = TestClient::connect(&place, None).await;
    let result = client.initialize_as(json!({"clientCapabilities": capabilities})).await;
    assert_eq!(result["agentCapabilities"]["auth"], json!({"logout": {}}));
    client.leave().await;
    result["authMethods"].as_array().unwrap().clone()
}

/// AUTH-001/002/005: unique ids, one method that any client can call, and a terminal only where
/// there is one.
#[tokio::test]
async fn a_client_is_offered_what_it_can_do() {
    let plain = methods_for(json!({})).await;
    assert_eq!(plain.len(), 1);
    assert!(plain[0].get("type").is_none(), "{plain:?}");

    let terminal = methods_for(json!({"auth": {"terminal": true}})).await;
    assert_eq!(terminal[0], plain[0]);
    assert_eq!(terminal[1]["type"], "terminal");
    assert_eq!(terminal[1]["args"], json!(["login"]));

    let command = methods_for(json!({"_meta": {"terminal-auth": true}})).await;
    assert_eq!(command[0], plain[0]);
    assert!(command[1].get("type").is_none(), "{command:?}");
    let how = &command[1]["_meta"]["terminal-auth"];
    assert_eq!(how["args"], json!(["login"]));
    assert!(how["label"].is_string() && how["command"].as_str().unwrap().starts_with('/'));
    assert!(how["env"]["BRIDLE_HOME"].is_string());
    assert_ne!(command[0]["id"], command[1]["id"]);
}

#[tokio::test]
async fn authenticate_is_a_look_at_the_keys_and_every_failure_says_what_to_do() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let mut client = TestClient::ready(&place, Some(&model)).await;
    for method in ["configured-key", "bridle-login"] {
        let answer = client.call("authenticate", json!({"methodId": method})).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert!(model.requests().is_empty());
    let error = client.call("authenticate", json!({"methodId": "magic"})).await["error"].clone();
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("configured-key"), "{error}");
    client.leave().await;

    // No key at all, and one in a file that cannot be read.
    for (file, says) in
        [(None, "bridle login"), (Some("[providers.anthropic\n"), "credentials.toml")]
    {
        let place = Place::new();
        fs_err::create_dir_all(place.home()).unwrap();
        if let Some(text) = file {
            fs_err::write(place.home().join("credentials.toml"), text).unwrap();
        }
        let mut client = TestClient::ready(&place, None).await;
        let answer = client.call("authenticate", json!({"methodId": "configured-key"})).await;
        let error = &answer["error"];
        assert_eq!(error["code"], -32000, "{answer}");
        for place in [&error["message"], &error["data"]["details"]] {
            assert!(place.as_str().unwrap().contains(says), "{answer}");
        }
        client.leave().await;
    }
}

#[tokio::test]
async fn after_a_logout_no_key_is_used_until_somebody_authenticates() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let credentials = place.home().join("credentials.toml");
    fs_err::write(&credentials, "[providers.deepseek]\napi_key = \"kept\"\n").unwrap();
    assert_eq!(client.call("logout", json!({})).await["result"], json!({}));
    assert!(!fs_err::read_to_string(&credentials).unwrap().contains("kept"));
    let prompt = client.prompt(&session, "go").await;
    let error = client.answer(prompt).await["error"].clone();
    assert_eq!(error["code"], -32000, "{error}");
    assert!(error["message"].as_str().unwrap().contains("you logged out"), "{error}");
    assert!(model.requests().is_empty());
    let authenticate = json!({"methodId": "configured-key"});
    assert_eq!(client.call("authenticate", authenticate).await["result"], json!({}));
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    client.leave().await;
}

#[tokio::test]
async fn a_logout_that_cannot_change_the_file_says_so_and_holds_all_the_same() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    fs_err::write(place.home().join("credentials.toml"), "providers = 1\n").unwrap();
    let error = client.call("logout", json!({})).await["error"].clone();
    assert_eq!(error["data"]["kind"], "logout", "{error}");
    assert!(error["message"].as_str().unwrap().contains("credentials.toml"), "{error}");
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.answer(prompt).await["error"]["code"], -32000);
    client.leave().await;
}

/// Clients that know no options and cannot say so get the models where they were before.
#[tokio::test]
async fn old_clients_by_name_get_the_models_beside_the_modes() {
    let model = model(Script::new()).await;
    let place = Place::new();
    for (name, wanted) in [("marimo", true), ("zed", false)] {
        let mut client = TestClient::connect(&place, Some(&model)).await;
        client.initialize_as(json!({"clientInfo": {"name": name, "version": "1"}})).await;
        let new = json!({"cwd": place.workspace(), "mcpServers": []});
        let answer = client.call("session/new", new.clone()).await;
        let session = answer["result"]["sessionId"].as_str().unwrap().to_owned();
        let mut load = new;
        load["sessionId"] = json!(session);
        for answer in [answer, client.call("session/load", load).await] {
            let models = answer["result"].get("models");
            assert_eq!(models.is_some(), wanted, "{answer}");
            let Some(models) = models else { continue };
            assert_eq!(
                models["currentModelId"],
                answer["result"]["configOptions"][1]["currentValue"]
            );
            assert!(models["availableModels"][0]["modelId"].as_str().unwrap().contains('/'));
            assert!(models["availableModels"][0]["name"].is_string());
        }
        client.leave().await;
    }
}
