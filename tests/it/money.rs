//! Tokens, money and budgets: what a client is told, what the log keeps, and what ends a turn.

use bridle_model_server::{Answer, Script, StopReason, Usage};
use bridle_tests::Client;
use serde_json::{Value, json};

use crate::scene::Scene;

/// An answer that the provider counts so.
fn counted(input: u64, cache_read: u64, output: u64) -> Answer {
    let usage = Usage {
        input: Some(input),
        cache_read: Some(cache_read),
        cache_write: Some(0),
        output: Some(output),
    };
    Answer::new().text("x").usage(usage)
}

fn costs(updates: &[Value]) -> Vec<Value> {
    updates.iter().map(|update| update["cost"].clone()).collect()
}

/// B133: used, size and cost after each request, the same after a load.
#[tokio::test]
async fn a_client_is_told_what_the_session_has_cost() {
    let script = Script::new().reply(counted(100_000, 0, 10_000)).reply(counted(0, 110_000, 1_000));
    let scene = Scene::new(script).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    client.prompt(&session, "two").await.ok();
    let status = client.prompt(&session, "/status").await;
    assert_eq!(status.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    let updates = trace.updates_of(&session, "usage_update");
    // Sonnet 5.5: 2 / 10 / 0.20 dollars for a million tokens.
    let expected =
        [json!({"amount": 0.3, "currency": "USD"}), json!({"amount": 0.332, "currency": "USD"})];
    assert_eq!(costs(&updates), expected);
    assert_eq!((&updates[1]["used"], &updates[1]["size"]), (&json!(111_000), &json!(1_000_000)));
    let told = trace.text(&session);
    assert!(told.contains("111,000 of 1,000,000 tokens (11 %)"), "{told}");
    assert!(told.contains("USD 0.3320"), "{told}");

    let mut client = scene.client().await;
    let load = json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": []});
    client.request("session/load", load).await.ok();
    let trace = client.finish(&scene.place).await;
    assert_eq!(costs(&trace.updates_of(&session, "usage_update")), expected, "after a load");

    let shown = scene.place.launch(["sessions", "show", "last"]).output().await;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("USD 0.3320"), "{shown}");
    let exported = ["sessions", "export", "last", "--format", "html"];
    let exported = scene.place.launch(exported).output().await;
    assert!(String::from_utf8_lossy(&exported.stdout).contains("USD 0.3320"));
}

/// A request that failed after the provider had counted it costs something, too.
#[tokio::test]
async fn a_failed_attempt_is_paid_for() {
    let cut = counted(100_000, 0, 0).cut_after(0);
    let scene = Scene::new(Script::new().reply(cut).reply(counted(100_000, 0, 0))).await;
    let (mut client, session) = scene.session().await;
    client.prompt(&session, "one").await.ok();
    let trace = client.finish(&scene.place).await;
    let updates = trace.updates_of(&session, "usage_update");
    let amount = updates[0]["cost"]["amount"].as_f64().unwrap();
    assert!(amount >= 0.4, "two requests of 0.2 dollars each: {amount}");
    let attempts = scene.events(&session, "assistant/attempt");
    assert_eq!(attempts[0]["data"]["usage"]["input"], 100_000);
}

/// A refusal without a word has cost something, and the provider's reason is told and kept.
#[tokio::test]
async fn a_refusal_says_why_and_is_paid_for() {
    let usage = Usage { input: Some(100_000), output: Some(0), ..Usage::default() };
    let why = StopReason::Refusal {
        category: "cyber".to_owned(),
        explanation: "This would break something.".to_owned(),
    };
    let refusal = Answer::new().usage(usage).stop_reason(why);
    let scene = Scene::new(Script::new().reply(refusal).reply(counted(0, 0, 0))).await;
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "one").await.stop_reason(), "refusal");
    assert_eq!(client.prompt(&session, "two").await.stop_reason(), "end_turn");
    let trace = client.finish(&scene.place).await;
    let told = trace.text(&session);
    assert!(told.contains("The model refused."), "{told}");
    assert!(told.contains("This would break something. (cyber)"), "{told}");
    let costs = costs(&trace.updates_of(&session, "usage_update"));
    assert_eq!(costs[0], json!({"amount": 0.2, "currency": "USD"}));
    let attempts = scene.events(&session, "assistant/attempt");
    let [attempt] = attempts.as_slice() else { panic!("{attempts:?}") };
    assert_eq!(attempt["data"]["usage"]["input"], 100_000);
    assert_eq!(attempt["data"]["failure"]["code"], "content-refused");
    assert_eq!(attempt["data"]["failure"]["message"], "This would break something. (cyber)");
    scene.assert_lawful();
}

