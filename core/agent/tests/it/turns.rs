//! Plain turns: what is shown, what is logged, how they end.

use bridle_agent::{Mode, Phase, TurnOutcome, replay};
use bridle_model::{Chunk, StopReason};
use expect_test::expect;

use crate::rig::{Play, Rig, calls, kinds, line, route, text, text_block};

#[tokio::test]
async fn a_turn_is_shown_and_logged_in_order() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("Hello."));
    let (shown, outcome) = rig.run("hi").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    expect![[r#"
        [
            "title hi",
            "text answer-1-1-1 Hello.",
            "usage 15/1000",
        ]
    "#]]
    .assert_debug_eq(&shown);
    expect![[r#"
        [
            "agent/inbox/spliced",
            "turn/start",
            "agent/inbox/spliced",
            "title/set",
            "step/start",
            "system/message",
            "user/message",
            "request/header 1 start",
            "request/context",
            "assistant/message",
            "step/end",
            "turn/end completed",
        ]
    "#]]
    .assert_debug_eq(&kinds(&rig.log().await));
}

#[tokio::test]
async fn the_next_turn_continues_the_series_and_sees_the_first() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.model.push(text("Two."));
    rig.run("a").await;
    rig.run("b").await;
    assert_eq!(
        rig.model.requests(),
        ["system\nuser: a", "system\nuser: a\nassistant: One.\nuser: b"]
    );
    let headers = kinds(&rig.log().await);
    assert_eq!(headers.iter().filter(|kind| kind.starts_with("request/header")).count(), 1);
}

#[tokio::test]
async fn another_model_begins_a_new_series() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.model.push(text("Two."));
    rig.run("a").await;
    rig.agent.set_route(route("two")).await.unwrap();
    let (shown, _) = rig.run("b").await;
    assert_eq!(shown.first().map(String::as_str), Some("model scripted/two"));
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"request/header 2 model-changed".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_prompt_during_a_turn_waits_for_its_own() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("One."));
    rig.model.push(text("Two."));
    rig.prompt("a");
    rig.prompt("b");
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::EndTurn);
    let (shown, outcome) = rig.until_end("b").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert_eq!(shown.first().map(String::as_str), Some("text answer-2-1-1 Two."));
}

#[tokio::test]
async fn max_tokens_and_refusal_end_as_themselves() {
    for (stop, outcome) in [
        (StopReason::MaxTokens, TurnOutcome::MaxTokens),
        (StopReason::Refusal, TurnOutcome::Refusal),
    ] {
        let mut rig = Rig::new(Vec::new()).await;
        let mut answer = text_block(0, "part");
        answer.push(Play::Chunk(Chunk::Stop(stop)));
        rig.model.push(answer);
        assert_eq!(rig.run("a").await.1, outcome);
    }
}

#[tokio::test]
async fn a_refused_input_is_not_sent_again() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("Fine."));
    let mut refusal = text_block(0, "I will not.");
    refusal.push(Play::Chunk(Chunk::Stop(StopReason::Refusal)));
    rig.model.push(refusal);
    rig.model.push(text("Better."));
    rig.run("good").await;
    rig.run("evil").await;
    rig.run("good again").await;
    let last = rig.model.requests().pop().unwrap();
    expect![[r#"
        system
        user: good
        assistant: Fine.
        user: [The model refused the request that stood here; it was removed.]
        user: good again"#]]
    .assert_eq(&last);
    let log = rig.log().await;
    let shown: Vec<_> = replay(&log).iter().map(line).collect();
    assert!(shown.contains(&"user evil".to_owned()), "a person still sees it: {shown:#?}");
}

#[tokio::test]
async fn an_empty_answer_is_asked_again_once_and_then_said() {
    let empty = || vec![Play::Chunk(Chunk::Stop(StopReason::EndTurn))];
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(empty());
    rig.model.push(text("Now."));
    rig.model.push(empty());
    rig.model.push(empty());
    let (shown, _) = rig.run("a").await;
    assert!(shown.contains(&"text answer-1-1-2 Now.".to_owned()), "{shown:#?}");
    let (shown, outcome) = rig.run("b").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert_eq!(shown, ["notice The model gave no answer."]);
    assert_eq!(rig.model.requests().len(), 4);
}

#[tokio::test]
async fn the_step_budget_ends_the_turn() {
    let mut rig = Rig::with(Vec::new(), Mode::Ask, 2).await;
    for id in ["a", "b"] {
        rig.model.push(calls(&[(id, "nothing", "{}")]));
    }
    let (shown, outcome) = rig.run("go").await;
    assert_eq!(outcome, TurnOutcome::MaxTurnRequests);
    assert_eq!(
        shown.last().map(String::as_str),
        Some(
            "notice The turn was ended by its budget: it has used 2 model requests, and may use 2. To \
             change that, set turn_steps under [budget] in config.toml for later sessions."
        )
    );
}

#[tokio::test]
async fn a_replay_shows_what_was_shown() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(calls(&[("c1", "nothing", "{}")]));
    rig.model.push(text("Done."));
    rig.run("do it").await;
    let shown: Vec<_> = replay(&rig.log().await).iter().map(line).collect();
    expect![[r#"
        [
            "title do it",
            "user do it",
            "call c1 failed nothing",
            "text answer-1-2-1 Done.",
            "usage 15/1000",
        ]
    "#]]
    .assert_debug_eq(&shown);
}

#[tokio::test]
async fn without_a_model_the_prompt_fails_as_auth_and_the_next_one_can_work() {
    let mut rig = Rig::without_a_model().await;
    let TurnOutcome::Failed(failed) = rig.run("a").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "auth");
    rig.agent.set_route(route("one")).await.unwrap();
    rig.model.push(text("ok"));
    assert_eq!(rig.run("b").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests(), ["system\nuser: b"], "the failed input was never admitted");
}

#[tokio::test]
async fn the_status_follows_the_session() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("ok"));
    rig.run("Name me\nplease").await;
    let status = rig.agent.status().await.unwrap();
    assert_eq!(status.route, Some(route("one")));
    assert_eq!(status.meter.used, 15);
    assert_eq!(status.title.as_deref(), Some("Name me"));
    assert_eq!(status.phase, Phase::Idle);
}
