//! The model's own questions: as a form where the client has forms, else as text.

use bridle_model_server::{Answer, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model};

fn questions() -> Value {
    json!({"questions": [
        {"header": "Colour", "question": "Which colour?", "options": [
            {"label": "Red", "description": "like a rose"}, {"label": "Blue"}]},
        {"header": "Extras", "question": "What else?", "multi_select": true, "own_words": false,
            "options": [{"label": "Tests"}, {"label": "Docs"}, {"label": "Bench"}]},
        {"header": "Name", "question": "What is it called?"},
    ]})
}

async fn asking() -> ModelServer {
    let ask = Answer::new().text("I must know.").tool_call("ask_user", questions());
    let script = Script::new()
        .rule("go", [ask, Answer::new().text("Thanks.")])
        .rule("red", [Answer::new().text("Red it is.")]);
    model(script).await
}

async fn with_forms(place: &Place, model: &ModelServer) -> (TestClient, String) {
    let mut client = TestClient::connect(place, Some(model)).await;
    let capabilities = json!({"elicitation": {"form": {}}});
    let hello = json!({"protocolVersion": 1, "clientCapabilities": capabilities});
    client.call("initialize", hello).await;
    let session = client.new_session(&place.workspace()).await;
    (client, session)
}

/// The result of the last tool call, as the model was sent it.
fn result(model: &ModelServer) -> String {
    let requests = model.requests();
    let messages = requests.last().unwrap().body["messages"].as_array().unwrap().clone();
    messages.last().unwrap()["content"][0]["content"].to_string()
}

/// Runs a turn that asks, and answers the form with `reply`.
async fn answered(reply: Value) -> (String, Value) {
    let model = asking().await;
    let place = Place::new();
    let (mut client, session) = with_forms(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    let form = client.incoming("elicitation/create").await;
    let mut reply = reply;
    reply["jsonrpc"] = json!("2.0");
    reply["id"] = form["id"].clone();
    client.raw(format!("{reply}\n")).await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(client.text_of(&session, "agent_message_chunk").ends_with("Thanks."));
    assert_eq!(model.violations(), []);
    client.leave().await;
    (result(&model), form)
}

fn accepted(content: Value) -> Value {
    json!({"result": {"action": "accept", "content": content}})
}

#[tokio::test]
async fn a_form_offers_what_the_model_asks_and_its_answers_reach_the_model() {
    let content = json!({
        "question_0": "Blue", "question_0_custom": " but dark ",
        "question_1": ["Bench", "Tests"], "question_2": "Zed",
    });
    let (result, form) = answered(accepted(content)).await;
    let params = &form["params"];
    assert_eq!(params["mode"], "form");
    assert!(params["sessionId"].is_string());
    let other = json!({"type": "string", "title": "Other", "description":
        "Your own words, instead of the choice above or beside it (optional)"});
    assert_eq!(
        params["requestedSchema"],
        json!({"type": "object", "properties": {
            "question_0": {"type": "string", "title": "Colour", "description": "Which colour?",
                "oneOf": [
                    {"const": "Red", "title": "Red", "description": "like a rose"},
                    {"const": "Blue", "title": "Blue"}]},
            "question_0_custom": other,
            "question_1": {"type": "array", "title": "Extras", "description": "What else?",
                "items": {"anyOf": [{"const": "Tests", "title": "Tests"},
                    {"const": "Docs", "title": "Docs"}, {"const": "Bench", "title": "Bench"}]}},
            "question_2": {"type": "string", "title": "Name",
                "description": "What is it called?"},
        }})
    );
    for says in [
        "Colour: Blue; in their own words: but dark",
        "Extras: Tests; Bench",
        "their own words: Zed",
    ] {
        assert!(result.contains(says), "{result}");
    }
}

#[tokio::test]
async fn no_answer_is_not_an_answer() {
    for (reply, says) in [
        (accepted(json!({})), "Colour: no answer; nothing was chosen"),
        (json!({"result": {"action": "accept"}}), "no answer; nothing was chosen"),
        (accepted(json!({"question_2": "  "})), "Name: no answer; nothing was chosen"),
        (json!({"result": {"action": "decline"}}), "declined to answer"),
        (json!({"result": {"action": "cancel"}}), "closed the questions without an answer"),
        (json!({"result": {"action": "later"}}), "could not be answered"),
        (json!({"result": {}}), "could not be answered"),
        (json!({"error": {"code": -32603, "message": "no window"}}), "could not be answered"),
        (accepted(json!({"question_0": "Green"})), "could not be answered"),
        (accepted(json!({"question_0": ["Red"]})), "could not be answered"),
        (accepted(json!({"question_1": "Tests"})), "could not be answered"),
        (accepted(json!({"question_1": ["Tests", "Tests"]})), "could not be answered"),
        (accepted(json!({"question_1": ["Tests", "Cake"]})), "could not be answered"),
        (accepted(json!({"question_1_custom": "x"})), "could not be answered"),
        (accepted(json!({"question_2": 7})), "could not be answered"),
        (accepted(json!({"question_9": "x"})), "could not be answered"),
    ] {
        let told = reply.to_string();
        let (result, _) = answered(reply).await;
        assert!(result.contains(says), "{told}: {result}");
    }
}

#[tokio::test]
async fn without_forms_the_questions_are_text_and_the_next_prompt_answers() {
    let model = asking().await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(client.trace.iter().all(|message| message["method"] != "elicitation/create"));
    let text = client.text_of(&session, "agent_message_chunk");
    for says in ["I must know.", "**1. Colour**", "- Red: like a rose", "What is it called?"] {
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(model.requests().len(), 1, "the turn ends with the questions");
    let prompt = client.prompt(&session, "red").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(model.violations(), []);
    // A replay shows the same.
    client.call("session/close", json!({"sessionId": session})).await;
    client.trace.clear();
    let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    client.call("session/load", load).await;
    assert_eq!(client.text_of(&session, "agent_message_chunk"), format!("{text}Red it is."));
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_has_no_forms_after_all_gets_text() {
    let model = asking().await;
    let place = Place::new();
    let (mut client, session) = with_forms(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    let form = client.incoming("elicitation/create").await;
    let error = json!({"code": -32601, "message": "Method not found"});
    client.raw(format!("{}\n", json!({"jsonrpc": "2.0", "id": form["id"], "error": error}))).await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(client.text_of(&session, "agent_message_chunk").contains("Which colour?"));
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_of_the_turn_withdraws_the_form() {
    let model = asking().await;
    let place = Place::new();
    let (mut client, session) = with_forms(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    let form = client.incoming("elicitation/create").await;
    client.cancel(&session).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    let withdrawn = client.trace.iter().find(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn.expect("a withdrawal")["params"]["requestId"], form["id"]);
    // An answer that comes too late does nothing, and the next prompt works.
    let late = json!({"action": "accept", "content": {"question_0": "Red"}});
    client.raw(format!("{}\n", json!({"jsonrpc": "2.0", "id": form["id"], "result": late}))).await;
    let prompt = client.prompt(&session, "red").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(!result_texts(&model).contains("Colour: Red"));
    assert_eq!(model.violations(), []);
    client.leave().await;
}

fn result_texts(model: &ModelServer) -> String {
    model.requests().last().unwrap().body["messages"].to_string()
}
