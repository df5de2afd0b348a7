//! Messages for the running turn.

use bridle_model_server::{Answer, Gate, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model, prompt_params};

const METHOD: &str = "_session/steering";

fn or_give_back(session: &str, text: &str) -> Value {
    let mut params = prompt_params(session, text);
    params["_meta"] = json!({"steering": {"idleBehavior": "promptRequired"}});
    params
}

/// The texts of the last user message of a request.
fn newest(model: &ModelServer) -> Vec<String> {
    let requests = model.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    let blocks = messages.last().unwrap()["content"].as_array().unwrap().clone();
    let kind = |block: &Value| match block["type"].as_str() {
        Some("text") => block["text"].as_str().unwrap().to_owned(),
        other => format!("<{}>", other.unwrap()),
    };
    blocks.iter().map(kind).collect()
}

#[tokio::test]
async fn it_is_advertised_as_the_others_do() {
    let place = Place::new();
    let mut client = TestClient::connect(&place, None).await;
    let answer = client.call("initialize", json!({"protocolVersion": 1})).await;
    assert_eq!(answer["result"]["_meta"]["steering"], json!({"supported": true}));
    client.leave().await;
}

#[tokio::test]
async fn a_message_joins_the_turn_behind_its_tools_and_two_keep_their_order() {
    let write = Answer::new().tool_call("write", json!({"path": "a.txt", "content": "a\n"}));
    let script = Script::new().rule("go", [write]).rule("second", [Answer::new().text("Both.")]);
    let model = model(script).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    // The call waits for an answer, so the turn is among its tools.
    let question = client.incoming("session/request_permission").await;
    let first = client.send(METHOD, prompt_params(&session, "first")).await;
    let second = client.send(METHOD, or_give_back(&session, "second")).await;
    client.call("session/list", json!({})).await;
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": "allow_once"}});
    let yes = json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome});
    client.raw(format!("{yes}\n")).await;
    for steering in [first, second] {
        assert_eq!(client.answer(steering).await["result"], json!({"outcome": "injected"}));
    }
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(newest(&model), ["<tool_result>", "first", "second"]);
    assert_eq!(model.requests().len(), 2);
    assert_eq!(model.violations(), []);
    // A replay shows them where the model got them.
    client.call("session/close", json!({"sessionId": session})).await;
    client.trace.clear();
    let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    client.call("session/load", load).await;
    let shown: Vec<_> = client
        .updates_of(&session)
        .filter_map(|update| match update["sessionUpdate"].as_str() {
            Some("tool_call") => Some("<call>"),
            Some("user_message_chunk" | "agent_message_chunk") => {
                update["content"]["text"].as_str()
            }
            _ => None,
        })
        .collect();
    assert_eq!(shown, ["go", "<call>", "first", "second", "Both."]);
    client.leave().await;
}

#[tokio::test]
async fn a_message_during_an_answer_without_tools_is_a_further_step_of_its_turn() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "One.").hold_after(1, &gate);
    let script = Script::new().rule("go", [held]).rule("and this", [Answer::new().text("Two.")]);
    let model = model(script).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    gate.reached().await;
    let steering = client.send(METHOD, or_give_back(&session, "and this")).await;
    client.call("session/set_mode", json!({"sessionId": session, "modeId": "auto"})).await;
    gate.open();
    assert_eq!(client.answer(steering).await["result"], json!({"outcome": "injected"}));
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "One.Two.");
    let log = client.call("session/list", json!({})).await;
    assert!(log["result"].is_object());
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn an_idle_session_gives_it_back_or_begins_a_turn_as_the_client_says() {
    let model = model(Script::new().otherwise(Answer::new().text("Hello."))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let answer = client.call(METHOD, or_give_back(&session, "hi")).await;
    let back = json!({"outcome": "promptRequired", "reason": "noRunningTurn"});
    assert_eq!(answer["result"], back);
    assert_eq!(model.requests().len(), 0);
    let answer = client.call(METHOD, prompt_params(&session, "hi")).await;
    assert_eq!(answer["result"], json!({"outcome": "startedNewTurn"}));
    while client.update().await["sessionUpdate"] != "usage_update" {}
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "Hello.");
    assert_eq!(model.requests().len(), 1);
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_before_the_model_read_it_is_answered_with_an_error() {
    for params in [prompt_params, or_give_back] {
        let gate = Gate::new();
        let held = Answer::new().text_in(2, "One.").hold_after(1, &gate);
        // A prompt that was never answered goes to the model again, together with the next one.
        let script = Script::new().rule("next", [Answer::new().text("Fine.")]).rule("go", [held]);
        let model = model(script).await;
        let place = Place::new();
        let (mut client, session) = TestClient::with_session(&place, &model).await;
        let prompt = client.prompt(&session, "go").await;
        gate.reached().await;
        let steering = client.send(METHOD, params(&session, "and this")).await;
        client.cancel(&session).await;
        assert_eq!(client.stop(prompt).await, "cancelled");
        let answer = client.answer(steering).await;
        assert_eq!(answer["error"]["code"], -32800, "{answer}");
        let prompt = client.prompt(&session, "next").await;
        assert_eq!(client.stop(prompt).await, "end_turn");
        assert!(!newest(&model).contains(&"and this".to_owned()));
        assert_eq!(model.violations(), []);
        // Nothing is lost of what the person said.
        client.call("session/close", json!({"sessionId": session})).await;
        client.trace.clear();
        let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
        client.call("session/load", load).await;
        assert!(client.text_of(&session, "user_message_chunk").contains("and this"));
        client.leave().await;
    }
}

#[tokio::test]
async fn a_withdrawn_message_leaves_the_turn_as_it_is() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "One.").hold_after(1, &gate);
    let model = model(Script::new().rule("go", [held])).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    gate.reached().await;
    let steering = client.send(METHOD, prompt_params(&session, "and this")).await;
    client.notify("$/cancel_request", json!({"requestId": steering})).await;
    assert_eq!(client.answer(steering).await["error"]["code"], -32800);
    gate.open();
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(model.requests().len(), 1);
    client.leave().await;
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    for (params, code) in [
        (json!({"sessionId": session}), -32602),
        (json!({"sessionId": session, "prompt": []}), -32602),
        (json!({"sessionId": session, "prompt": "text"}), -32602),
        (json!({"sessionId": "no-such", "prompt": [{"type": "text", "text": "x"}]}), -32002),
    ] {
        let answer = client.call(METHOD, params.clone()).await;
        assert_eq!(answer["error"]["code"], code, "{params}: {answer}");
    }
    client.leave().await;
}
