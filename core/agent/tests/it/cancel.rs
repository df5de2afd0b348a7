//! Cancelling in every window, and closing.

use std::sync::Arc;

use bridle_agent::{Access, AgentGone, ToolFailure, TurnOutcome};
use bridle_session::{Content, MessageId};
use expect_test::expect;
use tokio::sync::Notify;

use crate::rig::{Play, Rig, TestTool, calls, kinds, ok, text, text_block};

#[tokio::test]
async fn a_cancel_right_behind_its_prompt_makes_no_request() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.prompt("a");
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    assert!(rig.model.requests().is_empty());
    rig.model.push(text("Fine."));
    assert_eq!(rig.run("b").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests(), ["system\nuser: b"]);
}

#[tokio::test]
async fn a_cancel_reaches_queued_prompts_too() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("a");
    rig.prompt("b");
    reached.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    assert_eq!(rig.until_end("b").await.1, TurnOutcome::Cancelled);
    assert_eq!(rig.model.requests().len(), 1);
}

#[tokio::test]
async fn what_was_streamed_is_kept_as_interrupted() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    let mut answer = text_block(0, "Half an ans");
    answer.pop();
    answer.push(Play::Hang(Arc::clone(&reached)));
    rig.model.push(answer);
    rig.prompt("a");
    reached.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    rig.model.push(text("Fine."));
    rig.run("b").await;
    assert_eq!(
        rig.model.requests().pop().unwrap(),
        "system\nuser: a\nassistant: Half an ans\nuser: b"
    );
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"turn/end aborted".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn an_open_question_is_withdrawn() {
    let write = TestTool::new("write", Access::WriteInside("/ws/x".into()), |_| async {
        panic!("must not run")
    });
    let mut rig = Rig::new(vec![write]).await;
    rig.model.push(calls(&[("c1", "write", "{}"), ("c2", "write", "{}")]));
    rig.prompt("go");
    rig.approver.asked.notified().await;
    rig.agent.cancel();
    let (shown, outcome) = rig.until_end("go").await;
    assert_eq!(outcome, TurnOutcome::Cancelled);
    assert!(shown.contains(&"call c2 failed write".to_owned()), "every call ends: {shown:#?}");
    let log = kinds(&rig.log().await);
    let from = log.iter().position(|kind| kind.starts_with("tool/call")).unwrap();
    expect![[r#"
        [
            "tool/call c1",
            "approval/asked",
            "approval/decided",
            "tool/result c1 AbortedBeforeDispatch",
            "tool/result c2 AbortedBeforeDispatch",
            "step/end",
            "turn/end aborted",
        ]
    "#]]
    .assert_debug_eq(&&log[from..]);
}

#[tokio::test]
async fn a_running_body_is_awaited() {
    let started = Arc::new(Notify::new());
    let begun = Arc::clone(&started);
    let slow = TestTool::new("slow", Access::ReadInside("/ws".into()), move |context| {
        let begun = Arc::clone(&begun);
        async move {
            begun.notify_one();
            context.token.cancelled().await;
            Err(ToolFailure::aborted("stopped half way"))
        }
    });
    let mut rig = Rig::new(vec![slow]).await;
    rig.model.push(calls(&[("c1", "slow", "{}")]));
    rig.prompt("go");
    started.notified().await;
    rig.agent.cancel();
    let (shown, outcome) = rig.until_end("go").await;
    assert_eq!(outcome, TurnOutcome::Cancelled);
    assert_eq!(shown.last().map(String::as_str), Some("call c1 failed plan of slow"));
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 Aborted".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_cancel_of_an_idle_session_changes_nothing() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.agent.cancel();
    rig.model.push(text("Fine."));
    assert_eq!(rig.run("a").await.1, TurnOutcome::EndTurn);
}

#[tokio::test]
async fn closing_ends_the_turn_and_refuses_more() {
    let mut rig = Rig::new(vec![TestTool::new("read", Access::ReadInside("/ws".into()), ok)]).await;
    let reached = Arc::new(Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("a");
    reached.notified().await;
    let log = kinds(&rig.log().await);
    assert_eq!(log.last().map(String::as_str), Some("turn/end aborted"));
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    let refused = rig.agent.prompt(MessageId::new("b"), vec![Content::text("b")]);
    assert_eq!(refused, Err(AgentGone::Closed));
    rig.agent.close().await;
}

#[tokio::test]
async fn a_client_that_does_not_read_stops_the_turn_but_not_the_close() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut answer = Vec::new();
    for index in 0..(crate::rig::UPDATES as u32 * 2) {
        answer.extend(text_block(index, "more"));
    }
    let reached = Arc::new(Notify::new());
    answer.push(Play::Hang(reached));
    rig.model.push(answer);
    rig.prompt("a");
    rig.updates.recv().await.unwrap();
    let log = kinds(&rig.log().await);
    assert_eq!(log.last().map(String::as_str), Some("turn/end aborted"));
}

#[tokio::test]
async fn a_client_that_reads_slowly_can_still_cancel() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut answer = Vec::new();
    for index in 0..(crate::rig::UPDATES as u32 * 2) {
        answer.extend(text_block(index, "more"));
    }
    // The last play fails the test if the answer is read to its end in spite of the cancel.
    answer.push(Play::Panic);
    rig.model.push(answer);
    rig.prompt("a");
    while rig.updates.len() < crate::rig::UPDATES {
        tokio::task::yield_now().await;
    }
    rig.agent.cancel();
    rig.agent.status().await.unwrap();
    let (shown, outcome) = rig.until_end("a").await;
    assert_eq!(outcome, TurnOutcome::Cancelled);
    assert!(shown.len() <= crate::rig::UPDATES + 1, "{}", shown.len());
}

#[tokio::test]
async fn a_model_that_does_not_listen_cannot_stop_a_cancel() {
    let mut rig = Rig::new(Vec::new()).await;
    // It is never let on, and hears of no cancel while it waits.
    rig.model.push(vec![Play::Hold(Arc::new(Notify::new()))]);
    rig.prompt("a");
    rig.model.held.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    rig.model.push(text("Fine."));
    assert_eq!(rig.run("b").await.1, TurnOutcome::EndTurn);
}
