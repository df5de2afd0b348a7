//! The pieces of an answer on the wire: what goes out at once, what waits, and what ends a wait.

use std::sync::Arc;

use bridle_compose::Clock;
use bridle_model_server::{Answer, Gate, ModelServer, Script};

use super::client::{Frozen, NoWaiting, Place, TestClient, model};

async fn session_at(clock: impl Clock, place: &Place, model: &ModelServer) -> (TestClient, String) {
    let mut client = TestClient::connect_at(Arc::new(clock), place, Some(model)).await;
    client.initialize().await;
    let session = client.new_session(&place.workspace()).await;
    (client, session)
}

/// The pieces of one kind, as they came.
fn pieces(client: &TestClient, session: &str, kind: &str) -> Vec<String> {
    let of_kind = client.updates_of(session).filter(|update| update["sessionUpdate"] == kind);
    of_kind.map(|update| update["content"]["text"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn the_first_piece_goes_out_at_once_and_the_end_of_a_block_and_of_the_turn_flush_the_rest() {
    let gates = [Gate::new(), Gate::new()];
    let answer = Answer::new()
        .thinking_in(3, "one two three")
        .text_in(3, "four five six")
        .hold_after(1, &gates[0])
        .hold_after(4, &gates[1]);
    let model = model(Script::new().reply(answer)).await;
    let place = Place::new();
    let (mut client, session) = session_at(Frozen, &place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    while pieces(&client, &session, "agent_thought_chunk").is_empty() {
        client.update().await;
    }
    gates[0].open();
    // The text has begun, so the whole thought is there; its rest came as one.
    while pieces(&client, &session, "agent_message_chunk").is_empty() {
        client.update().await;
    }
    assert_eq!(client.text_of(&session, "agent_thought_chunk"), "one two three");
    assert_eq!(pieces(&client, &session, "agent_thought_chunk").len(), 2);
    gates[1].open();
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "four five six");
    assert_eq!(pieces(&client, &session, "agent_message_chunk").len(), 2);
    client.leave().await;
}

#[tokio::test]
async fn a_piece_whose_time_has_come_does_not_wait_for_the_next() {
    let gate = Gate::new();
    let answer = Answer::new().text_in(3, "one two three").hold_after(2, &gate);
    let model = model(Script::new().reply(answer)).await;
    let place = Place::new();
    let (mut client, session) = session_at(NoWaiting, &place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    while pieces(&client, &session, "agent_message_chunk").len() < 2 {
        client.update().await;
    }
    gate.open();
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&session, "agent_message_chunk"), "one two three");
    client.leave().await;
}
