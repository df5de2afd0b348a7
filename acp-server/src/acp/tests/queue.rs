//! Prompts that wait behind a running turn: order, cancelling, withdrawing, local commands.

use bridle_model_server::{Answer, Gate, ModelServer, Script};
use serde_json::{Value, json};

use super::client::{Place, TestClient, model, prompt_params};

/// A model whose answer to "first" stops at the gate, and which answers "more N" with "reply N;".
async fn held(gate: &Gate, more: usize) -> ModelServer {
    let first = Answer::new().text_in(2, "held.").hold_after(1, gate);
    let rules = (0..more).fold(Script::new(), |script, number| {
        script.rule(&format!("more {number};"), [Answer::new().text(&format!("reply {number};"))])
    });
    model(rules.rule("first", [first])).await
}

/// Prompts in one write, as a client that does not wait sends them.
async fn burst(client: &mut TestClient, session: &str, texts: &[String]) -> Vec<i64> {
    let mut lines = String::new();
    let mut ids = Vec::new();
    for text in texts {
        let (id, line) = client.request("session/prompt", prompt_params(session, text));
        lines.push_str(&line);
        ids.push(id);
    }
    client.raw(lines).await;
    ids
}

fn more(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("more {number};")).collect()
}

/// What came of the session, in order: pieces of text, and `= id stop reason` for each answer.
fn story(client: &TestClient, session: &str) -> Vec<String> {
    let mut story = Vec::new();
    for message in &client.trace {
        if let Some(reason) = message["result"]["stopReason"].as_str() {
            story.push(format!("= {} {reason}", message["id"]));
        }
        let update = &message["params"]["update"];
        if message["params"]["sessionId"] == session
            && update["sessionUpdate"] == "agent_message_chunk"
        {
            story.push(update["content"]["text"].as_str().unwrap().to_owned());
        }
    }
    story
}

fn withdraw(id: i64) -> Value {
    json!({"requestId": id})
}

#[tokio::test]
async fn queued_prompts_are_answered_in_the_order_of_the_wire() {
    for count in [1, 2, 5, 70] {
        let gate = Gate::new();
        let model = held(&gate, count).await;
        let place = Place::new();
        let (mut client, session) = TestClient::with_session(&place, &model).await;
        let first = client.prompt(&session, "first").await;
        gate.reached().await;
        client.trace.clear();
        let ids = burst(&mut client, &session, &more(count)).await;
        gate.open();
        assert_eq!(client.stop(*ids.last().unwrap()).await, "end_turn");
        let mut expected = vec![format!("= {first} end_turn")];
        for (number, id) in ids.iter().enumerate() {
            expected.extend([format!("reply {number};"), format!("= {id} end_turn")]);
        }
        let told = story(&client, &session);
        let told: Vec<_> = told.into_iter().skip_while(|line| !line.starts_with('=')).collect();
        assert_eq!(told, expected, "{count} prompts");
        assert_eq!(model.violations(), []);
        client.leave().await;
    }
}

