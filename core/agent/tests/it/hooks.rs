//! What plugins can do around a turn, and what they cannot.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Answer, Approver, Mode, OnRequest, OnRequestError, OnStream, PermissionPolicy, PreStep,
    Ruling, SessionEvent, StepDecision, Tool, ToolFailure, ToolFinished, ToolPost, ToolPre,
    ToolRun, TurnOutcome, TurnStopping, Verdict,
};
use bridle_compose::{Around, HookPoint, Next, Observer, Row};
use bridle_model::{Chunk, FailureCode};
use bridle_session::{Content, MessageId, UserMessage, UserSource};
use futures::StreamExt as _;
use futures::future::BoxFuture;

use crate::rig::{
    Extra, Play, Rig, Setting, TestTool, calls, failure, kinds, ok, route, text, text_block,
};

/// A listener that is a closure over the input and the rest.
struct Listener<F>(F);

#[async_trait]
impl<P, F> Around<P> for Listener<F>
where
    P: HookPoint,
    F: for<'a> Fn(P::Input, Next<'a, P>) -> BoxFuture<'a, P::Output> + Send + Sync + 'static,
{
    async fn around(&self, input: P::Input, next: Next<'_, P>) -> P::Output {
        (self.0)(input, next).await
    }
}

pub(crate) fn on<P: HookPoint>(
    listener: impl for<'a> Fn(P::Input, Next<'a, P>) -> BoxFuture<'a, P::Output> + Send + Sync + 'static,
) -> Arc<dyn Around<P>> {
    Arc::new(Listener(listener))
}

/// The row of one listener.
pub(crate) fn at<P: HookPoint>(
    listener: impl for<'a> Fn(P::Input, Next<'a, P>) -> BoxFuture<'a, P::Output> + Send + Sync + 'static,
) -> Extra {
    let listener = on::<P>(listener);
    Extra::new(move |setup| setup.hook::<P>(Arc::clone(&listener)))
}

fn panics() -> Ruling {
    panic!("as planned")
}

fn told(text: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new("from-a-hook"),
        content: vec![Content::text(text)],
        source: UserSource::Context { name: "hook".to_owned() },
    }
}

fn reader() -> Vec<Arc<dyn Tool>> {
    vec![TestTool::new("look", Access::ReadInside("/ws".into()), ok)]
}

fn writer(count: &Arc<AtomicU32>) -> Vec<Arc<dyn Tool>> {
    let count = Arc::clone(count);
    let body = move |context| {
        count.fetch_add(1, Ordering::Relaxed);
        ok(context)
    };
    vec![TestTool::new("put", Access::WriteInside("/ws/f".into()), body)]
}

#[tokio::test]
async fn pre_step_rewrites_and_rejects() {
    let extra = at::<PreStep>(|mut input, next| {
        Box::pin(async move {
            if input.step.0 > 1 {
                let message = "one step is enough".to_owned();
                return StepDecision::Reject { message, limit: false };
            }
            input.messages.push(told("be brief"));
            next.run(input).await
        })
    });
    let mut rig = Rig::start(Setting { tools: reader(), extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("1", "look", "{}")]));
    let (lines, outcome) = rig.run("hello").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(lines.contains(&"notice one step is enough".to_owned()), "{lines:?}");
    assert_eq!(rig.model.requests(), ["system\nuser: hello\nuser: be brief"]);
    let log = kinds(&rig.log().await);
    assert_eq!(log.last().unwrap(), "turn/end blocked");
}

