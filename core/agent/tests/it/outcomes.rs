//! What a tool's success does besides its result.

use std::sync::Arc;

use bridle_agent::{Access, Mode, SessionChange, Tool, TurnOutcome};
use bridle_session::{TodoItem, TodoStatus};
use expect_test::expect;

use crate::rig::{Rig, TestTool, calls, kinds, ok, text};

fn changing(name: &str, change: SessionChange) -> Arc<dyn Tool> {
    TestTool::with_outcome(name, Access::ReadInside("/ws".into()), ok, move |outcome| {
        outcome.changes.push(change.clone());
    })
}

#[tokio::test]
async fn a_tool_that_concludes_ends_the_turn_after_every_call_of_its_message() {
    let last =
        TestTool::with_outcome("last", Access::ReadInside("/ws".into()), ok, |o| o.conclude = true);
    let other = TestTool::new("other", Access::ReadInside("/ws".into()), ok);
    let mut rig = Rig::new(vec![last, other]).await;
    rig.model.push(calls(&[("c1", "last", "{}"), ("c2", "other", "{}")]));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests().len(), 1);
    rig.model.push(text("Yes."));
    rig.run("next").await;
    expect![[r#"
        system
        user: go
        assistant: <last c1> <other c2>
        result c1: fine
        result c2: fine
        user: next"#]]
    .assert_eq(&rig.model.requests()[1]);
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"turn/end completed".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn changes_stand_behind_the_result_that_made_them() {
    let item = TodoItem { text: "test".to_owned(), status: TodoStatus::Pending };
    let todo = changing("todo", SessionChange::Todo(vec![item.clone()]));
    let leave = changing("leave", SessionChange::LeavePlan);
    let mut rig = Rig::with(vec![todo, leave], Mode::Auto, 5).await;
    rig.agent.set_mode(Mode::Plan).await.unwrap();
    rig.model.push(calls(&[("c1", "todo", "{}"), ("c2", "leave", "{}"), ("c3", "leave", "{}")]));
    rig.model.push(text("Done."));
    let (shown, _) = rig.run("go").await;
    let modes: Vec<_> = shown.iter().filter(|line| line.starts_with("mode")).collect();
    assert_eq!(modes, ["mode plan", "mode auto"]);
    let log = rig.log().await;
    let kinds = kinds(&log);
    let from = kinds.iter().position(|kind| kind.starts_with("tool/result")).unwrap();
    expect![[r#"
        [
            "tool/result c1",
            "todo/write",
            "tool/result c2",
            "permission/mode",
            "tool/result c3",
        ]
    "#]]
    .assert_debug_eq(&&kinds[from..from + 5]);
    assert_eq!(log.state().todo.items, [item]);
}