/// A part of the cost is not shown as if it were the whole.
#[tokio::test]
async fn an_unknown_price_is_no_price() {
    let model = bridle_model_server::ModelSpec::new("claude-next", 500_000, 64_000);
    let scene = Scene::new(Script::new().model(model).reply(counted(10, 0, 10))).await;
    let launch = scene.place.acp(&scene.model.url()).env("BRIDLE_MODEL", "anthropic/claude-next");
    let (mut client, session) = Client::in_session(&scene.place, &launch).await;
    client.prompt(&session, "one").await.ok();
    client.prompt(&session, "/status").await.ok();
    let trace = client.finish(&scene.place).await;
    assert_eq!(trace.updates_of(&session, "usage_update")[0].get("cost"), None);
    let told = trace.text(&session);
    assert!(told.contains("whose price is not known"), "{told}");
    assert!(told.contains("small limits") && told.contains("claude-next"), "said once: {told}");
    assert_eq!(told.matches("small limits").count(), 1, "{told}");
}

/// Every limit ends a turn with one message that names it, and a raise lets the session go on.
#[tokio::test]
async fn a_budget_ends_the_turn_and_the_session_goes_on_after_a_raise() {
    for (limit, value, raised) in [
        ("session_steps", "2", "50"),
        ("session_tokens", "1000", "1000000"),
        ("session_cost", "0.001", "10"),
        ("session_minutes", "0.0000001", "10"),
    ] {
        let call = || counted(600, 0, 10).tool_call("list", json!({"path": "."}));
        let scene =
            Scene::new(Script::new().reply(call()).reply(call()).otherwise(counted(1, 0, 1))).await;
        scene.place.configure("config.toml", format!("[budget]\n{limit} = {value}\n"));
        let (mut client, session) = scene.session().await;
        let first = client.prompt(&session, "one").await.stop_reason();
        assert_eq!(first, "max_turn_requests", "{limit}");
        let used = scene.requests().len();
        assert!((1..=2).contains(&used) || limit == "session_minutes", "{limit}: {used} requests");
        assert_eq!(client.prompt(&session, "two").await.stop_reason(), "max_turn_requests");
        assert_eq!(scene.requests().len(), used, "{limit}: no request for what cannot be paid");
        let told = client.finish(&scene.place).await.text(&session);
        assert_eq!(told.matches(&format!("set {limit} under [budget]")).count(), 2, "{told}");
        let ends = scene.events(&session, "turn/end");
        assert_eq!(ends[0]["data"]["reason"]["kind"], "blocked", "{limit}");

        // The account is in the log: a new process knows what was used up, and a raise helps.
        let mut client = scene.client().await;
        let load = json!({"sessionId": session, "cwd": scene.place.workspace(), "mcpServers": []});
        client.request("session/load", load.clone()).await.ok();
        assert_eq!(client.prompt(&session, "three").await.stop_reason(), "max_turn_requests");
        client.finish(&scene.place).await;
        scene.place.configure("config.toml", format!("[budget]\n{limit} = {raised}\n"));
        let mut client = scene.client().await;
        client.request("session/load", load).await.ok();
        assert_eq!(client.prompt(&session, "four").await.stop_reason(), "end_turn", "{limit}");
        client.finish(&scene.place).await;
        scene.assert_lawful();
    }
}

/// A limit of one turn leaves the next one alone.
#[tokio::test]
async fn a_budget_of_a_turn_begins_anew_with_the_next_turn() {
    let call = || counted(600, 0, 10).tool_call("list", json!({"path": "."}));
    let scene =
        Scene::new(Script::new().reply(call()).reply(call()).otherwise(counted(1, 0, 1))).await;
    scene.place.configure("config.toml", "[budget]\nturn_tokens = 1000\n");
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "one").await.stop_reason(), "max_turn_requests");
    assert_eq!(scene.requests().len(), 2);
    assert_eq!(client.prompt(&session, "two").await.stop_reason(), "end_turn");
    let told = client.finish(&scene.place).await.text(&session);
    assert!(told.contains("it has used 1220 tokens, and may use 1000"), "{told}");
    scene.assert_lawful();
}

/// A limit that cannot be checked is not ignored.
#[tokio::test]
async fn a_limit_of_money_in_another_currency_ends_the_turn() {
    let call = counted(600, 0, 10).tool_call("list", json!({"path": "."}));
    let scene = Scene::new(Script::new().reply(call)).await;
    scene.place.configure("config.toml", "[budget]\nturn_cost = 100\ncurrency = \"CNY\"\n");
    let (mut client, session) = scene.session().await;
    assert_eq!(client.prompt(&session, "one").await.stop_reason(), "max_turn_requests");
    let told = client.finish(&scene.place).await.text(&session);
    assert!(told.contains("a part of its cost is in USD and the limit is in CNY"), "{told}");
}
