//! A failure at each stage.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bridle_agent::{Access, Answer, OnRequest, PreStep, Tool, ToolFailure, ToolPost};
use bridle_model::FailureCode;
use bridle_store::MemoryStore;
use expect_test::expect;
use tokio::sync::Semaphore;

use super::{at, ended, told};
use crate::rig::{Play, Rig, Setting, TestTool, calls, failure, ok, text, text_block};

/// The first passage only.
fn once() -> impl Fn() -> bool + Send + Sync {
    let first = AtomicBool::new(true);
    move || first.swap(false, Ordering::Relaxed)
}

fn planned() {
    panic!("as planned");
}

#[tokio::test]
async fn failed_while_preparing() {
    let first = once();
    let extra = at::<OnRequest>(move |input, next| {
        let fails = first();
        Box::pin(async move {
            if fails { Err(failure(FailureCode::Auth)) } else { next.run(input).await }
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          go failed auth: scripted auth
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          step/end
          turn/end error
        next
          system
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_before_any_text() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::InvalidRequest))]);
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          go failed invalid-request: scripted invalid-request
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/attempt
          step/end
          turn/end error
        next
          system
          user: go
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_the_middle_of_the_text() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut answer = text_block(0, "Half an ans");
    answer.pop();
    answer.push(Play::Fail(failure(FailureCode::Billing)));
    rig.model.push(answer);
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          text answer-1-1-1 Half an ans
          go failed billing: scripted billing
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/attempt
          step/end
          turn/end error
        next
          system
          user: go
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_the_plan_of_a_tool() {
    let look = TestTool::new("look", Access::ReadInside("/ws".into()), ok);
    let mut rig = Rig::new(vec![look]).await;
    rig.model.push(calls(&[("c1", "look", "{"), ("c2", "look", "{}")]));
    rig.model.push(text("I see."));
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          usage 6/1000
          call c1 pending look
          call c2 pending look
          call c2 running plan of look
          call c1 failed look
          call c2 completed done look
          text answer-1-2-1 I see.
          usage 15/1000
          go EndTurn
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/message
          tool/call c1
          tool/call c2
          tool/result c1 BadArguments
          tool/result c2
          step/end
          step/start
          assistant/message
          step/end
          turn/end completed
        next
          system
          user: go
          assistant: <look c1> <look c2>
          result c1: The arguments of `look` are not valid JSON: EOF while parsing an object at line 1 column 1. Nothing was done.
          result c2: fine
          assistant: I see.
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_the_body_of_a_tool() {
    let fails = TestTool::new("fails", Access::ReadInside("/ws".into()), |_| async {
        Err(ToolFailure::failed("no such file"))
    });
    let panics = TestTool::new("panics", Access::ReadInside("/ws".into()), |_| async {
        planned();
        Ok(String::new())
    });
    let mut rig = Rig::new(vec![fails, panics]).await;
    rig.model.push(calls(&[("c1", "fails", "{}"), ("c2", "panics", "{}")]));
    rig.model.push(text("I see."));
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          usage 7/1000
          call c1 pending fails
          call c2 pending panics
          call c1 running plan of fails
          call c2 running plan of panics
          call c1 failed plan of fails
          call c2 failed plan of panics
          text answer-1-2-1 I see.
          usage 15/1000
          go EndTurn
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/message
          tool/call c1
          tool/call c2
          tool/result c1 Failed
          tool/result c2 Failed
          step/end
          step/start
          assistant/message
          step/end
          turn/end completed
        next
          system
          user: go
          assistant: <fails c1> <panics c2>
          result c1: no such file
          result c2: The tool panics failed inside Bridle; what it did before is unknown. Look before you repeat the call.
          assistant: I see.
          user: and now?
    "#]].assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_a_hook_before_the_step() {
    let first = once();
    let extra = at::<PreStep>(move |input, next| {
        let fails = first();
        Box::pin(async move {
            if fails {
                planned();
            }
            next.run(input).await
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          go failed internal: the turn failed inside Bridle; the session goes on
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          turn/end error
        next
          system
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_a_hook_after_a_tool() {
    let first = once();
    let extra = at::<ToolPost>(move |input, next| {
        let fails = first();
        Box::pin(async move {
            if fails {
                planned();
            }
            next.run(input).await
        })
    });
    let tools: Vec<Arc<dyn Tool>> =
        vec![TestTool::new("look", Access::ReadInside("/ws".into()), ok)];
    let mut rig = Rig::start(Setting { tools, extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("c1", "look", "{}"), ("c2", "look", "{}")]));
    rig.model.push(text("I see."));
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          usage 6/1000
          call c1 pending look
          call c2 pending look
          call c1 running plan of look
          call c2 running plan of look
          call c1 failed plan of look
          call c2 completed done look
          text answer-1-2-1 I see.
          usage 15/1000
          go EndTurn
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/message
          tool/call c1
          tool/call c2
          tool/result c1 Failed
          tool/result c2
          step/end
          step/start
          assistant/message
          step/end
          turn/end completed
        next
          system
          user: go
          assistant: <look c1> <look c2>
          result c1: The call has run, but a check of its result failed inside Bridle, so the result is not shown. Look at what it did before you repeat it.
          result c2: fine
          assistant: I see.
          user: and now?
    "#]].assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn failed_in_the_approver() {
    let write = TestTool::new("write", Access::WriteInside("/ws/x".into()), ok);
    let mut rig = Rig::new(vec![write]).await;
    rig.approver.answers.lock().unwrap().extend([Answer::ClientError, Answer::AllowOnce]);
    rig.model.push(calls(&[("c1", "write", "{}"), ("c2", "write", "{}")]));
    rig.model.push(text("I see."));
    rig.prompt("go");
    expect![[r#"
        seen
          title go
          usage 6/1000
          call c1 pending write
          call c2 pending write
          call c1 failed plan of write
          call c2 running plan of write
          call c2 completed done write
          text answer-1-2-1 I see.
          usage 15/1000
          go EndTurn
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          assistant/message
          tool/call c1
          approval/asked
          approval/decided
          tool/result c1 Denied
          tool/call c2
          approval/asked
          approval/decided
          tool/result c2
          step/end
          step/start
          assistant/message
          step/end
          turn/end completed
        next
          system
          user: go
          assistant: <write c1> <write c2>
          result c1: Permission was not given: the client failed to answer the question.
          result c2: fine
          assistant: I see.
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

/// Nothing leaves the process that is not on the disk first: no request, no body.
#[tokio::test]
async fn failed_at_the_disk() {
    let ran = Arc::new(AtomicBool::new(false));
    for (permits, requests) in [(0, 0), (1, 1)] {
        let pace = Arc::new(Semaphore::new(permits));
        let store = Arc::new(MemoryStore::paced(Arc::clone(&pace)));
        let body = Arc::clone(&ran);
        let write = TestTool::new("write", Access::WriteInside("/ws/x".into()), move |context| {
            body.store(true, Ordering::Relaxed);
            ok(context)
        });
        let tools: Vec<Arc<dyn Tool>> = vec![write];
        let mut rig = Rig::start(Setting { tools, store, ..Setting::default() }).await;
        rig.approver.answers.lock().unwrap().push_back(Answer::AllowOnce);
        rig.model.push(calls(&[("c1", "write", "{}")]));
        rig.prompt("go");
        while pace.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        pace.close();
        for id in ["go", "and now?"] {
            if id != "go" {
                rig.prompt(id);
            }
            let (seen, outcome) = rig.until_end(id).await;
            let told = ended(&outcome);
            assert!(told.starts_with("failed storage: "), "{id}: {told}: {seen:#?}");
            let of_call = seen.iter().rfind(|line| line.starts_with("call c1"));
            assert!(of_call.is_none_or(|line| line.contains("failed")), "{seen:#?}");
        }
        assert_eq!(rig.model.requests().len(), requests);
        let failures = rig.agent.close().await;
        assert_eq!(failures.len(), 1, "{failures:?}");
    }
    assert!(!ran.load(Ordering::Relaxed), "a body ran whose intent is not durable");
}
