//! Input while a turn runs: it waits, joins, or is taken back; nothing is lost and nothing mixed.

use std::sync::Arc;

use bridle_agent::{Access, AgentUpdate, Phase, PreStep, StepDecision, TurnOutcome, replay};
use bridle_session::{
    Content, EventData, InputQueue, MessageId, StepNumber, TurnNumber, UserMessage, UserSource,
};
use expect_test::expect;
use tokio::sync::Notify;

use crate::hooks::on;
use crate::rig::{Extra, Play, Rig, Setting, TestTool, calls, kinds, line, text};

fn steer(rig: &Rig, id: &str) {
    rig.agent.steer(MessageId::new(id), vec![Content::text(id)]).unwrap();
}

fn context(id: &str) -> UserMessage {
    UserMessage {
        id: MessageId::new(id),
        content: vec![Content::text(id)],
        source: UserSource::Context { name: "test".to_owned() },
    }
}

/// A read-only tool that says that it runs and then waits to be let on.
fn gate() -> (Arc<TestTool>, Arc<Notify>, Arc<Notify>) {
    let (started, go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (begun, on) = (Arc::clone(&started), Arc::clone(&go));
    let tool = TestTool::new("gate", Access::ReadInside("/ws".into()), move |context| {
        let (begun, on) = (Arc::clone(&begun), Arc::clone(&on));
        async move {
            begun.notify_one();
            tokio::select! {
                () = on.notified() => Ok("open".to_owned()),
                () = context.token.cancelled() => Err(bridle_agent::ToolFailure::aborted("shut")),
            }
        }
    });
    (tool, started, go)
}

/// Updates until all of these ended, as lines.
async fn until_ended(rig: &mut Rig, ids: &[&str]) -> Vec<String> {
    let mut open = ids.to_vec();
    let mut lines = Vec::new();
    while !open.is_empty() {
        let update = rig.updates.recv().await.unwrap();
        if let AgentUpdate::TurnEnded { prompt, .. } = &update {
            open.retain(|id| *id != prompt.as_str());
        }
        lines.push(line(&update));
    }
    lines
}

fn of<'a>(lines: &'a [String], words: &[&str]) -> Vec<&'a str> {
    let wanted = |line: &&str| words.iter().any(|word| line.starts_with(word));
    lines.iter().map(String::as_str).filter(wanted).collect()
}

#[tokio::test]
async fn a_steer_joins_after_the_current_tools_and_ends_with_their_turn() {
    let (tool, started, go) = gate();
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "gate", "{}"), ("c2", "gate", "{}")]));
    rig.model.push(text("Done."));
    rig.prompt("go");
    started.notified().await;
    steer(&rig, "one");
    steer(&rig, "two");
    rig.agent.inject(context("note")).unwrap();
    go.notify_one();
    go.notify_one();
    let lines = until_ended(&mut rig, &["go", "one", "two"]).await;
    let shown = of(&lines, &["call c2 completed", "joined", "text", "end"]);
    let expected = [
        "call c2 completed done gate",
        "joined one",
        "joined two",
        "text answer-1-2-1 Done.",
        "end go EndTurn",
        "end one EndTurn",
        "end two EndTurn",
    ];
    assert_eq!(shown, expected);
    assert_eq!(
        rig.model.requests()[1],
        "system\nuser: go\nassistant: <gate c1> <gate c2>\nresult c1: open\nresult c2: open\n\
         user: one\nuser: two\nuser: note"
    );
    let log = rig.log().await;
    let queues: Vec<_> = log
        .events()
        .iter()
        .filter_map(|event| match &event.data {
            EventData::InboxSpliced(splice) => {
                let inserted = splice.inserted.first().map(|message| message.id.to_string());
                Some((inserted, splice.queue, splice.removed.len()))
            }
            _ => None,
        })
        .collect();
    let queued = |id: &str, queue| (Some(id.to_owned()), queue, 0);
    assert_eq!(
        queues,
        [
            queued("go", InputQueue::NextTurn),
            (None, InputQueue::NextTurn, 1),
            queued("one", InputQueue::NextStep),
            queued("two", InputQueue::NextStep),
            queued("note", InputQueue::NextStep),
            (None, InputQueue::NextTurn, 3),
        ]
    );
}

#[tokio::test]
async fn a_steer_during_the_last_answer_makes_one_more_step() {
    let mut rig = Rig::new(Vec::new()).await;
    let reached = Arc::new(Notify::new());
    let mut answer = text("First.");
    let hold = Arc::clone(&reached);
    answer.insert(2, Play::Hold(hold));
    rig.model.push(answer);
    rig.model.push(text("Second."));
    rig.prompt("go");
    rig.model.held.notified().await;
    steer(&rig, "and this");
    // The mailbox is read before the stream goes on.
    rig.agent.status().await.unwrap();
    reached.notify_one();
    let lines = until_ended(&mut rig, &["go", "and this"]).await;
    assert_eq!(
        of(&lines, &["text", "joined", "end"]),
        [
            "text answer-1-1-1 First.",
            "joined and this",
            "text answer-1-2-1 Second.",
            "end go EndTurn",
            "end and this EndTurn"
        ]
    );
}

#[tokio::test]
async fn a_steer_of_an_idle_agent_begins_a_turn_and_an_injection_does_not() {
    let mut rig = Rig::new(Vec::new()).await;
    rig.agent.inject(context("note")).unwrap();
    rig.agent.idle().await;
    assert!(rig.model.requests().is_empty());
    rig.model.push(text("Fine."));
    steer(&rig, "go");
    assert_eq!(rig.until_end("go").await.1, TurnOutcome::EndTurn);
    assert_eq!(rig.model.requests(), ["system\nuser: note\nuser: go"]);
}

