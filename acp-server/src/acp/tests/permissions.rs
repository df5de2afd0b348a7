//! Questions: what the client is shown, and what each answer does.

use bridle_model_server::{Answer, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model};

async fn writing() -> ModelServer {
    let arguments = json!({"path": "new.txt", "content": "made\n"});
    let call = Answer::new().text("I will write.").tool_call("write", arguments);
    model(Script::new().rule("write it", [call, Answer::new().text("Done.")])).await
}

/// Runs a turn that asks, and answers the question with `outcome`.
async fn ask(
    client: &mut TestClient,
    session: &str,
    answer: impl FnOnce(&Value) -> Value,
) -> (Value, i64) {
    let prompt = client.prompt(session, "write it").await;
    let question = client.incoming("session/request_permission").await;
    let mut reply = answer(&question);
    reply["jsonrpc"] = json!("2.0");
    reply["id"] = question["id"].clone();
    client.raw(format!("{reply}\n")).await;
    (question, prompt)
}

fn selected(id: &str) -> Value {
    json!({"result": {"outcome": {"outcome": "selected", "optionId": id}}})
}

fn final_status(client: &TestClient, session: &str) -> Value {
    let statuses: Vec<_> =
        client.updates_of(session).filter_map(|update| update.get("status")).collect();
    (*statuses.last().expect("a tool call")).clone()
}

#[tokio::test]
async fn an_allowed_call_runs_and_the_question_showed_what_it_does() {
    let model = writing().await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let (question, prompt) = ask(&mut client, &session, |_| selected("allow_once")).await;
    let file = place.workspace().join("new.txt");
    let call = &question["params"]["toolCall"];
    assert_eq!(call["status"], "pending");
    assert_eq!(call["kind"], "edit");
    assert_eq!(call["rawInput"]["content"], "made\n");
    assert_eq!(call["locations"][0]["path"], json!(file));
    let diff = call["content"].as_array().unwrap().iter().find(|part| part["type"] == "diff");
    assert_eq!(diff.expect("a diff")["newText"], "made\n");
    // The call was announced before the question about it.
    let announced = client.updates_of(&session).find(|u| u["sessionUpdate"] == "tool_call");
    assert_eq!(announced.unwrap()["toolCallId"], call["toolCallId"]);
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(fs_err::read_to_string(file).unwrap(), "made\n");
    assert_eq!(final_status(&client, &session), "completed");
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn whatever_is_not_a_clear_yes_changes_nothing() {
    let answers: [fn(&Value) -> Value; 9] = [
        |_| selected("reject_once"),
        |_| selected("allow_always"),
        |_| json!({"error": {"code": -32603, "message": "no window"}}),
        |_| json!({"error": "no"}),
        |_| json!({"error": null}),
        |_| json!({"outcome": "allow_once"}),
        |_| {
            let mut both = selected("allow_once");
            both["error"] = json!({"code": -32603, "message": "no window"});
            both
        },
        |_| json!({"result": "yes"}),
        |_| json!({"result": {"outcome": {"outcome": "granted"}}}),
    ];
    for answer in answers {
        let model = writing().await;
        let place = Place::new();
        let (mut client, session) = TestClient::with_session(&place, &model).await;
        let (_, prompt) = ask(&mut client, &session, answer).await;
        assert_eq!(client.stop(prompt).await, "end_turn");
        assert!(!place.workspace().join("new.txt").exists());
        assert_eq!(final_status(&client, &session), "failed");
        assert_eq!(model.violations(), []);
        client.leave().await;
    }
}

#[tokio::test]
async fn a_yes_beside_a_null_error_is_a_yes() {
    let model = writing().await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let yes = |_: &Value| {
        let mut yes = selected("allow_once");
        yes["error"] = Value::Null;
        yes
    };
    let (_, prompt) = ask(&mut client, &session, yes).await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert!(place.workspace().join("new.txt").exists());
    client.leave().await;
}

#[tokio::test]
async fn a_question_that_is_cancelled_ends_the_turn() {
    let model = writing().await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let cancelled = |_: &Value| json!({"result": {"outcome": {"outcome": "cancelled"}}});
    let (_, prompt) = ask(&mut client, &session, cancelled).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    assert!(!place.workspace().join("new.txt").exists());
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_withdraws_an_open_question() {
    let model = writing().await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "write it").await;
    let question = client.incoming("session/request_permission").await;
    client.cancel(&session).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    let withdrawn = client.trace.iter().find(|message| message["method"] == "$/cancel_request");
    assert_eq!(withdrawn.expect("a withdrawal")["params"]["requestId"], question["id"]);
    assert_eq!(final_status(&client, &session), "failed");
    // An answer that comes too late does nothing.
    let mut late = selected("allow_once");
    late["jsonrpc"] = json!("2.0");
    late["id"] = question["id"].clone();
    client.raw(format!("{late}\n")).await;
    client.call("session/list", json!({})).await;
    assert!(!place.workspace().join("new.txt").exists());
    client.leave().await;
}