#[tokio::test]
async fn a_first_step_without_input_is_no_request() {
    let extra = at::<PreStep>(|mut input, next| {
        Box::pin(async move {
            input.messages.clear();
            next.run(input).await
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    assert_eq!(rig.run("hello").await.1, TurnOutcome::EndTurn);
    assert!(rig.model.requests().is_empty());
    assert_eq!(kinds(&rig.log().await).last().unwrap(), "turn/end completed");
}

#[tokio::test]
async fn a_hook_that_waits_is_left_at_a_cancel() {
    let extra = at::<PreStep>(|_, _| Box::pin(std::future::pending::<StepDecision>()));
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.prompt("hello");
    rig.agent.status().await.unwrap();
    rig.agent.cancel();
    assert_eq!(rig.until_end("hello").await.1, TurnOutcome::Cancelled);
    let log = rig.log().await;
    assert_eq!(kinds(&log).last().unwrap(), "turn/end aborted");
}

/// The end of a turn around a hook that never answers, and what the model was told last.
async fn without_answer(extra: Extra) -> (TurnOutcome, String) {
    let mode = Mode::FullAccess;
    let mut rig = Rig::start(Setting { tools: reader(), mode, extra, ..Setting::default() }).await;
    rig.clock.watches.add_permits(1);
    rig.model.push(calls(&[("1", "look", "{}")]));
    rig.model.push(text("done"));
    let (_, outcome) = rig.run("hello").await;
    let told = rig.model.requests().pop().unwrap_or_default();
    (outcome, told)
}

#[tokio::test]
async fn a_hook_that_never_answers_is_not_waited_for_for_ever() {
    let failed = |(outcome, _), point: &str| match outcome {
        TurnOutcome::Failed(failure) => {
            let said = format!("a {point} hook did not answer within 30 s");
            assert_eq!((failure.code.as_str(), failure.message), ("internal", said));
        }
        other => panic!("{point}: {other:?}"),
    };
    let before = at::<PreStep>(|_, _| Box::pin(std::future::pending::<StepDecision>()));
    failed(without_answer(before).await, "pre-step");
    let stopping = at::<TurnStopping>(|_, _| Box::pin(std::future::pending()));
    failed(without_answer(stopping).await, "turn-stopping");
    let gate = at::<ToolPre>(|_, _| Box::pin(std::future::pending()));
    let (outcome, told) = without_answer(gate).await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(told.ends_with("failed inside Bridle, so it may not run."), "{told}");
    let after = at::<ToolPost>(|_, _| Box::pin(std::future::pending()));
    let (outcome, told) = without_answer(after).await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(told.contains("a check of its result failed inside Bridle"), "{told}");
}

#[tokio::test]
async fn a_turn_that_is_always_given_more_comes_to_an_end() {
    let extra = at::<TurnStopping>(|_, _| Box::pin(async { Some(told("and then?")) }));
    let mut rig = Rig::start(Setting { extra, max_steps: 50, ..Setting::default() }).await;
    (0..20).for_each(|_| rig.model.push(text("done")));
    let (lines, outcome) = rig.run("hello").await;
    assert_eq!(outcome, TurnOutcome::MaxTurnRequests);
    assert_eq!(rig.model.requests().len(), 9, "the prompt and eight times more");
    let said = "notice The turn was ended: hooks gave it more to do 8 times.".to_owned();
    assert!(lines.contains(&said), "{lines:?}");
}

#[tokio::test]
async fn a_request_can_be_sent_elsewhere_and_a_stream_can_be_answered_here() {
    let extra = Extra::new(|setup| {
        setup.hook::<OnRequest>(on::<OnRequest>(|mut input, next| {
            Box::pin(async move {
                input.route = route("other");
                next.run(input).await
            })
        }))?;
        setup.hook::<OnStream>(on::<OnStream>(|input, _| {
            Box::pin(async move {
                let text = format!("{} is played back", input.call.route());
                let plays = text_block(0, &text).into_iter().filter_map(|play| match play {
                    Play::Chunk(chunk) => Some(Ok(chunk)),
                    _ => None,
                });
                let stop = Ok(Chunk::Stop(bridle_model::StopReason::EndTurn));
                futures::stream::iter(plays.chain([stop]).collect::<Vec<_>>()).boxed()
            })
        }))
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    let (lines, _) = rig.run("hello").await;
    let said = "text answer-1-1-1 scripted/other is played back".to_owned();
    assert!(lines.contains(&said), "{lines:?}");
    assert!(rig.model.requests().is_empty());
}

#[tokio::test]
async fn a_failed_request_is_tried_again_as_a_hook_says() {
    let extra = at::<OnRequestError>(|input, next| {
        Box::pin(async move {
            let attempt = input.attempt;
            let policy = next.run(input).await;
            // The policy would not try this code again at all.
            assert_eq!(policy, None);
            (attempt < 2).then_some(Duration::from_millis(7))
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    for _ in 0..2 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Auth))]);
    }
    let (_, outcome) = rig.run("hello").await;
    assert!(matches!(outcome, TurnOutcome::Failed(failure) if failure.code == "auth"));
    assert_eq!(rig.model.requests().len(), 2);
    assert_eq!(*rig.clock.slept.lock().unwrap(), [Duration::from_millis(7)]);
}

#[tokio::test]
async fn a_turn_that_would_stop_can_be_given_more() {
    let extra = at::<TurnStopping>(|turn, next| {
        Box::pin(async move {
            if turn.step.0 == 1 { Some(told("and the tests?")) } else { next.run(turn).await }
        })
    });
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.model.push(text("done"));
    rig.model.push(text("all done"));
    assert_eq!(rig.run("hello").await.1, TurnOutcome::EndTurn);
    assert_eq!(
        rig.model.requests()[1],
        "system\nuser: hello\nassistant: done\nuser: and the tests?"
    );
}

/// What a tool-pre hook that always says `ruling` does to a write in `mode`: how often the body
/// ran, whether a person was asked, and how the turn ended.
async fn judged(ruling: Ruling, mode: Mode) -> (u32, usize, TurnOutcome) {
    let extra = at::<ToolPre>(move |_, _| {
        let ruling = ruling.clone();
        Box::pin(async move { ruling })
    });
    let ran = Arc::new(AtomicU32::new(0));
    let tools = writer(&ran);
    let mut rig = Rig::start(Setting { tools, mode, extra, ..Setting::default() }).await;
    rig.approver.answers.lock().unwrap().push_back(Answer::AllowOnce);
    rig.model.push(calls(&[("1", "put", "{}")]));
    rig.model.push(text("done"));
    let (_, outcome) = rig.run("go").await;
    let asked = rig.approver.questions.lock().unwrap().len();
    (ran.load(Ordering::Relaxed), asked, outcome)
}

#[tokio::test]
async fn a_tool_pre_hook_makes_stricter_and_never_laxer() {
    use TurnOutcome::{Cancelled, EndTurn};
    let ask = || Ruling::Ask(vec!["looks odd".to_owned()]);
    let deny = || Ruling::Deny("not here".to_owned());
    for (ruling, mode, expected) in [
        (Ruling::Allow, Mode::Auto, (1, 0, EndTurn)),
        (Ruling::Allow, Mode::Ask, (1, 1, EndTurn)),
        (Ruling::Allow, Mode::ReadOnly, (0, 0, EndTurn)),
        (ask(), Mode::Auto, (1, 1, EndTurn)),
        (ask(), Mode::FullAccess, (1, 1, EndTurn)),
        (ask(), Mode::ReadOnly, (0, 0, EndTurn)),
        (deny(), Mode::FullAccess, (0, 0, EndTurn)),
        (deny(), Mode::Ask, (0, 0, EndTurn)),
        (Ruling::Cancel, Mode::FullAccess, (0, 0, Cancelled)),
    ] {
        let judged = judged(ruling.clone(), mode).await;
        assert_eq!(judged, expected, "{ruling:?} in {mode:?}");
    }
}

#[tokio::test]
async fn a_tool_pre_hook_that_panics_is_a_no() {
    let extra = at::<ToolPre>(|_, _| Box::pin(async { panics() }));
    let ran = Arc::new(AtomicU32::new(0));
    let tools = writer(&ran);
    let mode = Mode::FullAccess;
    let mut rig = Rig::start(Setting { tools, mode, extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("1", "put", "{}")]));
    rig.model.push(text("done"));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    assert!(rig.model.requests()[1].contains("it may not run"), "{:?}", rig.model.requests());
}

#[tokio::test]
async fn a_body_can_be_kept_from_running_or_be_ended_sooner() {
    let extra = at::<ToolRun>(|body, next| {
        Box::pin(async move {
            if body.call().name == "put" {
                return Err(ToolFailure::failed("kept"));
            }
            let deadline = body.token().child_token();
            deadline.cancel();
            next.run(body.until(deadline)).await
        })
    });
    let ran = Arc::new(AtomicU32::new(0));
    let waits = TestTool::new(
        "wait",
        Access::ReadInside("/ws".into()),
        |context: bridle_agent::ToolContext| async move {
            context.token.cancelled().await;
            Err(ToolFailure::aborted("the deadline came"))
        },
    );
    let mut tools = writer(&ran);
    tools.push(waits);
    let mode = Mode::FullAccess;
    let mut rig = Rig::start(Setting { tools, mode, extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("1", "put", "{}"), ("2", "wait", "{}")]));
    rig.model.push(text("done"));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    assert_eq!(ran.load(Ordering::Relaxed), 0);
    let told = &rig.model.requests()[1];
    assert!(told.ends_with("result 1: kept\nresult 2: the deadline came"), "{told}");
}

#[tokio::test]
async fn what_the_model_reads_of_a_result_can_be_changed_and_added_to() {
    let extra = at::<ToolPost>(|ran, next| {
        Box::pin(async move {
            if ran.call.arguments.contains("secret") {
                return Verdict::block("That may not be shown.");
            }
            let context = vec!["the house rules apply".to_owned()];
            Verdict { context, ..next.run(ran).await }
        })
    });
    let mut rig = Rig::start(Setting { tools: reader(), extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("1", "look", "{}"), ("2", "look", r#"{"at":"secret"}"#)]));
    rig.model.push(text("done"));
    rig.run("go").await;
    let told = &rig.model.requests()[1];
    let end = "result 1: fine\nresult 2: That may not be shown.\n[The call has run; what it did \
               is not undone.]\nuser: the house rules apply";
    assert!(told.ends_with(end), "{told}");
}

#[derive(Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer<SessionEvent> for Notes {
    fn observe(&self, told: &SessionEvent) {
        self.0.lock().unwrap().push(told.event.data.type_name().to_owned());
        panic!("as planned");
    }
}

impl Observer<ToolFinished> for Notes {
    fn observe(&self, told: &ToolFinished) {
        let text = format!("{} {:?}", told.name, told.error);
        self.0.lock().unwrap().push(text);
    }
}

#[tokio::test]
async fn observers_see_every_event_and_break_nothing() {
    let (events, tools) = (Arc::new(Notes::default()), Arc::new(Notes::default()));
    let extra = {
        let (events, tools) = (Arc::clone(&events), Arc::clone(&tools));
        Extra::new(move |setup| {
            setup.observe::<SessionEvent>(Arc::clone(&events) as _)?;
            setup.observe::<ToolFinished>(Arc::clone(&tools) as _)
        })
    };
    let mut rig = Rig::start(Setting { tools: reader(), extra, ..Setting::default() }).await;
    rig.model.push(calls(&[("1", "look", "{}"), ("2", "nothing", "{}")]));
    rig.model.push(text("done"));
    assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
    let log = rig.log().await;
    let types: Vec<_> = log.events().iter().map(|event| event.data.type_name()).collect();
    assert_eq!(*events.0.lock().unwrap(), types);
    assert_eq!(*tools.0.lock().unwrap(), ["look None", "nothing Some(UnknownTool)"]);
}

#[tokio::test]
async fn without_a_policy_nothing_runs_and_without_an_approver_nothing_that_asks() {
    let ran = Arc::new(AtomicU32::new(0));
    for gone in ["permission-modes", "approver"] {
        let mut rig = Rig::with(writer(&ran), Mode::Ask, 5).await;
        rig.scope.unmount(gone).await;
        assert!(rig.scope.get::<dyn PermissionPolicy>().is_none() || gone == "approver");
        assert!(rig.scope.get::<dyn Approver>().is_none() || gone == "permission-modes");
        rig.model.push(calls(&[("1", "put", "{}")]));
        rig.model.push(text("done"));
        assert_eq!(rig.run("go").await.1, TurnOutcome::EndTurn);
        assert_eq!(ran.load(Ordering::Relaxed), 0, "without {gone}");
    }
}

#[tokio::test]
async fn a_model_source_can_be_swapped_between_prompts() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("first"));
    assert_eq!(rig.run("one").await.1, TurnOutcome::EndTurn);
    rig.process.unmount("models").await;
    let outcome = rig.run("two").await.1;
    assert!(
        matches!(&outcome, TurnOutcome::Failed(failure) if failure.message.contains("no model source")),
        "{outcome:?}"
    );
    let models: Arc<dyn bridle_model::ModelSource> = Arc::new(rig.model.clone());
    rig.process.provide("models", models).await;
    rig.model.push(text("third"));
    assert_eq!(rig.run("three").await.1, TurnOutcome::EndTurn);
}

#[tokio::test]
async fn a_tool_that_is_switched_off_is_refused_at_once_and_gone_in_the_next_series() {
    let mut rig = Rig::with(reader(), Mode::Ask, 5).await;
    let extra_tool = TestTool::new("steps", Access::ReadInside("/ws".into()), ok);
    rig.model.push(calls(&[("1", "look", "{}")]));
    rig.model.push(text("done"));
    rig.run("one").await;
    rig.scope.unmount("offers").await;
    rig.model.push(text("no tools"));
    rig.run("two").await;
    rig.scope.mount(vec![Row::new("offers")]).await;
    rig.model.push(text("tools again"));
    rig.run("three").await;
    drop(extra_tool);
    let log = kinds(&rig.log().await);
    let series: Vec<_> = log.iter().filter(|kind| kind.starts_with("request/header")).collect();
    assert_eq!(
        series,
        [
            "request/header 1 start",
            "request/header 2 tools-changed",
            "request/header 3 tools-changed"
        ]
    );
}
