//! A cancel in each window.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bridle_agent::{Access, OnRequest, ToolFailure};
use bridle_model::FailureCode;
use bridle_store::MemoryStore;
use expect_test::expect;
use tokio::sync::{Notify, Semaphore};

use super::{at, soon, told, until};
use crate::rig::{Play, Rig, Setting, TestTool, calls, failure, ok, text_block};

#[tokio::test]
async fn cancelled_while_preparing() {
    let (begun, first) = (Arc::new(Notify::new()), AtomicBool::new(true));
    let reached = Arc::clone(&begun);
    let extra = at::<OnRequest>(move |input, next| {
        let (reached, waits) = (Arc::clone(&reached), first.swap(false, Ordering::Relaxed));
        Box::pin(async move {
            if waits {
                reached.notify_one();
                std::future::pending::<()>().await;
            }
            next.run(input).await
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.prompt("go");
    begun.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          go Cancelled
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          step/start
          step/end
          turn/end aborted
        next
          system
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn cancelled_while_streaming() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    let mut answer = text_block(0, "Half an ans");
    answer.pop();
    answer.push(Play::Hang(Arc::clone(&reached)));
    rig.model.push(answer);
    rig.prompt("go");
    reached.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          text answer-1-1-1 Half an ans
          go Cancelled
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
          assistant/partial
          assistant/message
          step/end
          turn/end aborted
        next
          system
          user: go
          assistant: Half an ans
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn cancelled_while_asking() {
    let write = TestTool::new("write", Access::WriteInside("/ws/x".into()), |_| async {
        panic!("must not run")
    });
    let mut rig = Rig::new(vec![write]).await;
    rig.model.push(calls(&[("c1", "write", "{}"), ("c2", "write", "{}")]));
    rig.prompt("go");
    rig.approver.asked.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          usage 6/1000
          call c1 pending write
          call c2 pending write
          call c1 failed plan of write
          call c2 failed write
          go Cancelled
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
          tool/result c1 AbortedBeforeDispatch
          tool/result c2 AbortedBeforeDispatch
          step/end
          turn/end aborted
        next
          system
          user: go
          assistant: <write c1> <write c2>
          result c1: Cancelled before it began; nothing was done.
          result c2: Cancelled before it began; nothing was done.
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

#[tokio::test]
async fn cancelled_while_running() {
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
    let write = TestTool::new("write", Access::WriteInside("/ws/x".into()), ok);
    let mut rig = Rig::new(vec![slow, write]).await;
    rig.model.push(calls(&[("c1", "slow", "{}"), ("c2", "write", "{}")]));
    rig.prompt("go");
    started.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          usage 6/1000
          call c1 pending slow
          call c2 pending write
          call c1 running plan of slow
          call c1 failed plan of slow
          call c2 failed plan of write
          go Cancelled
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
          tool/result c1 Aborted
          tool/result c2 AbortedBeforeDispatch
          step/end
          turn/end aborted
        next
          system
          user: go
          assistant: <slow c1> <write c2>
          result c1: stopped half way
          result c2: Cancelled before it began; nothing was done.
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "go").await);
}

/// The body has ended and its result is on its way to the disk.
#[tokio::test]
async fn cancelled_while_committing() {
    let pace = Arc::new(Semaphore::new(1));
    let store = Arc::new(MemoryStore::paced(Arc::clone(&pace)));
    let tools: Vec<Arc<dyn bridle_agent::Tool>> =
        vec![TestTool::new("look", Access::ReadInside("/ws".into()), ok)];
    let mut rig = Rig::start(Setting { tools, store, ..Setting::default() }).await;
    rig.model.push(calls(&[("c1", "look", "{}")]));
    rig.prompt("go");
    let mut before = until(&mut rig, "call c1 completed done look").await;
    rig.agent.cancel();
    pace.add_permits(100);
    before.push(told(&mut rig, "go").await);
    expect![[r#"
        title go
        usage 4/1000
        call c1 pending look
        call c1 running plan of look
        call c1 completed done look
        seen
          go Cancelled
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
          tool/result c1
          step/end
          step/start
          step/end
          turn/end aborted
        next
          system
          user: go
          assistant: <look c1>
          result c1: fine
          user: and now?
    "#]]
    .assert_eq(&before.join("\n"));
}

#[tokio::test]
async fn cancelled_while_retrying() {
    // Without threads: whoever is stuck is seen to be.
    let store = Arc::new(MemoryStore::paced(Arc::new(Semaphore::new(100))));
    let mut rig = Rig::start(Setting { store, ..Setting::default() }).await;
    let waiting = Arc::new(Notify::new());
    *rig.clock.hold.lock().unwrap() = Some(Arc::clone(&waiting));
    rig.model.push(vec![Play::Fail(failure(FailureCode::Overloaded))]);
    rig.prompt("go");
    waiting.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          go Cancelled
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
          llm/retry
          step/end
          turn/end aborted
        next
          system
          user: go
          user: and now?
    "#]]
    .assert_eq(&soon(told(&mut rig, "go")).await);
}

#[tokio::test]
async fn cancelled_while_queued() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("go");
    rig.prompt("queued");
    reached.notified().await;
    rig.agent.cancel();
    expect![[r#"
        seen
          title go
          end go Cancelled
          queued Cancelled
        log
          agent/inbox/spliced
          turn/start
          agent/inbox/spliced
          title/set
          agent/inbox/spliced
          step/start
          system/message
          user/message
          request/header 1 start
          request/context
          step/end
          turn/end aborted
          agent/inbox/spliced
        next
          system
          user: go
          user: and now?
    "#]]
    .assert_eq(&told(&mut rig, "queued").await);
}
