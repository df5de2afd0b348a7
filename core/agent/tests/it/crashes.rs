//! What a crash leaves of an answer in mid-stream and of input in the queue.

use std::sync::Arc;
use std::time::Duration;

use bridle_agent::{TurnOutcome, replay};
use bridle_model::{BlockKind, Chunk, FailureCode, StopReason};
use bridle_session::{
    AssistantAttempt, AssistantPartial, Block, Content, Draft, EventData, Failure, InboxSpliced,
    InputQueue, LlmRetry, MessageId, Session, StepNumber, StepStart, TimedBlock, TurnNumber,
    TurnStart, UnixMillis, Usage, UserMessage, UserSource,
};
use expect_test::expect;
use tokio::sync::Notify;

use crate::rig::{Play, Rig, failure, header, kinds, line, route, text};

fn delta(text: &str) -> Chunk {
    Chunk::TextDelta { index: 0, text: text.to_owned() }
}

fn begun() -> Vec<Play> {
    vec![Play::Chunk(Chunk::BlockStart { index: 0, kind: BlockKind::Text })]
}

fn partials(session: &Session) -> Vec<AssistantPartial> {
    let of = |data: &EventData| match data {
        EventData::AssistantPartial(partial) => Some(partial.clone()),
        _ => None,
    };
    session.events().iter().filter_map(|event| of(&event.data)).collect()
}

fn texts(partials: &[AssistantPartial]) -> Vec<String> {
    let text = |timed: &TimedBlock| match &timed.block {
        Block::Text { text } => text.clone(),
        other => format!("{other:?}"),
    };
    partials.iter().map(|partial| partial.blocks.iter().map(text).collect()).collect()
}

#[tokio::test]
async fn a_long_answer_is_recorded_once_a_second_or_every_8_kib() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut answer = begun();
    for _ in 0..100 {
        answer.push(Play::Later(Duration::from_millis(100), delta("tenth ")));
    }
    for _ in 0..400 {
        answer.push(Play::Chunk(delta(&"x".repeat(100))));
    }
    let whole = "tenth ".repeat(100) + &"x".repeat(40_000);
    answer.push(Play::Chunk(Chunk::BlockEnd { index: 0, block: Block::Text { text: whole } }));
    answer.push(Play::Chunk(Chunk::Stop(StopReason::EndTurn)));
    rig.model.push(answer);
    rig.run("a").await;
    let log = rig.log().await;
    let partials = partials(&log);
    // Ten for the ten seconds, four of 8 KiB for the 40 kB; the rest was never due.
    let lens: Vec<_> = texts(&partials).iter().map(String::len).collect();
    assert_eq!(lens, [60, 60, 60, 60, 60, 60, 60, 60, 60, 60, 8200, 8200, 8200, 8200]);
    assert!(partials.iter().skip(1).all(|partial| partial.continues));
    assert_eq!(log.state().partial, None, "the answer is settled");
}

#[tokio::test]
async fn what_a_stalled_stream_has_shown_does_not_wait_for_more() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    let mut answer = begun();
    answer.push(Play::Chunk(delta("Half an ans")));
    answer.push(Play::Hang(Arc::clone(&reached)));
    rig.model.push(answer);
    rig.prompt("a");
    reached.notified().await;
    rig.agent.cancel();
    rig.until_end("a").await;
    assert_eq!(*rig.clock.slept.lock().unwrap(), [Duration::from_secs(1)]);
    assert_eq!(texts(&partials(&rig.log().await)), ["Half an ans"]);
}

#[tokio::test]
async fn an_answer_within_a_second_costs_nothing() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.model.push(text("Hello."));
    rig.run("a").await;
    assert!(partials(&rig.log().await).is_empty());
}

#[tokio::test]
async fn the_dead_half_of_a_failed_attempt_never_returns() {
    let mut rig = Rig::new(Vec::new()).await;
    let mut cut = begun();
    cut.push(Play::Later(Duration::from_secs(2), delta("Half")));
    cut.push(Play::Fail(failure(FailureCode::Transport)));
    rig.model.push(cut);
    // The second attempt shows nothing and hangs: a crash there must not bring back the first.
    let reached = Arc::new(Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("a");
    reached.notified().await;
    rig.agent.cancel();
    rig.until_end("a").await;
    let log = rig.log().await;
    assert_eq!(texts(&partials(&log)), ["Half"]);
    let failed =
        log.events().iter().position(|event| matches!(event.data, EventData::AssistantAttempt(_)));
    let mut crashed = Session::new((**log.header()).clone());
    for event in &log.events()[..=failed.unwrap()] {
        let draft = Draft { data: event.data.clone(), surface: event.surface.clone() };
        crashed.append(draft, event.time).unwrap();
    }
    for session in [&log, &crashed] {
        let shown: Vec<_> = replay(session).iter().map(line).collect();
        assert!(!shown.iter().any(|line| line.contains("Half")), "{shown:#?}");
    }
}

fn input(id: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new(id),
        content: vec![Content::text(id)],
        source: UserSource::Human,
    }
}

fn queued(id: &str) -> Draft {
    Draft::new(InboxSpliced::queued(input(id), InputQueue::NextTurn))
}

