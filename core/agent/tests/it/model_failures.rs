//! How the driver takes a model that fails.

use std::sync::Arc;
use std::time::Duration;

use bridle_agent::{TurnOutcome, transcript};
use bridle_model::FailureCode;
use tokio::sync::Notify;

use crate::rig::{Play, Rig, failure, kinds, line, text, text_block};

#[tokio::test]
async fn a_rate_limit_is_waited_for_and_told() {
    let mut rig = Rig::new(Vec::new());
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
    let mut rig = Rig::new(Vec::new());
    rig.model.push(vec![Play::Fail(failure(FailureCode::Auth))]);
    let TurnOutcome::Failed(failed) = rig.run("a").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "auth");
    assert_eq!(rig.model.requests().len(), 1);
}

#[tokio::test]
async fn tries_are_bounded() {
    let mut rig = Rig::new(Vec::new());
    for _ in 0..3 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Server))]);
    }
    let TurnOutcome::Failed(failed) = rig.run("a").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "server");
    assert_eq!(rig.model.requests().len(), 3);
    rig.model.push(text("Back."));
    assert_eq!(rig.run("b").await.1, TurnOutcome::EndTurn);
    let replay: Vec<_> = transcript(&rig.log().await).iter().map(line).collect();
    assert!(replay.contains(&"notice This turn failed.".to_owned()), "{replay:#?}");
}

#[tokio::test]
async fn a_cut_answer_leaves_no_dead_half_behind() {
    let mut rig = Rig::new(Vec::new());
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
    let replay: Vec<_> = transcript(&rig.log().await).iter().map(line).collect();
    assert!(!replay.iter().any(|line| line.contains("Half")), "{replay:#?}");
}

#[tokio::test]
async fn a_wait_can_be_cancelled() {
    let mut rig = Rig::new(Vec::new());
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
    let mut rig = Rig::new(Vec::new());
    rig.model.push(vec![Play::Panic]);
    rig.model.push(text("Still here."));
    assert_eq!(rig.run("a").await.1, TurnOutcome::EndTurn);
}
