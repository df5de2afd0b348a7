//! How the driver takes a model that fails.

use std::sync::Arc;
use std::time::Duration;

use bridle_agent::{Access, TurnOutcome, replay};
use bridle_model::FailureCode;
use tokio::sync::Notify;

use crate::rig::{Play, Rig, TestTool, calls, failure, kinds, line, ok, text, text_block};

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_told() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut limited = failure(FailureCode::RateLimited);
    limited.retry_after = Some(Duration::from_secs(2));
    rig.model.push(vec![Play::Fail(limited)]);
    rig.model.push(text("Now."));
    let (shown, outcome) = rig.run("a").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(shown.iter().any(|line| line.starts_with("notice Trying again in 2.")), "{shown:#?}");
    assert!(rig.clock.slept.lock().unwrap()[0] >= Duration::from_secs(2));
    let log = kinds(&rig.log().await);
    for kind in ["assistant/attempt", "llm/retry", "llm/retry-started"] {
        assert_eq!(log.iter().filter(|found| *found == kind).count(), 1, "{kind}: {log:#?}");
    }
}

#[tokio::test]
async fn a_refused_key_fails_at_once() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::Auth))]);
    let TurnOutcome::Failed(failed) = rig.run("a").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "auth");
    assert_eq!(rig.model.requests().len(), 1);
}

#[tokio::test]
async fn tries_are_bounded() {
    let mut rig = Rig::new(Vec::new()).await;
    for _ in 0..3 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Server))]);
    }
    let TurnOutcome::Failed(failed) = rig.run("a").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "server");
    assert_eq!(rig.model.requests().len(), 3);
    rig.model.push(text("Back."));
    assert_eq!(rig.run("b").await.1, TurnOutcome::EndTurn);
    let replay: Vec<_> = replay(&rig.log().await).iter().map(line).collect();
    assert!(replay.contains(&"notice This turn failed.".to_owned()), "{replay:#?}");
}

#[tokio::test]
async fn one_short_hiccup_is_not_told_and_the_next_one_is() {
    let mut rig = Rig::new(Vec::new()).await;
    for _ in 0..2 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Overloaded))]);
    }
    rig.model.push(text("Now."));
    let (shown, outcome) = rig.run("a").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    let told = shown.iter().filter(|line| line.starts_with("notice Trying again in "));
    assert_eq!(told.count(), 1, "{shown:#?}");
}

#[tokio::test]
async fn a_silent_model_is_told_while_it_lasts_at_growing_intervals() {
    let mut cut = text_block(0, "Half");
    cut.pop();
    for before in [Vec::new(), cut] {
        let mut rig = Rig::new(Vec::new()).await;
        rig.clock.watches.add_permits(3);
        let silent = Arc::new(Notify::new());
        let mut plays = before;
        plays.push(Play::Hang(Arc::clone(&silent)));
        rig.model.push(plays);
        rig.prompt("a");
        let mut told = Vec::new();
        while told.len() < 3 {
            let line = line(&rig.updates.recv().await.unwrap());
            told.extend(line.strip_prefix("notice ").map(str::to_owned));
        }
        let expected = [30, 60, 120].map(|s| format!("The model has sent nothing for {s} s"));
        assert_eq!(told, expected);
        rig.agent.cancel();
        assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    }
}

#[tokio::test]
async fn a_silent_model_is_asked_once_more_and_not_again() {
    let mut rig = Rig::new(Vec::new()).await;
    let silent = || vec![Play::Fail(failure(FailureCode::Silent))];
    rig.model.push(silent());
    rig.model.push(text("Awake."));
    let (shown, outcome) = rig.run("a").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(shown.iter().any(|line| line.starts_with("notice Trying again in 0.")), "{shown:#?}");

    rig.model.push(silent());
    rig.model.push(vec![Play::Fail(failure(FailureCode::Overloaded))]);
    rig.model.push(silent());
    let TurnOutcome::Failed(failed) = rig.run("b").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "silent");
    assert!(failed.message.starts_with("scripted silent, in each of two tries"), "{failed:?}");
    assert_eq!(rig.model.requests().len(), 5);

    for _ in 0..2 {
        rig.model.push(silent());
    }
    assert!(matches!(rig.run("c").await.1, TurnOutcome::Failed(_)));
    assert_eq!(rig.model.requests().len(), 7, "two tries in all");
}

#[tokio::test]
async fn an_id_that_the_model_uses_twice_does_not_end_the_turn() {
    let mut rig = Rig::new(vec![TestTool::new("look", Access::ReadInside("/ws".into()), ok)]).await;
    rig.model.push(calls(&[("a", "look", "{}"), ("a", "look", r#"{"n":1}"#)]));
    rig.model.push(calls(&[("a", "look", r#"{"n":2}"#)]));
    rig.model.push(text("Done."));
    assert_eq!(rig.run("a").await.1, TurnOutcome::EndTurn);
    let expected = "system\nuser: a\nassistant: <look a> <look a-2>\nresult a: fine\n\
                    result a-2: fine\nassistant: <look a-3>\nresult a-3: fine";
    assert_eq!(rig.model.requests().pop().unwrap(), expected);
}

#[tokio::test]
async fn a_cut_answer_leaves_no_dead_half_behind() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut cut = text_block(0, "Half");
    cut.pop();
    cut.push(Play::Fail(failure(FailureCode::Transport)));
    rig.model.push(cut);
    rig.model.push(text("Whole."));
    rig.model.push(text("Next."));
    let (shown, _) = rig.run("a").await;
    assert!(
        shown.iter().any(|line| line.starts_with("notice The answer was cut off and starts again")),
        "{shown:#?}"
    );
    assert!(shown.contains(&"text answer-1-1-2 Whole.".to_owned()), "a new id: {shown:#?}");
    rig.run("b").await;
    assert_eq!(rig.model.requests().pop().unwrap(), "system\nuser: a\nassistant: Whole.\nuser: b");
    let replay: Vec<_> = replay(&rig.log().await).iter().map(line).collect();
    assert!(!replay.iter().any(|line| line.contains("Half")), "{replay:#?}");
}

#[tokio::test]
async fn a_wait_can_be_cancelled() {
    let mut rig = Rig::new(Vec::new()).await;
    let waiting = Arc::new(Notify::new());
    *rig.clock.hold.lock().unwrap() = Some(Arc::clone(&waiting));
    rig.model.push(vec![Play::Fail(failure(FailureCode::Overloaded))]);
    rig.prompt("a");
    waiting.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
}

#[tokio::test]
async fn a_panic_in_an_adapter_ends_the_attempt_only() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(vec![Play::Panic]);
    rig.model.push(text("Still here."));
    assert_eq!(rig.run("a").await.1, TurnOutcome::EndTurn);
}
