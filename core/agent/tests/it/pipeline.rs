//! The tool pipeline: arguments and values against their schemas, guards, deadlines, bodies that do
//! not end, and results in the model's order whatever finished first.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Answer, Approver, CallGuard, CallInfo, Mode, Question, Reading, Tool, ToolFailure,
    ToolOutcome, ToolPost, ToolPre, TurnOutcome, Verdict,
};
use bridle_session::Content;
use expect_test::expect;
use serde_json::json;
use tokio::sync::{Barrier, Notify, Semaphore};

use crate::hooks::at;
use crate::rig::{Extra, Rig, Setting, TestTool, calls, kinds, ok, text};

fn inside() -> Access {
    Access::ReadInside("/ws".into())
}

/// The last request, from the first result on.
fn results(rig: &Rig) -> String {
    let last = rig.model.requests().pop().unwrap();
    last.split_once("\nresult ").map(|(_, results)| results.to_owned()).unwrap()
}

#[tokio::test]
async fn arguments_that_break_the_schema_never_reach_the_body() {
    let schema = json!({
        "type": "object", "required": ["n"], "additionalProperties": false,
        "properties": { "n": { "type": "integer" } },
    });
    let count = Arc::new(AtomicU32::new(0));
    let ran = Arc::clone(&count);
    let tool = TestTool::new("count", inside(), move |_| {
        let ran = Arc::clone(&ran);
        async move { Ok(ran.fetch_add(1, Ordering::Relaxed).to_string()) }
    });
    let mut rig = Rig::new(vec![tool.taking(&schema)]).await;
    rig.model.push(calls(&[
        ("c1", "count", "{\"n\":"),
        ("c2", "count", "{\"n\":\"one\"}"),
        ("c3", "count", "{\"n\":1,\"m\":2}"),
        ("c4", "count", ""),
        ("c5", "count", "\"{\\\"n\\\":1}\""),
    ]));
    rig.model.push(text("Done."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    assert_eq!(count.load(Ordering::Relaxed), 1);
    expect![[r#"
        c1: The arguments of `count` are not valid JSON: EOF while parsing a value at line 1 column 5. Nothing was done.
        result c2: The arguments of `count` do not fit at `n`: expected an integer, found the string "one". Nothing was done.
        result c3: The arguments of `count` do not fit at `m`: no such property; expected are n. Nothing was done.
        result c4: The arguments of `count` do not fit as a whole: the property `n` is missing. Nothing was done.
        result c5: 0"#]]
    .assert_eq(&results(&rig));
}

#[tokio::test]
async fn a_bad_value_never_looks_like_success() {
    let tool = TestTool::with_outcome("look", inside(), ok, |outcome| outcome.value = json!(7));
    let mut rig = Rig::new(vec![tool.yielding(&json!({ "type": "string" }))]).await;
    rig.model.push(calls(&[("c1", "look", "{}")]));
    rig.model.push(text("Done."));
    rig.run("go").await;
    expect!["c1: The call has run, but the result of look is not what the tool promises (as a whole: expected a string, found the number 7), so it is not shown. Look at what it did before you repeat it."].assert_eq(&results(&rig));
    assert!(kinds(&rig.log().await).contains(&"tool/result c1 Failed".to_owned()));
}

#[tokio::test]
async fn a_hook_replaces_what_is_read_or_the_value_it_is_read_from() {
    let extra = at::<ToolPost>(|ran, next| {
        Box::pin(async move {
            let value = ran.outcome.as_ref().map(|outcome| outcome.value.clone());
            assert_eq!(next.run(Arc::clone(&ran)).await.reading, Reading::Unchanged);
            Verdict::of(match ran.call.id.as_str() {
                "c1" => Reading::Content(vec![Content::text("instead")]),
                "c2" => Reading::Value(json!(format!("{}!", value.unwrap().as_str().unwrap()))),
                "c3" => Reading::Value(json!(3)),
                _ => panic!("as planned"),
            })
        })
    });
    let tool = TestTool::new("look", inside(), ok).yielding(&json!({ "type": "string" }));
    let mut rig = Rig::start(Setting { tools: vec![tool], extra, ..Setting::default() }).await;
    let each: Vec<_> = ["c1", "c2", "c3", "c4"].map(|id| (id, "look", "{}")).into();
    rig.model.push(calls(&each));
    rig.model.push(text("Done."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    expect![[r#"
        c1: instead
        result c2: fine!
        result c3: The call has run, but the result of look is not what the tool promises (as a whole: expected a string, found the number 3), so it is not shown. Look at what it did before you repeat it.
        result c4: The call has run, but a check of its result failed inside Bridle, so the result is not shown. Look at what it did before you repeat it."#]]
    .assert_eq(&results(&rig));
}

/// Bodies end in every order that four can end in; results come in the order of the calls.
#[tokio::test]
async fn results_stay_in_the_models_order_whatever_finished_first() {
    const CALLS: [&str; 4] = ["c0", "c1", "c2", "c3"];
    for order in permutations(&[0, 1, 2, 3]) {
        let gates: Vec<_> = CALLS.map(|_| Arc::new(Semaphore::new(0))).into();
        let ended = Arc::new(Mutex::new(Vec::new()));
        let tools = (0..CALLS.len()).map(|n| {
            let (gate, ended) = (Arc::clone(&gates[n]), Arc::clone(&ended));
            let tool: Arc<dyn Tool> = TestTool::new(&format!("t{n}"), inside(), move |_| {
                let (gate, ended) = (Arc::clone(&gate), Arc::clone(&ended));
                async move {
                    gate.acquire().await.unwrap().forget();
                    ended.lock().unwrap().push(n);
                    Ok(format!("from {n}"))
                }
            });
            tool
        });
        let mut rig = Rig::new(tools.collect()).await;
        let names = ["t0", "t1", "t2", "t3"];
        let each: Vec<_> = CALLS.iter().zip(names).map(|(id, name)| (*id, name, "{}")).collect();
        rig.model.push(calls(&each));
        rig.model.push(text("Done."));
        rig.prompt("go");
        for (count, n) in order.iter().enumerate() {
            gates[*n].add_permits(1);
            while ended.lock().unwrap().len() <= count {
                tokio::task::yield_now().await;
            }
        }
        let (shown, outcome) = rig.until_end("go").await;
        assert_eq!(outcome, TurnOutcome::EndTurn, "{order:?}");
        assert_eq!(*ended.lock().unwrap(), order);
        let completed: Vec<_> =
            shown.iter().filter_map(|line| line.split_once(" completed ")).collect();
        let shown: Vec<_> =
            completed.iter().map(|(call, _)| call.trim_start_matches("call ")).collect();
        assert_eq!(shown, CALLS, "{order:?}");
        assert_eq!(
            results(&rig),
            "c0: from 0\nresult c1: from 1\nresult c2: from 2\nresult c3: from 3",
            "{order:?}"
        );
    }
}

fn permutations(items: &[usize]) -> Vec<Vec<usize>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = items.iter().flat_map(|first| {
        let rest: Vec<_> = items.iter().copied().filter(|item| item != first).collect();
        permutations(&rest).into_iter().map(move |tail| [vec![*first], tail].concat())
    });
    with_first.collect()
}

#[tokio::test]
async fn no_more_than_eight_bodies_run_at_once() {
    let (now, most) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let (running, seen) = (Arc::clone(&now), Arc::clone(&most));
    // None ends before eight run.
    let eight = Arc::new(Barrier::new(8));
    let tool: Arc<dyn Tool> = TestTool::new("look", inside(), move |_| {
        let (running, seen) = (Arc::clone(&running), Arc::clone(&seen));
        let eight = Arc::clone(&eight);
        async move {
            seen.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            eight.wait().await;
            running.fetch_sub(1, Ordering::SeqCst);
            Ok("seen".to_owned())
        }
    });
    let mut rig = Rig::new(vec![tool]).await;
    // Each is another one, so that they are no circle.
    let ids: Vec<_> = (0..24).map(|n| (format!("c{n}"), format!("{{\"n\":{n}}}"))).collect();
    let each: Vec<_> = ids.iter().map(|(id, n)| (id.as_str(), "look", n.as_str())).collect();
    rig.model.push(calls(&each));
    rig.model.push(text("Done."));
    rig.run("go").await;
    assert_eq!(most.load(Ordering::SeqCst), 8);
    assert_eq!(results(&rig).lines().count(), 24);
}

/// Says no to everything, and notes what it was asked.
struct Never(Arc<Mutex<Vec<String>>>);

#[async_trait]
impl CallGuard for Never {
    async fn check(&self, call: &CallInfo) -> Result<(), String> {
        self.0.lock().unwrap().push(call.id.as_str().to_owned());
        match call.id.as_str() {
            "c1" => Err("not on a Sunday".to_owned()),
            "c2" => panic!("as planned"),
            _ => Ok(()),
        }
    }
}

#[tokio::test]
async fn a_guard_has_the_last_word_also_after_a_persons_yes() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let guard = Arc::clone(&asked);
    let extra = Extra::new(move |setup| {
        setup.add::<dyn CallGuard>("never", Arc::new(Never(Arc::clone(&guard))))
    });
    let write: Arc<dyn Tool> = TestTool::new("write", Access::WriteInside("/ws/x".into()), ok);
    let mut rig = Rig::start(Setting { tools: vec![write], extra, ..Setting::default() }).await;
    let answers = [Answer::AllowOnce, Answer::AllowOnce, Answer::Reject, Answer::AllowOnce];
    rig.approver.answers.lock().unwrap().extend(answers);
    let each: Vec<_> = ["c1", "c2", "c3", "c4"].map(|id| (id, "write", "{}")).into();
    rig.model.push(calls(&each));
    rig.model.push(text("Done."));
    rig.run("go").await;
    assert_eq!(*asked.lock().unwrap(), ["c1", "c2", "c4"], "never after a no");
    expect![[r#"
        c1: not on a Sunday
        result c2: A check of this call failed inside Bridle, so it may not run.
        result c3: The person declined this call. Do not try to reach the same effect another way; ask what they want instead.
        result c4: fine"#]]
    .assert_eq(&results(&rig));
}

#[tokio::test]
async fn a_yes_is_for_one_call() {
    let write: Arc<dyn Tool> = TestTool::new("write", Access::WriteInside("/ws/x".into()), ok);
    let mut rig = Rig::new(vec![write]).await;
    rig.approver.answers.lock().unwrap().extend([Answer::AllowOnce, Answer::Reject]);
    rig.model.push(calls(&[("c1", "write", "{}"), ("c2", "write", "{}")]));
    rig.model.push(text("Done."));
    rig.run("go").await;
    assert_eq!(rig.approver.questions.lock().unwrap().len(), 2);
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c2 Denied".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_yes_counts_for_nothing_when_the_mode_has_become_stricter_meanwhile() {
    let write: Arc<dyn Tool> = TestTool::new("write", Access::WriteInside("/ws/x".into()), ok);
    let reached = Arc::new(Notify::new());
    let open = Arc::new(Notify::new());
    let approver = Held(Arc::clone(&reached), Arc::clone(&open));
    let mut rig = Rig::new(vec![write]).await;
    rig.scope.provide::<dyn Approver>("approver", Arc::new(approver)).await;
    rig.model.push(calls(&[("c1", "write", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("go");
    reached.notified().await;
    rig.agent.set_mode(Mode::ReadOnly).await.unwrap();
    open.notify_one();
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::EndTurn);
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 Denied".to_owned()), "{log:#?}");
}

/// A person who says yes once the test lets them.
struct Held(Arc<Notify>, Arc<Notify>);

#[async_trait]
impl Approver for Held {
    async fn ask(&self, _: Question) -> Answer {
        self.0.notify_one();
        self.1.notified().await;
        Answer::AllowOnce
    }
}

#[tokio::test]
async fn a_hook_that_never_answers_is_left_with_a_cancel() {
    let reached = Arc::new(Notify::new());
    let hook = Arc::clone(&reached);
    let extra = at::<ToolPre>(move |_, _| {
        let hook = Arc::clone(&hook);
        Box::pin(async move {
            hook.notify_one();
            std::future::pending().await
        })
    });
    let look: Arc<dyn Tool> = TestTool::new("look", inside(), ok);
    let mut rig = Rig::start(Setting { tools: vec![look], extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("c1", "look", "{}"), ("c2", "look", "{}")]));
    rig.prompt("go");
    reached.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::Cancelled);
    let log = kinds(&rig.log().await);
    let results: Vec<_> = log.iter().filter(|kind| kind.starts_with("tool/result")).collect();
    assert_eq!(
        results,
        ["tool/result c1 AbortedBeforeDispatch", "tool/result c2 AbortedBeforeDispatch"]
    );
}

/// A body that hangs, whatever its token says; `began` is told when it has begun.
fn deaf(began: &Arc<Notify>) -> Arc<TestTool> {
    let began = Arc::clone(began);
    TestTool::new("deaf", Access::WriteInside("/ws/x".into()), move |_| {
        let began = Arc::clone(&began);
        async move {
            began.notify_one();
            std::future::pending::<Result<String, ToolFailure>>().await
        }
    })
}

#[tokio::test]
async fn a_body_that_does_not_end_cannot_stop_a_cancel() {
    let began = Arc::new(Notify::new());
    let mut rig = Rig::with(vec![deaf(&began)], Mode::Auto, 5).await;
    rig.model.push(calls(&[("c1", "deaf", "{}"), ("c2", "deaf", "{}")]));
    rig.prompt("go");
    began.notified().await;
    rig.agent.cancel();
    // The patience of the driver is over.
    rig.clock.watches.add_permits(1);
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::Cancelled);
    rig.model.push(text("Fine."));
    assert_eq!(rig.run("next").await.1, TurnOutcome::EndTurn);
    expect![[r#"
        c1: The call was cancelled and did not end within 10 s of being told to. What it did, and whether it goes on, is unknown. Look before you repeat it.
        result c2: Cancelled before it began; nothing was done.
        user: next"#]]
    .assert_eq(&results(&rig));
    let log = kinds(&rig.log().await);
    assert!(log.contains(&"tool/result c1 ToolOutcomeUnknown".to_owned()), "{log:#?}");
}

#[tokio::test]
async fn a_deadline_ends_a_body_and_the_result_says_so() {
    let began = Arc::new(Notify::new());
    let minute = Duration::from_secs(60);
    let polite_began = Arc::new(Notify::new());
    let polite = Arc::clone(&polite_began);
    let polite = TestTool::new("polite", inside(), move |context| {
        let began = Arc::clone(&polite);
        async move {
            began.notify_one();
            context.token.cancelled().await;
            Err(ToolFailure::failed("half done"))
        }
    });
    let tools: Vec<Arc<dyn Tool>> = vec![polite.within(minute), deaf(&began).within(minute)];
    let mut rig = Rig::with(tools, Mode::Auto, 5).await;
    rig.model.push(calls(&[("c1", "polite", "{}"), ("c2", "deaf", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("go");
    polite_began.notified().await;
    rig.clock.watches.add_permits(1);
    began.notified().await;
    // The deadline, and the patience with a body that does not end.
    rig.clock.watches.add_permits(2);
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::EndTurn);
    expect![[r#"
        c1: half done
        [The call timed out after 60 s and was ended.]
        result c2: The call timed out after 60 s and did not end within 10 s of being told to. What it did, and whether it goes on, is unknown. Look before you repeat it."#]]
    .assert_eq(&results(&rig));
}

#[tokio::test]
async fn a_cancel_wins_over_a_deadline() {
    let began = Arc::new(Notify::new());
    let tools: Vec<Arc<dyn Tool>> = vec![deaf(&began).within(Duration::from_secs(60))];
    let mut rig = Rig::with(tools, Mode::Auto, 5).await;
    rig.model.push(calls(&[("c1", "deaf", "{}")]));
    rig.prompt("go");
    began.notified().await;
    rig.agent.cancel();
    rig.clock.watches.add_permits(2);
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::Cancelled);
    rig.model.push(text("Fine."));
    rig.run("next").await;
    assert!(results(&rig).starts_with("c1: The call was cancelled and did not end"));
}

/// What a body finds in the store when it begins: its own call, on the disk.
#[tokio::test]
async fn a_call_with_effects_is_durable_before_its_body_runs() {
    let store = bridle_store::MemoryStore::new();
    let (reader, found) = (store.clone(), Arc::new(Mutex::new(Vec::new())));
    let seen = Arc::clone(&found);
    let write: Arc<dyn Tool> =
        TestTool::new("write", Access::WriteInside("/ws/x".into()), move |_| {
            use bridle_store::SessionStore as _;
            let log = reader.read(&bridle_session::SessionId::new(crate::rig::SESSION)).unwrap();
            seen.lock().unwrap().extend(kinds(&log.session).pop());
            async { Ok("fine".to_owned()) }
        });
    let mut rig = Rig::start(Setting {
        tools: vec![write],
        mode: Mode::Auto,
        store: Arc::new(store),
        ..Setting::default()
    })
    .await;
    rig.model.push(calls(&[("c1", "write", "{}")]));
    rig.model.push(text("Done."));
    rig.run("go").await;
    assert_eq!(*found.lock().unwrap(), ["tool/call c1"]);
}

#[tokio::test]
async fn a_tool_that_cannot_put_its_value_into_words_ends_that_call_only() {
    let tool = TestTool::with_outcome("look", inside(), ok, |outcome: &mut ToolOutcome| {
        outcome.value = json!("panic");
    });
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "look", "{}")]));
    rig.model.push(text("Done."));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    assert!(results(&rig).contains("it could not be put into words"), "{}", results(&rig));
}
