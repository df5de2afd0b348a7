//! Shortening the conversation: when, what goes, what stays, and what becomes of every way in which it
//! can fail. The window of the scripted route has 1,000 tokens, its answers 100.

mod ways;

use std::sync::Arc;

use bridle_agent::{AgentUpdate, Compaction, Tool, TurnOutcome};
use bridle_compose::Row;
use bridle_model::{Chunk, FailureCode, StopReason};
use bridle_session::{
    EventData, Message, MessageId, Session, TodoItem, TodoStatus, TodoWrite, Usage,
};
use serde_json::json;

use crate::rig::{Play, Rig, Setting, calls, failure, kinds, text_block};

/// So many bytes are about 150 tokens of prose.
const LONG: usize = 450;

/// An answer to a request of so many tokens.
fn answer(input: u64, said: &str) -> Vec<Play> {
    let output = (said.len() as u64 / 3).max(5);
    let usage = Usage { input, output, ..Usage::default() };
    let mut plays = text_block(0, said);
    plays.push(Play::Chunk(Chunk::Usage(usage)));
    plays.push(Play::Chunk(Chunk::Stop(StopReason::EndTurn)));
    plays
}

fn long(word: &str) -> String {
    format!("{word} {}", "x".repeat(LONG))
}

fn setting(tools: Vec<Arc<dyn Tool>>) -> Setting {
    Setting { tools, rows: vec![Row::new("compaction")], max_steps: 50, ..Setting::default() }
}

/// A session in which one long thing was said, and the next prompt is too much.
async fn nearly_full() -> Rig {
    let mut rig = Rig::start(setting(Vec::new())).await;
    fill_up(&mut rig).await;
    rig
}

async fn fill_up(rig: &mut Rig) {
    for (word, input) in [("first", 150), ("second", 450)] {
        rig.model.push(answer(input, &long("said")));
        rig.run(&long(word)).await;
    }
    rig.model.push(answer(772, "Fine."));
    rig.run(&format!("third {}", "x".repeat(300))).await;
}

/// The newest request, long runs of `x` cut.
fn last(rig: &Rig) -> String {
    shortened(&rig.model.requests().pop().unwrap())
}

fn shortened(text: &str) -> String {
    text.replace(&"x".repeat(LONG), "…").replace(&"x".repeat(300), "…")
}

/// What stands on the surface of a log, one line a message.
fn surface(session: &Session) -> Vec<&'static str> {
    let word = |message: Message<'_>| match message {
        Message::System(_) => "system",
        Message::User(user) if matches!(user.source, bridle_session::UserSource::Human) => "user",
        Message::User(_) => "context",
        Message::Developer(_) => "developer",
        Message::Assistant(_) => "assistant",
        Message::ToolResult(_) => "result",
    };
    session.projection().messages().map(word).collect()
}

/// The compactions among the lines of updates.
fn told(lines: &[String]) -> Vec<&str> {
    lines.iter().map(String::as_str).filter(|line| line.starts_with("compaction-")).collect()
}

#[tokio::test]
async fn a_conversation_is_summarised_before_a_request_that_would_be_too_large() {
    let mut rig = nearly_full().await;
    rig.model.push(answer(800, "They want a parser."));
    rig.model.push(answer(200, "Done."));
    let (lines, outcome) = rig.run("fourth").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    let told = told(&lines);
    assert!(told[0].contains("began at 777/1000"), "{told:?}");
    assert!(told[1].contains("summarised 777 -> "), "{told:?}");
    let (_, left) = told[1].split_once("-> ").unwrap();
    assert!(lines.contains(&format!("usage {left}/1000")), "the meter follows: {lines:?}");
    let requests = rig.model.requests();
    let asked = shortened(&requests[requests.len() - 2]);
    let before = shortened(&requests[requests.len() - 3]);
    assert!(asked.starts_with(&format!("{before}\nassistant: Fine.\nuser: <context")), "{asked}");
    assert!(asked.contains("The conversation has become long"), "{asked}");
    let then = last(&rig);
    assert!(then.starts_with("system\nuser: <context source=\"compaction\">"), "{then}");
    assert!(then.contains("## Your notes\nThey want a parser."), "{then}");
    assert!(then.ends_with("</context>\nuser: third …\nassistant: Fine.\nuser: fourth"), "{then}");
    let session = rig.log().await;
    assert_eq!(session.state().context_size.tokens(), 205, "the next answer measures anew");
    let log = kinds(&session);
    assert!(log.contains(&"request/header 2 compacted".to_owned()), "{log:#?}");
    assert_eq!(log.iter().filter(|kind| kind.starts_with("request/header")).count(), 2, "{log:#?}");
    let usage = &session.state().summary.usage;
    assert_eq!((usage.compaction.input, usage.compaction.output), (800, 6), "counted apart");
    let answers = 150 + 450 + 772 + 200;
    assert_eq!(usage.total.input, answers + 800, "and in the sum");
}

