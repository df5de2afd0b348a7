//! Plans: the list of what is to be done, and the plan that a person reviews.

use bridle_model_server::{Answer, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model};

fn plans(client: &TestClient, session: &str) -> Vec<Vec<(String, String)>> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    client
        .updates_of(session)
        .filter(|update| update["sessionUpdate"] == "plan")
        .map(|update| {
            let entries = update["entries"].as_array().unwrap().iter();
            entries.map(|entry| (text(&entry["content"]), text(&entry["status"]))).collect()
        })
        .collect()
}

fn todo(items: &[(&str, &str)]) -> Answer {
    let items: Vec<_> =
        items.iter().map(|(text, status)| json!({"text": text, "status": status})).collect();
    Answer::new().tool_call("todo", json!({ "items": items }))
}

fn owned(items: &[(&str, &str)]) -> Vec<(String, String)> {
    items.iter().map(|(text, status)| ((*text).to_owned(), (*status).to_owned())).collect()
}

#[tokio::test]
async fn a_to_do_list_is_a_plan_live_and_in_a_replay_and_a_done_one_is_put_away() {
    let begun = [("look", "completed"), ("write", "in_progress"), ("test", "pending")];
    let done = [("look", "completed"), ("write", "completed"), ("test", "completed")];
    let script = Script::new()
        .rule("do it", [todo(&begun), todo(&done), Answer::new().text("Done.")])
        .rule("more", [Answer::new().text("More.")]);
    let model = model(script).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    // The mode that allows least: the list needs no permission.
    let mode = json!({"sessionId": session, "modeId": "read-only"});
    client.call("session/set_mode", mode).await;
    let prompt = client.prompt(&session, "do it").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(plans(&client, &session), [owned(&begun), owned(&done)]);
    let prompt = client.prompt(&session, "more").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    let all = [owned(&begun), owned(&done), Vec::new()];
    assert_eq!(plans(&client, &session), all);
    // The list is in the calls, too, for a client that shows no plans.
    let shown =
        client.updates_of(&session).filter_map(|u| u["content"][0]["content"]["text"].as_str());
    assert!(shown.collect::<String>().contains("▶ write"));
    assert_eq!(model.violations(), []);
    client.call("session/close", json!({"sessionId": session})).await;
    client.trace.clear();
    let load = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    client.call("session/load", load).await;
    assert_eq!(plans(&client, &session), all);
    client.leave().await;
}

async fn planning() -> ModelServer {
    let plan = Answer::new().tool_call("exit_plan_mode", json!({"plan": "# Plan\n\n1. Write."}));
    let write = Answer::new().tool_call("write", json!({"path": "new.txt", "content": "made\n"}));
    model(Script::new().rule("go", [plan, write, Answer::new().text("Done.")])).await
}

async fn in_mode(place: &Place, model: &ModelServer, modes: &[&str]) -> (TestClient, String) {
    let (mut client, session) = TestClient::with_session(place, model).await;
    for mode in modes {
        client.call("session/set_mode", json!({"sessionId": session, "modeId": mode})).await;
    }
    client.trace.clear();
    (client, session)
}

async fn answer(client: &mut TestClient, question: &Value, option: &str) {
    let outcome = json!({"outcome": {"outcome": "selected", "optionId": option}});
    let reply = json!({"jsonrpc": "2.0", "id": question["id"], "result": outcome});
    client.raw(format!("{reply}\n")).await;
}

/// The mode that the client was told last.
fn mode(client: &TestClient, session: &str) -> Value {
    let told = client.updates_of(session).filter_map(|update| update.get("currentModeId"));
    told.last().cloned().unwrap()
}

#[tokio::test]
async fn an_approved_plan_brings_the_mode_before_it_back() {
    let model = planning().await;
    let place = Place::new();
    let (mut client, session) = in_mode(&place, &model, &["auto", "plan"]).await;
    let prompt = client.prompt(&session, "go").await;
    let question = client.incoming("session/request_permission").await;
    let call = &question["params"]["toolCall"];
    assert_eq!(call["kind"], "switch_mode");
    assert_eq!(call["content"][0]["content"]["text"], "# Plan\n\n1. Write.");
    assert_eq!(
        question["params"]["options"],
        json!([
            {"optionId": "allow_once", "name": "Start with this plan", "kind": "allow_once"},
            {"optionId": "reject_once", "name": "Keep planning", "kind": "reject_once"},
        ])
    );
    answer(&mut client, &question, "allow_once").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(mode(&client, &session), "auto");
    let options =
        client.updates_of(&session).filter(|u| u["sessionUpdate"] == "config_option_update");
    assert_eq!(options.last().unwrap()["configOptions"][0]["currentValue"], "auto");
    assert!(place.workspace().join("new.txt").exists(), "auto lets the plan be carried out");
    let told = model.requests();
    let first = told[0].body["messages"].to_string();
    assert!(first.contains("<plan_mode>"), "{first}");
    assert!(told[1].body["messages"].to_string().contains("does not hold any more"));
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_plan_that_is_not_approved_changes_neither_mode_nor_file() {
    let answers: [fn(&Value) -> Value; 3] = [
        |_| json!({"result": {"outcome": {"outcome": "selected", "optionId": "reject_once"}}}),
        |_| json!({"error": {"code": -32601, "message": "nobody here"}}),
        |_| json!({"result": {"outcome": {"outcome": "selected", "optionId": "yes"}}}),
    ];
    let says = ["wants to keep planning", "Nobody is there", "failed to answer"];
    for (reply, says) in answers.into_iter().zip(says) {
        let model = planning().await;
        let place = Place::new();
        let (mut client, session) = in_mode(&place, &model, &["auto", "plan"]).await;
        let prompt = client.prompt(&session, "go").await;
        let question = client.incoming("session/request_permission").await;
        let mut line = reply(&question);
        line["jsonrpc"] = json!("2.0");
        line["id"] = question["id"].clone();
        client.raw(format!("{line}\n")).await;
        assert_eq!(client.stop(prompt).await, "end_turn");
        assert_eq!(mode(&client, &session), "plan");
        assert!(!place.workspace().join("new.txt").exists());
        let result = model.requests()[1].body["messages"].to_string();
        assert!(result.contains(says), "{result}");
        assert_eq!(model.violations(), []);
        client.leave().await;
    }
}

#[tokio::test]
async fn a_plan_is_handed_in_nowhere_else_and_asks_nobody() {
    for current in ["read-only", "ask", "auto"] {
        let model = planning().await;
        let place = Place::new();
        let (mut client, session) = in_mode(&place, &model, &[current]).await;
        let prompt = client.prompt(&session, "go").await;
        if current == "ask" {
            // The question is about the file, not about the plan.
            let question = client.incoming("session/request_permission").await;
            assert_eq!(question["params"]["toolCall"]["kind"], "edit");
            answer(&mut client, &question, "reject_once").await;
        }
        assert_eq!(client.stop(prompt).await, "end_turn");
        let result = model.requests()[1].body["messages"].to_string();
        assert!(result.contains("is not planning"), "{result}");
        assert_eq!(mode(&client, &session), current);
        client.leave().await;
    }
}
