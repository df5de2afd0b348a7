//! The end of a connection, from either side.

use std::sync::Arc;

use bridle_model_server::{Answer, Script};
use serde_json::json;

use super::client::{NoWaiting, Place, TestClient, model};

#[tokio::test]
async fn an_idle_agent_leaves_when_the_input_ends() {
    let model = model(Script::new()).await;
    let place = Place::new();
    TestClient::connect(&place, Some(&model)).await.leave().await;
    let (client, _) = TestClient::with_session(&place, &model).await;
    client.leave().await;
}

#[tokio::test]
async fn the_end_of_the_input_cancels_what_runs_and_the_session_can_be_loaded() {
    let model = model(Script::new().reply(Answer::new().text("x").stall_after(1))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    model.wait_for_requests(1).await;
    let trace = client.leave().await;
    let last = trace.last().unwrap();
    assert_eq!(last["id"], prompt);
    assert_eq!(last["result"]["stopReason"], "cancelled");

    let mut client = TestClient::ready(&place, Some(&model)).await;
    let params = json!({"sessionId": session, "cwd": place.workspace(), "mcpServers": []});
    assert!(client.call("session/load", params).await.get("result").is_some());
    let prompt = client.prompt(&session, "again").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_client_that_vanishes_ends_the_agent_in_the_middle_of_a_turn() {
    let model = model(Script::new().otherwise(Answer::new().stall_after(0))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    client.prompt(&session, "go").await;
    model.wait_for_requests(1).await;
    client.drop_pipes();
    client.served.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_closes_its_side_and_reads_nothing_is_not_waited_for() {
    let model = model(Script::new().otherwise(Answer::new().burst(1_000, 4_096))).await;
    let place = Place::new();
    let mut client = TestClient::connect_at(Arc::new(NoWaiting), &place, Some(&model)).await;
    client.initialize().await;
    let session = client.new_session(&place.workspace()).await;
    client.prompt(&session, "go").await;
    client.out_of_credits().await;
    client.end_input().await;
    client.served.await.unwrap().unwrap();
}