fn piece(text: &str, continues: bool) -> Draft {
    let (started_at, ended_at) = (UnixMillis(0), UnixMillis(0));
    Draft::new(AssistantPartial {
        turn: TurnNumber(1),
        step: StepNumber(1),
        id: MessageId::new("answer-1-1-1"),
        continues,
        blocks: vec![TimedBlock {
            started_at,
            ended_at,
            block: Block::Text { text: text.to_owned() },
            raw: None,
        }],
        route: route("one"),
        usage: Usage::default(),
    })
}

/// A process that died while it answered `a` and held `b` in the queue.
fn crashed() -> Vec<Draft> {
    vec![
        queued("a"),
        Draft::new(TurnStart { turn: TurnNumber(1) }),
        Draft::new(InboxSpliced::removed(vec![MessageId::new("a")], "claimed")),
        Draft::new(StepStart { turn: TurnNumber(1), step: StepNumber(1) }),
        Draft::new(input("a")),
        piece("What the person", false),
        queued("b"),
        piece(" saw", true),
    ]
}

#[tokio::test]
async fn a_crash_keeps_what_was_seen_and_says_what_was_not_sent() {
    let mut rig = Rig::after_a_crash(crashed()).await;
    rig.model.push(text("Fine."));
    rig.run("c").await;
    assert_eq!(
        rig.model.requests(),
        ["system\nuser: a\nassistant: What the person saw\nuser: c"],
        "what was never sent stays so"
    );
    let log = rig.log().await;
    expect![[r#"
        [
            "assistant/message",
            "step/end",
            "turn/end interrupted",
            "agent/inbox/spliced",
        ]
    "#]]
    .assert_debug_eq(&&kinds(&log)[8..12]);
    let shown: Vec<_> = replay(&log).iter().map(line).collect();
    expect![[r#"
        [
            "user a",
            "text answer-1-1-1 What the person saw",
            "notice This turn was broken off: Bridle was stopped.",
            "user b",
            "notice This message was not sent: the session broke off before its turn came.",
            "title c",
            "user c",
            "text answer-2-1-1 Fine.",
            "usage 15/1000",
        ]
    "#]]
    .assert_debug_eq(&shown);
}

#[test]
fn a_log_that_is_not_repaired_is_shown_as_it_will_be() {
    let mut session = Session::new(header());
    for draft in crashed() {
        session.append(draft, UnixMillis(0)).unwrap();
    }
    let before: Vec<_> = replay(&session).iter().map(line).collect();
    for draft in session.repair() {
        session.append(draft, UnixMillis(0)).unwrap();
    }
    let after: Vec<_> = replay(&session).iter().map(line).collect();
    assert_eq!(before, after);
    assert_eq!(before.len(), 5, "{before:#?}");
}

/// A process that died while it waited to ask again after a failed try.
fn died_in_backoff(attempt: u32, delay_ms: u64) -> Vec<Draft> {
    let (turn, step) = (TurnNumber(1), StepNumber(1));
    let failure = Failure {
        code: "rate-limited".into(),
        message: "slow down".into(),
        status: Some(429),
        request_id: None,
    };
    let tried = AssistantAttempt { turn, step, attempt: attempt - 1, failure, usage: None };
    let code = "rate-limited".to_owned();
    vec![
        Draft::new(TurnStart { turn }),
        Draft::new(StepStart { turn, step }),
        Draft::new(input("a")),
        Draft::new(tried),
        Draft::new(LlmRetry { turn, step, attempt, delay_ms, code }),
    ]
}

#[tokio::test]
async fn a_wait_for_the_provider_goes_on_after_a_restart() {
    let mut rig = Rig::after_a_crash(died_in_backoff(2, 20_000)).await;
    rig.clock.pass(Duration::from_secs(5));
    rig.model.push(text("Now."));
    let (shown, outcome) = rig.run("b").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert_eq!(rig.clock.slept.lock().unwrap()[0], Duration::from_secs(15));
    assert!(shown.contains(&"notice Trying again in 15.0 s".to_owned()), "{shown:#?}");
    assert!(shown.contains(&"text answer-2-1-2 Now.".to_owned()), "the try that was planned");
    rig.model.push(text("Fine."));
    rig.run("c").await;
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| *kind == "llm/retry-started").count(), 1);
}

#[tokio::test]
async fn the_tries_of_before_the_restart_count() {
    let mut rig = Rig::after_a_crash(died_in_backoff(3, 500)).await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::RateLimited))]);
    let TurnOutcome::Failed(failed) = rig.run("b").await.1 else { panic!("must fail") };
    assert_eq!(failed.code, "rate-limited");
    assert_eq!(rig.model.requests().len(), 1, "the third of three tries");
    rig.model.push(vec![Play::Fail(failure(FailureCode::RateLimited))]);
    rig.model.push(text("Now."));
    assert_eq!(rig.run("c").await.1, TurnOutcome::EndTurn, "the next prompt has its own");
}

#[tokio::test]
async fn a_wait_after_a_restart_can_be_cancelled_and_is_not_repeated() {
    let mut rig = Rig::after_a_crash(died_in_backoff(2, 20_000)).await;
    let reached = Arc::new(Notify::new());
    *rig.clock.hold.lock().unwrap() = Some(Arc::clone(&reached));
    rig.prompt("b");
    reached.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("b").await.1, TurnOutcome::Cancelled);
    *rig.clock.hold.lock().unwrap() = None;
    rig.model.push(text("Now."));
    let (shown, _) = rig.run("c").await;
    assert!(!shown.iter().any(|line| line.contains("Trying again")), "{shown:#?}");
}
