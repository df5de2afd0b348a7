//! Turns: order, cancelling, notes, commands, slow clients.

use bridle_model_server::{Answer, Gate, Script};
use serde_json::json;

use super::client::{Place, TestClient, model, prompt_params};

#[tokio::test]
async fn initialize_and_new_in_one_write_are_both_answered_in_order() {
    let place = Place::new();
    let model = model(Script::new()).await;
    let mut client = TestClient::connect(&place, Some(&model)).await;
    let (first, initialize) = client.request("initialize", json!({"protocolVersion": 65_535}));
    let params = json!({"cwd": place.workspace(), "mcpServers": []});
    let (second, new) = client.request("session/new", params);
    client.raw(initialize + &new).await;
    let answer = client.next().await;
    assert_eq!(answer["id"], first);
    assert_eq!(answer["result"]["protocolVersion"], 1);
    assert_eq!(answer["result"]["agentCapabilities"]["loadSession"], true);
    assert!(answer["result"]["authMethods"][0].get("type").is_none());
    let answer = client.next().await;
    assert_eq!(answer["id"], second);
    assert!(answer["result"]["sessionId"].is_string(), "{answer}");
    assert_eq!(client.update().await["sessionUpdate"], "available_commands_update");
    client.leave().await;
}

#[tokio::test]
async fn an_answer_follows_every_update_of_its_turn() {
    let text = "word ".repeat(400);
    let answer = Answer::new().thinking_in(20, "thinking hard").text_in(200, &text);
    let model = model(Script::new().otherwise(answer)).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    for _ in 0..5 {
        client.trace.clear();
        let prompt = client.prompt(&session, "go").await;
        assert_eq!(client.stop(prompt).await, "end_turn");
        assert_eq!(client.text_of(&session, "agent_message_chunk"), text);
        assert_eq!(client.text_of(&session, "agent_thought_chunk"), "thinking hard");
        let ids: std::collections::HashSet<_> =
            client.updates_of(&session).filter_map(|update| update["messageId"].as_str()).collect();
        assert_eq!(ids.len(), 1, "one answer has one message id");
        // Nothing of the turn comes between its answer and the next one.
        let read = client.trace.len();
        client.call("session/list", json!({})).await;
        assert_eq!(client.trace.len(), read + 1);
    }
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_in_the_same_write_as_its_prompt_ends_it_as_cancelled() {
    let model = model(Script::new().otherwise(Answer::new().stall_after(0))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    for _ in 0..10 {
        let (id, prompt) = client.request("session/prompt", prompt_params(&session, "go"));
        let params = json!({"sessionId": session});
        let cancel = json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
        client.raw(format!("{prompt}{cancel}\n")).await;
        assert_eq!(client.stop(id).await, "cancelled");
    }
    client.leave().await;
}

#[tokio::test]
async fn a_cancel_in_the_middle_of_an_answer_leaves_a_usable_session() {
    let gate = Gate::new();
    let held = Answer::new().text_in(4, "one two three four").hold_after(2, &gate);
    let model = model(Script::new().reply(held).otherwise(Answer::new().text("again"))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    while client.update().await["sessionUpdate"] != "agent_message_chunk" {}
    client.cancel(&session).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    let prompt = client.prompt(&session, "again").await;
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(model.violations(), []);
    client.leave().await;
}

#[tokio::test]
async fn a_withdrawn_prompt_request_is_cancelled() {
    let model = model(Script::new().otherwise(Answer::new().stall_after(0))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    model.wait_for_requests(1).await;
    client.notify("$/cancel_request", json!({"requestId": prompt})).await;
    assert_eq!(client.stop(prompt).await, "cancelled");
    client.leave().await;
}

#[tokio::test]
async fn two_sessions_run_at_once_and_end_in_either_order() {
    let (first_gate, second_gate) = (Gate::new(), Gate::new());
    let held = |text: &str, gate: &Gate| Answer::new().text_in(2, text).hold_after(1, gate);
    let script = Script::new()
        .rule("first", [held("first text", &first_gate)])
        .rule("second", [held("second text", &second_gate)]);
    let model = model(script).await;
    let place = Place::new();
    let (mut client, first) = TestClient::with_session(&place, &model).await;
    let second = client.new_session(&place.workspace()).await;
    let one = client.prompt(&first, "first").await;
    let two = client.prompt(&second, "second").await;
    model.wait_for_requests(2).await;
    second_gate.open();
    assert_eq!(client.stop(two).await, "end_turn");
    first_gate.open();
    assert_eq!(client.stop(one).await, "end_turn");
    assert_eq!(client.text_of(&first, "agent_message_chunk"), "first text");
    assert_eq!(client.text_of(&second, "agent_message_chunk"), "second text");
    client.leave().await;
}

#[tokio::test]
async fn a_busy_session_answers_control_calls_and_queues_prompts() {
    let gate = Gate::new();
    let held = Answer::new().text_in(2, "held text").hold_after(1, &gate);
    let model = model(Script::new().reply(held).otherwise(Answer::new().text("next"))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let first = client.prompt(&session, "go").await;
    gate.reached().await;
    let mode = json!({"sessionId": session, "modeId": "auto"});
    assert!(client.call("session/set_mode", mode).await.get("result").is_some());
    assert!(client.call("session/list", json!({})).await.get("result").is_some());
    let second = client.prompt(&session, "more").await;
    gate.open();
    assert_eq!(client.stop(first).await, "end_turn");
    assert_eq!(client.stop(second).await, "end_turn");
    client.leave().await;
}

#[tokio::test]
async fn commands_are_answered_without_a_model() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    for (command, says) in [("/help", "`/status`"), ("/status", "Mode: Ask")] {
        let prompt = client.prompt(&session, command).await;
        assert_eq!(client.stop(prompt).await, "end_turn");
        let text = client.text_of(&session, "agent_message_chunk");
        assert!(text.contains(says), "{text}");
    }
    assert_eq!(model.requests().len(), 0);
    client.leave().await;
}

#[tokio::test]
async fn without_a_key_everything_works_but_the_prompt_which_says_what_to_set() {
    let place = Place::new();
    let mut client = TestClient::ready(&place, None).await;
    let session = client.new_session(&place.workspace()).await;
    let prompt = client.prompt(&session, "go").await;
    let answer = client.answer(prompt).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    assert!(answer["error"]["message"].as_str().unwrap().contains("ANTHROPIC_API_KEY"));
    let method = json!({"methodId": "configured-key"});
    let answer = client.call("authenticate", method).await;
    assert_eq!(answer["error"]["code"], -32000, "{answer}");
    client.leave().await;
}

#[tokio::test]
async fn a_slow_client_holds_the_turn_back_and_loses_nothing() {
    // Far more than pipe, queues and credits hold together.
    const DELTAS: usize = 1_000;
    const SIZE: usize = 4_096;
    let model = model(Script::new().otherwise(Answer::new().burst(DELTAS, SIZE))).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let prompt = client.prompt(&session, "go").await;
    // The client reads nothing until the agent has used up its credits.
    client.out_of_credits().await;
    let (messages, bytes) = client.server.credits.in_flight();
    assert!(messages <= 256 && bytes < 1_200_000, "{messages} messages, {bytes} bytes under way");
    assert_eq!(client.stop(prompt).await, "end_turn");
    assert_eq!(client.text_of(&session, "agent_message_chunk").len(), DELTAS * SIZE);
    client.leave().await;
}

#[tokio::test]
async fn the_answer_to_a_prompt_says_what_its_own_turn_has_used() {
    let model = model(Script::new()).await;
    let place = Place::new();
    let (mut client, session) = TestClient::with_session(&place, &model).await;
    let mut used = Vec::new();
    for _ in 0..2 {
        let prompt = client.prompt(&session, "go").await;
        used.push(client.answer(prompt).await["result"]["usage"].clone());
    }
    let sum = |usage: &serde_json::Value| {
        let kinds = ["inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens"];
        kinds.iter().map(|kind| usage[kind].as_u64().unwrap()).sum::<u64>()
    };
    for usage in &used {
        assert!(usage["outputTokens"].as_u64().unwrap() > 0, "{used:?}");
        assert_eq!(usage["totalTokens"], sum(usage), "{used:?}");
    }
    assert_eq!(used[0]["outputTokens"], used[1]["outputTokens"], "not the sum of both");
    let prompt = client.prompt(&session, "/status").await;
    assert!(client.answer(prompt).await["result"].get("usage").is_none());
    client.leave().await;
}