/// What the person said, the list and the goal do not depend on how well a model summarises.
#[tokio::test]
async fn what_a_person_said_and_the_open_list_are_taken_from_the_log() {
    let mut rig = nearly_full().await;
    let item = |text: &str, status| TodoItem { text: text.into(), status };
    let items = vec![item("parse", TodoStatus::Completed), item("print", TodoStatus::InProgress)];
    let session = {
        let mut session = rig.log().await;
        session
            .append(bridle_session::Draft::new(TodoWrite { items }), session.last_time())
            .unwrap();
        session
    };
    let mut rig = Rig::over_with(session, setting(Vec::new())).await;
    rig.model.push(answer(800, "Nothing of use."));
    rig.model.push(answer(200, "Done."));
    rig.run("fourth").await;
    let then = last(&rig);
    assert!(
        then.contains("in their words; it holds unless they took it back\n- first x"),
        "{then}"
    );
    assert!(
        then.contains("## The to-do list as it stands\n- [x] parse\n- [in progress] print\n"),
        "{then}"
    );
}

/// A summary of a summary: nothing that was taken from the log is lost on the way.
#[tokio::test]
async fn the_second_compaction_still_holds_the_first_prompt() {
    let mut rig = nearly_full().await;
    for round in 0..3 {
        rig.model.push(answer(800, &format!("Notes of round {round}.")));
        rig.model.push(answer(500, &long("said")));
        rig.run(&long("more")).await;
    }
    let then = last(&rig);
    assert!(then.contains("- first x"), "{then}");
    assert!(then.contains("Notes of round 2."), "{then}");
    assert!(
        !then.contains("Notes of round 0."),
        "an old summary is not kept beside the new: {then}"
    );
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| *kind == "compaction/end").count(), 3, "{log:#?}");
}

#[tokio::test]
async fn a_person_shortens_a_conversation_and_says_what_matters() {
    let mut rig = Rig::start(setting(Vec::new())).await;
    for (word, input) in [("first", 150), ("second", 450)] {
        rig.model.push(answer(input, &long("said")));
        rig.run(&long(word)).await;
    }
    rig.model.push(answer(400, "The parser is half done."));
    rig.agent.compact(MessageId::new("c"), "the parser".to_owned()).unwrap();
    let (lines, outcome) = rig.until_end("c").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(told(&lines)[1].contains("summarised"), "{lines:?}");
    assert!(
        last(&rig).contains("The user asks you to dwell on this: the parser"),
        "{}",
        last(&rig)
    );
    rig.agent.compact(MessageId::new("again"), String::new()).unwrap();
    let (lines, outcome) = rig.until_end("again").await;
    assert_eq!(outcome, TurnOutcome::EndTurn);
    assert!(told(&lines).is_empty() && lines[0].contains("nothing to shorten"), "{lines:?}");
    rig.model.push(answer(200, "Done."));
    rig.run("go on").await;
    assert!(last(&rig).contains("The parser is half done."));
    let log = kinds(&rig.log().await);
    let turns = log.iter().filter(|kind| *kind == "turn/start").count();
    assert_eq!(turns, 3, "it is no turn: {log:#?}");
}

/// It has its place among the prompts, and a cancel reaches it as it reaches them.
#[tokio::test]
async fn it_waits_for_what_was_sent_before_it_and_is_cancelled_like_a_prompt() {
    let mut rig = nearly_full().await;
    let reached = Arc::new(tokio::sync::Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("a");
    reached.notified().await;
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    rig.prompt("b");
    rig.agent.cancel();
    for id in ["a", "c", "b"] {
        assert_eq!(rig.until_end(id).await.1, TurnOutcome::Cancelled, "{id}");
    }
    let log = kinds(&rig.log().await);
    assert_eq!(log.iter().filter(|kind| *kind == "compaction/start").count(), 1, "{log:#?}");
}

/// A request that is known to be too long is worth a summary also where that gains less than one is asked
/// for otherwise.
#[tokio::test]
async fn a_request_that_would_be_refused_is_worth_a_small_gain() {
    let row = Row::new("compaction").with(json!({"tail": 0.05}));
    for (fits, length) in [(true, 850), (false, 1_000)] {
        let mut rig = Rig::start(Setting { rows: vec![row.clone()], ..Setting::default() }).await;
        rig.model.push(answer(600, "Fine."));
        rig.run(&"x".repeat(530)).await;
        if !fits {
            rig.model.push(answer(600, "N."));
        }
        rig.model.push(answer(300, "Done."));
        let (lines, outcome) = rig.run(&"y".repeat(length)).await;
        assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
        assert_eq!(told(&lines).is_empty(), fits, "{lines:?}");
        assert_eq!(last(&rig).contains("N."), !fits, "{}", last(&rig));
    }
}

/// A route on which what stays is as much as what may be there is refused before anything is sent.
#[tokio::test]
async fn a_window_without_room_is_refused_at_the_first_request() {
    let row = Row::new("compaction").with(json!({"tail": 1.0}));
    let mut rig = Rig::start(Setting { rows: vec![row], ..Setting::default() }).await;
    let (_, outcome) = rig.run("a").await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.contains("has no room to work in"), "{}", failure.message);
    assert!(rig.model.requests().is_empty());
}

