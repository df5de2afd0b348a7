//! Tool calls: gate, order, overlap, failures.

use std::sync::Arc;

use bridle_agent::{Access, Answer, Mode, Sandboxing, Tool, ToolFailure, TurnOutcome};
use expect_test::expect;
use tokio::sync::Barrier;

use crate::rig::{Rig, TestTool, calls, kinds, ok, text};

fn writer() -> Arc<dyn Tool> {
    TestTool::new("write", Access::WriteInside("/ws/x".into()), ok)
}

#[tokio::test]
async fn an_allowed_call_runs_once_and_is_logged_before_it_runs() {
    let mut rig = Rig::new(vec![writer()]).await;
    rig.approver.answers.lock().unwrap().push_back(Answer::AllowOnce);
    rig.model.push(calls(&[("c1", "write", "{}")]));
    rig.model.push(text("Done."));
    let (shown, outcome) = rig.run("go").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    expect![[r#"
        [
            "title go",
            "usage 4/1000",
            "call c1 pending write",
            "call c1 running plan of write",
            "call c1 completed done write",
            "text answer-1-2-1 Done.",
            "usage 15/1000",
        ]
    "#]]
    .assert_debug_eq(&shown);
    let log = kinds(&rig.log().await);
    let from = log.iter().position(|kind| kind.starts_with("tool/call")).unwrap();
    expect![[r#"
        [
            "tool/call c1",
            "approval/asked",
            "approval/decided",
            "tool/result c1",
            "step/end",
        ]
    "#]]
    .assert_debug_eq(&&log[from..from + 5]);
}

#[tokio::test]
async fn whatever_is_not_a_yes_is_a_no() {
    for answer in [Answer::Reject, Answer::ClientError, Answer::NoApprover] {
        let mut rig = Rig::new(vec![TestTool::new(
            "write",
            Access::WriteInside("/ws/x".into()),
            |_| async { panic!("must not run") },
        )])
        .await;
        rig.approver.answers.lock().unwrap().push_back(answer);
        rig.model.push(calls(&[("c1", "write", "{}")]));
        rig.model.push(text("Sorry."));
        assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
        let log = kinds(&rig.log().await);
        assert!(log.contains(&"tool/result c1 Denied".to_owned()), "{answer:?}: {log:#?}");
    }
}

#[tokio::test]
async fn a_mode_denies_at_the_gate_without_asking() {
    let mut rig = Rig::with(vec![writer()], Mode::ReadOnly, 5).await;
    rig.model.push(calls(&[("c1", "write", "{}")]));
    rig.model.push(text("Sorry."));
    rig.run("go").await;
    assert!(rig.approver.questions.lock().unwrap().is_empty());
    assert!(rig.model.requests()[1].contains("Denied by the permission mode \"read-only\""));
}

#[tokio::test]
async fn a_mode_changed_during_a_turn_holds_from_the_next_call_on() {
    let mode_is_set = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&mode_is_set);
    let slow = TestTool::new("slow", Access::ReadInside("/ws".into()), move |_| {
        let wait = Arc::clone(&wait);
        async move {
            wait.notified().await;
            Ok("fine".to_owned())
        }
    });
    let mut rig = Rig::new(vec![writer(), slow]).await;
    rig.model.push(calls(&[("c1", "slow", "{}")]));
    rig.model.push(calls(&[("c2", "write", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("go");
    rig.agent.set_mode(Mode::ReadOnly).await.unwrap();
    mode_is_set.notify_one();
    let (shown, outcome) = rig.until_end("go").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(shown.contains(&"mode read-only".to_owned()), "{shown:#?}");
    assert!(rig.approver.questions.lock().unwrap().is_empty());
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c2 Denied".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_question_says_what_is_special_first() {
    let shell = TestTool::new(
        "shell",
        Access::Run {
            command: "fetch".into(),
            network: true,
            unconfined: false,
            reason: Some("to fetch".into()),
            sandboxing: Sandboxing::Unavailable,
        },
        ok,
    );
    let mut rig = Rig::new(vec![shell]).await;
    rig.approver.answers.lock().unwrap().push_back(Answer::AllowOnce);
    rig.model.push(calls(&[("c1", "shell", "{}")]));
    rig.model.push(text("Done."));
    rig.run("go").await;
    let questions = rig.approver.questions.lock().unwrap();
    assert_eq!(questions[0].display.title, "runs without a sandbox: plan of shell");
    expect![[r#"
        - runs without a sandbox
        - asks for the network
        - the model's reason: `to fetch`"#]]
    .assert_eq(questions[0].display.text.as_deref().unwrap());
}

#[tokio::test]
async fn unknown_tools_and_broken_arguments_are_results_not_ends() {
    let mut rig = Rig::new(vec![writer()]).await;
    rig.model.push(calls(&[("c1", "wrte", "{}"), ("c2", "write", "{\"a\":")]));
    rig.model.push(text("Sorry."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    let request = rig.model.requests().pop().unwrap();
    assert!(
        request.contains("There is no tool named \"wrte\". The tools are: write."),
        "{request}"
    );
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 UnknownTool".to_owned()), "{log:#?}");
    assert!(log.contains(&"tool/result c2 BadArguments".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_panic_in_a_tool_ends_that_call_only() {
    let bad =
        TestTool::new("bad", Access::ReadInside("/ws".into()), |_| async { panic!("scripted") });
    let mut rig = Rig::new(vec![bad]).await;
    rig.model.push(calls(&[("c1", "bad", "{}")]));
    rig.model.push(text("Still here."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 Failed".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn parallel_reads_overlap_and_results_stay_in_order() {
    // The barrier opens only when both bodies run at once; the first finishes last.
    let barrier = Arc::new(Barrier::new(2));
    let first_done = Arc::new(tokio::sync::Notify::new());
    let (b, d) = (Arc::clone(&barrier), Arc::clone(&first_done));
    let one = TestTool::new("one", Access::ReadInside("/ws".into()), move |_| {
        let (b, d) = (Arc::clone(&b), Arc::clone(&d));
        async move {
            b.wait().await;
            d.notified().await;
            Ok("first".to_owned())
        }
    });
    let two = TestTool::new("two", Access::ReadInside("/ws".into()), move |_| {
        let (b, d) = (Arc::clone(&barrier), Arc::clone(&first_done));
        async move {
            b.wait().await;
            d.notify_one();
            Ok("second".to_owned())
        }
    });
    let mut rig = Rig::new(vec![one, two]).await;
    rig.model.push(calls(&[("c1", "one", "{}"), ("c2", "two", "{}")]));
    rig.model.push(text("Done."));
    rig.run("go").await;
    let request = rig.model.requests().pop().unwrap();
    assert!(request.ends_with("result c1: first\nresult c2: second"), "{request}");
}

#[tokio::test]
async fn going_round_in_circles_is_told_and_then_ended() {
    let read = TestTool::new("read", Access::ReadInside("/ws".into()), ok);
    let mut rig = Rig::new(vec![read]).await;
    for id in ["1", "2", "3", "4", "5", "6"] {
        rig.model.push(calls(&[(id, "read", "{}")]));
    }
    let (shown, outcome) = rig.run("go").await;
    assert_eq!(outcome, TurnOutcome::MaxTurnRequests);
    assert!(shown.last().unwrap().contains("read was called with the same result six times"));
    let request = rig.model.requests().pop().unwrap();
    assert!(request.contains("result 3: fine|[This call was made three times"), "{request}");
}

#[tokio::test]
async fn a_failed_body_is_an_error_result_with_its_text() {
    let bad = TestTool::new("bad", Access::ReadInside("/ws".into()), |_| async {
        Err(ToolFailure::failed("no such file: x"))
    });
    let mut rig = Rig::new(vec![bad]).await;
    rig.model.push(calls(&[("c1", "bad", "{}")]));
    rig.model.push(text("I see."));
    let (shown, _) = rig.run("go").await;
    assert!(shown.contains(&"call c1 failed plan of bad".to_owned()), "{shown:#?}");
    assert!(rig.model.requests()[1].ends_with("result c1: no such file: x"));
}

#[tokio::test]
async fn calls_of_an_answer_that_hit_the_limit_do_not_run() {
    let mut rig =
        Rig::new(vec![TestTool::new("read", Access::ReadInside("/ws".into()), |_| async {
            panic!("must not run")
        })])
        .await;
    let mut answer = calls(&[("c1", "read", "{}")]);
    answer.pop();
    answer.push(crate::rig::Play::Chunk(bridle_model::Chunk::Stop(
        bridle_model::StopReason::MaxTokens,
    )));
    rig.model.push(answer);
    assert_eq!(rig.run("go").await.1, TurnOutcome::MaxTokens);
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 AbortedBeforeDispatch".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn live_output_is_shown_while_a_call_runs() {
    let seen = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&seen);
    let loud = TestTool::new("loud", Access::ReadInside("/ws".into()), move |context| {
        let wait = Arc::clone(&wait);
        async move {
            context.progress.show("half way".to_owned());
            wait.notified().await;
            Ok("done".to_owned())
        }
    });
    let mut rig = Rig::new(vec![loud]).await;
    rig.model.push(calls(&[("c1", "loud", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("go");
    loop {
        let update = rig.updates.recv().await.unwrap();
        if crate::rig::line(&update) == "progress c1 half way" {
            break;
        }
    }
    seen.notify_one();
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::EndTurn);
}