#[tokio::test]
async fn a_turn_begins_with_all_that_waits_for_a_step_and_one_prompt() {
    let (tool, started, _) = gate();
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "gate", "{}")]));
    rig.model.push(text("B."));
    rig.model.push(text("C."));
    rig.prompt("a");
    started.notified().await;
    rig.prompt("b");
    rig.prompt("c");
    steer(&rig, "s");
    rig.agent.inject(context("note")).unwrap();
    rig.agent.status().await.unwrap();
    rig.agent.cancel_turn();
    let lines = until_ended(&mut rig, &["a", "b", "c", "s"]).await;
    let ends = ["end a Cancelled", "end b EndTurn", "end s EndTurn", "end c EndTurn"];
    assert_eq!(of(&lines, &["end", "joined"]), ends);
    let requests = rig.model.requests();
    assert!(requests[1].ends_with("user: s\nuser: note\nuser: b"), "{}", requests[1]);
    assert!(requests[2].ends_with("assistant: B.\nuser: c"), "{}", requests[2]);
}

#[tokio::test]
async fn a_cancel_takes_back_what_waits_and_leaves_what_comes_after() {
    let (tool, started, _) = gate();
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "gate", "{}")]));
    rig.model.push(text("After."));
    rig.prompt("a");
    started.notified().await;
    rig.prompt("b");
    steer(&rig, "s");
    rig.agent.inject(context("note")).unwrap();
    rig.agent.cancel();
    // The cancelled turn has not ended yet; a prompt that comes now is latched.
    rig.prompt("after");
    let lines = until_ended(&mut rig, &["a", "b", "s", "after"]).await;
    let ends = ["end a Cancelled", "end b Cancelled", "end s Cancelled", "end after EndTurn"];
    assert_eq!(of(&lines, &["end"]), ends);
    assert!(rig.model.requests()[1].ends_with("user: note\nuser: after"));
    assert_eq!(rig.model.requests().len(), 2);
}

#[tokio::test]
async fn one_prompt_can_be_taken_back_alone() {
    let (tool, started, go) = gate();
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "gate", "{}")]));
    rig.model.push(text("A."));
    rig.model.push(text("C."));
    rig.prompt("a");
    started.notified().await;
    rig.prompt("b");
    rig.prompt("c");
    rig.agent.withdraw(&MessageId::new("b"));
    // It need not wait for the turn that runs.
    assert_eq!(rig.until_end("b").await.1, TurnOutcome::Cancelled);
    go.notify_one();
    let lines = until_ended(&mut rig, &["a", "c"]).await;
    assert_eq!(of(&lines, &["end"]), ["end a EndTurn", "end c EndTurn"]);
    rig.agent.withdraw(&MessageId::new("a"));
    rig.model.push(calls(&[("c2", "gate", "{}")]));
    rig.prompt("d");
    started.notified().await;
    rig.agent.withdraw(&MessageId::new("d"));
    assert_eq!(rig.until_end("d").await.1, TurnOutcome::Cancelled);
}

#[tokio::test]
async fn idle_is_only_reached_when_nothing_is_handed_over_any_more() {
    let (tool, started, go) = gate();
    let mut rig = Rig::new(vec![tool]).await;
    rig.model.push(calls(&[("c1", "gate", "{}")]));
    rig.model.push(text("A."));
    let hold = Arc::new(Notify::new());
    let mut answer = text("B.");
    answer.insert(0, Play::Hold(Arc::clone(&hold)));
    rig.model.push(answer);
    rig.prompt("a");
    started.notified().await;
    let running = Phase::Running { turn: TurnNumber(1), step: StepNumber(1) };
    assert_eq!(rig.agent.phase(), running);
    rig.prompt("b");
    let agent = Arc::clone(&rig.agent);
    let idle = rig.scope.tasks().spawn(async move {
        agent.idle().await;
        agent.phase()
    });
    go.notify_one();
    until_ended(&mut rig, &["a"]).await;
    rig.model.held.notified().await;
    assert!(!idle.is_finished());
    hold.notify_one();
    until_ended(&mut rig, &["b"]).await;
    assert_eq!(idle.await.unwrap(), Phase::Idle);
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| *kind == "turn/end completed").count(), 2);
    rig.agent.idle().await;
}

#[tokio::test]
async fn a_replay_shows_what_was_said_and_never_sent() {
    let reject = on::<PreStep>(|_, _| {
        Box::pin(async { StepDecision::Reject { message: "Not today.".to_owned(), limit: false } })
    });
    let extra = Extra::new(move |setup| setup.hook::<PreStep>(Arc::clone(&reject)));
    let mut rig = Rig::start(Setting { extra, ..Setting::default() }).await;
    rig.prompt("cancelled");
    rig.agent.cancel();
    rig.run("blocked").await;
    rig.agent.inject(context("note")).unwrap();
    rig.agent.status().await.unwrap();
    let log = rig.log().await;
    let shown: Vec<_> = replay(&log).iter().map(line).collect();
    expect![[r#"
        [
            "user cancelled",
            "notice This message was not sent: it was cancelled before its turn came.",
            "title blocked",
            "user blocked",
            "notice This message was not sent: its turn ended before the model was asked.",
            "notice This turn was stopped.",
        ]
    "#]]
    .assert_debug_eq(&shown);
}