#[tokio::test]
async fn it_does_not_happen_by_itself_where_the_user_does_not_want_it() {
    let row = Row::new("compaction").with(json!({"auto": false}));
    let mut rig = Rig::start(Setting { rows: vec![row], ..Setting::default() }).await;
    rig.model.push(answer(990, &long("said")));
    rig.run(&long("first")).await;
    rig.model.push(answer(995, "Fine."));
    let (lines, _) = rig.run("second").await;
    assert!(told(&lines).is_empty(), "{lines:?}");
}

/// Old results lose their middle first, where that is enough: no model is asked, no word is lost.
#[tokio::test]
async fn large_old_results_are_cut_where_that_is_enough() {
    use crate::rig::TestTool;
    let big = |_| -> futures::future::BoxFuture<'static, _> {
        Box::pin(async { Ok(format!("BEGIN{}END", "y".repeat(20_000))) })
    };
    let tool = TestTool::new("look", bridle_agent::Access::ReadInside("/ws".into()), big);
    let mut rig = Rig::start(setting(vec![tool])).await;
    rig.model.push(calls(&[("c1", "look", "{}")]));
    // The provider counts far less than the estimate.
    rig.model.push(answer(700, "I see."));
    rig.run("look").await;
    rig.model.push(answer(780, "Fine."));
    rig.run("and").await;
    rig.model.push(answer(100, "Done."));
    let (lines, _) = rig.run("so").await;
    assert!(told(&lines)[1].contains("pruned 785 -> "), "{lines:?}");
    assert!(rig.model.requests().len() == 4, "no summary was asked for");
    let then = last(&rig);
    assert!(then.contains("result c1: BEGINy") && then.contains("yEND\n"), "{then}");
    assert!(
        then.contains("bytes were left out here when the conversation was shortened"),
        "{then}"
    );
    let session = rig.log().await;
    let full = session.events().iter().any(|event| {
        matches!(&event.data,
        EventData::ToolResult(result) if format!("{:?}", result.content).len() > 20_000)
    });
    assert!(full, "the log keeps all of it");
}

/// What was taken off the surface is told again by whoever said it.
#[tokio::test]
async fn an_answer_that_fills_the_window_is_gone_on_with_in_a_shorter_conversation() {
    let mut rig = nearly_full().await;
    let mut cut = answer(700, "Half an ans");
    cut.pop();
    cut.push(Play::Chunk(Chunk::Stop(StopReason::ContextFull)));
    // The prompt that is too much is summarised first, and the answer to it fills the window again.
    rig.model.push(answer(800, "Notes."));
    rig.model.push(cut);
    rig.model.push(answer(800, "Notes again."));
    rig.model.push(answer(200, "wer."));
    let (lines, outcome) = rig.run(&long("fourth")).await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    assert!(last(&rig).contains("Your last answer was cut off because the window was full"));
}

#[tokio::test]
async fn a_replay_shows_where_the_model_reads_a_summary() {
    let mut rig = nearly_full().await;
    rig.model.push(answer(800, "They want a parser."));
    rig.model.push(answer(200, "Done."));
    let (live, _) = rig.run("fourth").await;
    rig.agent.replay().unwrap();
    let replay = loop {
        if let Some(AgentUpdate::Replay(replay)) = rig.updates.recv().await {
            break replay;
        }
    };
    let lines: Vec<_> = replay.iter().map(crate::rig::line).collect();
    assert_eq!(told(&lines).len(), 1, "{lines:?}");
    assert_eq!(told(&lines)[0], told(&live)[1], "the same as live");
    assert!(
        lines.iter().any(|line| line.starts_with("user first")),
        "nothing is erased: {lines:?}"
    );
    let summary = replay.iter().find_map(|update| match update {
        AgentUpdate::Compaction(_, Compaction::Done { summary, .. }) => summary.clone(),
        _ => None,
    });
    assert!(summary.unwrap().contains("They want a parser."));
}
