//! Leaving the plan mode, the to-do list over turns, and input that only joins a turn.

use std::sync::Arc;

use bridle_agent::{Access, Answer, Mode, SessionChange, Subject, Tool, TurnOutcome};
use bridle_session::{Content, MessageId, TodoItem, TodoStatus};
use tokio::sync::Notify;

use crate::rig::{Play, Rig, TestTool, calls, kinds, ok, text};

fn exit() -> Arc<dyn Tool> {
    TestTool::with_outcome("exit", Access::LeavePlan, ok, |outcome| {
        outcome.changes.push(SessionChange::LeavePlan);
    })
}

fn todo(status: TodoStatus) -> Arc<dyn Tool> {
    let item = TodoItem { text: "test".to_owned(), status };
    TestTool::with_outcome("todo", Access::ReadInside("/ws".into()), ok, move |outcome| {
        outcome.changes.push(SessionChange::Todo(vec![item.clone()]));
    })
}

#[tokio::test]
async fn only_a_yes_leaves_the_plan_mode_and_each_decision_is_on_the_log() {
    let mut rig = Rig::with(vec![exit()], Mode::Auto, 9).await;
    rig.agent.set_mode(Mode::Plan).await.unwrap();
    rig.approver.answers.lock().unwrap().extend([Answer::Reject, Answer::AllowOnce]);
    for call in ["c1", "c2", "c3"] {
        rig.model.push(calls(&[(call, "exit", "{}")]));
    }
    rig.model.push(text("Done."));
    let (shown, outcome) = rig.run("go").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    let modes: Vec<_> = shown.iter().filter(|line| line.starts_with("mode")).collect();
    assert_eq!(modes, ["mode plan", "mode auto"]);
    let subjects: Vec<_> =
        rig.approver.questions.lock().unwrap().iter().map(|asked| asked.subject).collect();
    assert_eq!(subjects, [Subject::Plan; 2], "outside the plan mode nobody is asked");
    let request = rig.model.requests().pop().unwrap();
    assert!(request.contains("keep planning") && request.contains("is not planning"), "{request}");
    let log = kinds(&rig.log().await);
    let decided = log.iter().filter(|kind| *kind == "approval/decided").count();
    assert_eq!(decided, 2, "{log:#?}");
}

#[tokio::test]
async fn a_session_that_began_in_plan_mode_asks_afterwards() {
    let mut rig = Rig::with(vec![exit()], Mode::Plan, 9).await;
    rig.approver.answers.lock().unwrap().extend([Answer::AllowOnce]);
    rig.model.push(calls(&[("c1", "exit", "{}")]));
    rig.model.push(text("Done."));
    let (shown, _) = rig.run("go").await;
    assert!(shown.contains(&"mode ask".to_owned()), "{shown:#?}");
}

#[tokio::test]
async fn a_mode_that_is_not_allowed_any_more_does_not_come_back() {
    let rig = Rig::with(vec![exit()], Mode::Ask, 9).await;
    rig.agent.set_mode(Mode::Auto).await.unwrap();
    rig.agent.set_mode(Mode::FullAccess).await.unwrap();
    rig.agent.set_mode(Mode::Plan).await.unwrap();
    let modes = [Mode::ReadOnly, Mode::Plan, Mode::Ask, Mode::Auto];
    let mut rig = rig.reopened_with(vec![exit()], &modes).await;
    rig.approver.answers.lock().unwrap().extend([Answer::AllowOnce]);
    rig.model.push(calls(&[("c1", "exit", "{}")]));
    rig.model.push(text("Done."));
    let (shown, _) = rig.run("go").await;
    assert!(shown.contains(&"mode auto".to_owned()), "{shown:#?}");
}

#[tokio::test]
async fn an_open_list_stays_over_turns_and_a_done_one_does_not() {
    for (status, kept) in [(TodoStatus::InProgress, 1), (TodoStatus::Completed, 0)] {
        let mut rig = Rig::new(vec![todo(status)]).await;
        rig.model.push(calls(&[("c1", "todo", "{}")]));
        rig.model.push(text("One."));
        let (shown, _) = rig.run("a").await;
        assert!(shown.contains(&format!("todo test {status:?}")), "{shown:#?}");
        rig.model.push(text("Two."));
        let (shown, _) = rig.run("b").await;
        assert_eq!(shown.contains(&"todo ".to_owned()), kept == 0, "{shown:#?}");
        assert_eq!(rig.log().await.state().todo.items.len(), kept);
    }
}

#[tokio::test]
async fn input_that_only_joins_begins_no_turn() {
    let mut rig = Rig::new(Vec::new()).await;
    let join = |rig: &Rig, id: &str| {
        rig.agent.join(MessageId::new(id), vec![Content::text(id)]).unwrap();
    };
    join(&rig, "idle");
    assert_eq!(rig.until_end("idle").await.1, TurnOutcome::Cancelled);
    assert!(rig.model.requests().is_empty());
    // In a turn that ends before it could be taken up, it does not move on to the next one.
    let reached = Arc::new(Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("a");
    reached.notified().await;
    rig.prompt("b");
    join(&rig, "late");
    rig.model.push(text("Fine."));
    rig.agent.cancel_turn();
    assert_eq!(rig.until_end("a").await.1, TurnOutcome::Cancelled);
    assert_eq!(rig.until_end("late").await.1, TurnOutcome::Cancelled);
    assert_eq!(rig.until_end("b").await.1, TurnOutcome::EndTurn);
    assert!(!rig.model.requests().pop().unwrap().contains("late"));
}