#[tokio::test]
async fn a_cancel_ends_what_was_sent_before_it_and_nothing_after() {
    let gate = Gate::new();
    let model = held(&gate, 4).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "first").await;
    gate.reached().await;
    client.trace.clear();
    let before = burst(&mut client, &session, &more(3)).await;
    client.cancel(&session).await;
    let after = client.prompt(&session, "more 3;").await;
    assert_eq!(client.stop(after).await, "end_turn");
    let told: Vec<_> =
        story(&client, &session).into_iter().filter(|line| !line.starts_with("he")).collect();
    let mut expected: Vec<_> =
        [first].iter().chain(&before).map(|id| format!("= {id} cancelled")).collect();
    expected.extend(["reply 3;".to_owned(), format!("= {after} end_turn")]);
    assert_eq!(told, expected);
    assert_eq!(model.requests().len(), 2, "what was cancelled in the queue reached no model");
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_local_command_is_answered_at_its_place() {
    let gate = Gate::new();
    let model = held(&gate, 1).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "first").await;
    gate.reached().await;
    client.trace.clear();
    let texts = ["/status", "/help", "more 0;"].map(str::to_owned);
    let ids = burst(&mut client, &session, &texts).await;
    // The agent has seen all three by now: this comes after them on the same way.
    let mode = json!({"sessionId": session, "modeId": "auto"});
    client.call("session/set_mode", mode).await;
    gate.open();
    assert_eq!(client.stop(ids[2]).await, "end_turn");
    let told = story(&client, &session);
    let told: Vec<_> = told.iter().skip_while(|line| !line.starts_with('=')).collect();
    assert_eq!(told.len(), 7, "{told:?}");
    assert_eq!(*told[0], format!("= {first} end_turn"));
    assert!(told[1].contains("Mode: Auto"), "as it is when it is answered: {}", told[1]);
    assert_eq!(*told[2], format!("= {} end_turn", ids[0]));
    assert!(told[3].contains("`/status`"));
    assert_eq!(*told[4], format!("= {} end_turn", ids[1]));
    assert_eq!(told[5], "reply 0;");
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_reaches_a_queued_local_command() {
    let gate = Gate::new();
    let model = held(&gate, 0).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "first").await;
    gate.reached().await;
    client.trace.clear();
    let status = client.prompt(&session, "/status").await;
    client.cancel(&session).await;
    let after = client.prompt(&session, "/help").await;
    assert_eq!(client.stop(after).await, "end_turn");
    let answers: Vec<_> =
        story(&client, &session).into_iter().filter(|line| line.starts_with('=')).collect();
    let expected = [
        format!("= {first} cancelled"),
        format!("= {status} cancelled"),
        format!("= {after} end_turn"),
    ];
    assert_eq!(answers, expected);
    assert!(!client.text_of(&session, "agent_message_chunk").contains("Session:"));
    client.leave().await;
}

#[tokio::test]
async fn a_withdrawn_prompt_in_the_queue_is_cancelled_alone_and_at_once() {
    let gate = Gate::new();
    let model = held(&gate, 3).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "first").await;
    gate.reached().await;
    let mut texts = more(3);
    texts.insert(1, "/status".to_owned());
    let ids = burst(&mut client, &session, &texts).await;
    for id in [ids[1], ids[2]] {
        client.notify("$/cancel_request", withdraw(id)).await;
        assert_eq!(client.stop(id).await, "cancelled", "while the turn before it runs");
    }
    gate.open();
    assert_eq!(client.stop(first).await, "end_turn");
    assert_eq!(client.stop(ids[0]).await, "end_turn");
    assert_eq!(client.stop(ids[3]).await, "end_turn");
    // Too late for one that is answered.
    client.notify("$/cancel_request", withdraw(ids[0])).await;
    client.call("session/list", json!({})).await;
    for id in [first].iter().chain(&ids) {
        let answers = client.trace.iter().filter(|message| message["id"] == *id).count();
        assert_eq!(answers, 1, "request {id}");
    }
    assert_eq!(model.requests().len(), 3);
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_withdrawn_prompt_whose_turn_runs_ends_that_turn_only() {
    let gate = Gate::new();
    let model = held(&gate, 2).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "first").await;
    gate.reached().await;
    client.trace.clear();
    let ids = burst(&mut client, &session, &more(2)).await;
    client.notify("$/cancel_request", withdraw(first)).await;
    assert_eq!(client.stop(ids[1]).await, "end_turn");
    let answers: Vec<_> =
        story(&client, &session).into_iter().filter(|line| line.starts_with('=')).collect();
    let expected = [
        format!("= {first} cancelled"),
        format!("= {} end_turn", ids[0]),
        format!("= {} end_turn", ids[1]),
    ];
    assert_eq!(answers, expected);
    assert_eq!(model.violations(), []);
    client.leave().await;
}
