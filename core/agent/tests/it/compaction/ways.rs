//! Every way in which it can fail leaves the conversation as it was, says so, and comes to an end.

use super::*;

fn ends(session: &Session) -> Vec<String> {
    let end = |event: &std::sync::Arc<bridle_session::Event>| match &event.data {
        EventData::CompactionEnd(end) => {
            let outcome = serde_json::to_value(&end.outcome).unwrap();
            Some(outcome["kind"].as_str().unwrap().to_owned())
        }
        _ => None,
    };
    session.events().iter().filter_map(end).collect()
}

/// The surface of a conversation with these three prompts that nothing was taken from.
const WHOLE: [&str; 9] =
    ["system", "user", "assistant", "user", "assistant", "user", "assistant", "user", "assistant"];

async fn goes_on_whole(mut rig: Rig, tries: usize, why: &str) {
    rig.model.push(answer(790, "Done."));
    let (lines, outcome) = rig.run("fourth").await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    let told = told(&lines).join("\n");
    assert_eq!(told.matches("failed: ").count(), tries, "{told}");
    assert!(told.contains(why), "{told}");
    let session = rig.log().await;
    assert_eq!(ends(&session), vec!["failed"; tries]);
    assert_eq!(surface(&session), WHOLE);
    let log = kinds(&session);
    assert_eq!(log.iter().filter(|kind| kind.starts_with("request/header")).count(), 1, "{log:#?}");
}

#[tokio::test]
async fn a_provider_that_fails_twice() {
    let rig = nearly_full().await;
    for _ in 0..2 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Server))]);
    }
    goes_on_whole(rig, 2, "scripted server").await;
}

#[tokio::test]
async fn a_provider_that_refuses_the_key_is_asked_once() {
    let rig = nearly_full().await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::Auth))]);
    goes_on_whole(rig, 1, "scripted auth").await;
}

/// B115: a summary as long as what it stands for helps nobody, and is not asked for without end.
#[tokio::test]
async fn summaries_that_are_as_long_as_the_conversation() {
    let rig = nearly_full().await;
    for _ in 0..2 {
        rig.model.push(answer(800, &"z".repeat(4 * LONG)));
    }
    goes_on_whole(rig, 2, "hardly shorter").await;
}

#[tokio::test]
async fn summaries_without_a_word() {
    let rig = nearly_full().await;
    rig.model.push(answer(800, "  "));
    rig.model.push(calls(&[("c1", "look", "{}")]));
    goes_on_whole(rig, 2, "tools were called in its place").await;
}

#[tokio::test]
async fn summaries_that_are_cut_off() {
    let rig = nearly_full().await;
    for _ in 0..2 {
        let mut cut = answer(800, "Half a summ");
        cut.pop();
        cut.push(Play::Chunk(Chunk::Stop(StopReason::MaxTokens)));
        rig.model.push(cut);
    }
    goes_on_whole(rig, 2, "cut off").await;
}

/// What is said before a call is no summary, but what is about to be looked at.
#[tokio::test]
async fn summaries_that_go_on_to_a_call() {
    let rig = nearly_full().await;
    for _ in 0..2 {
        let mut plays = text_block(0, "Let me look at the file first.");
        plays.extend(calls(&[("c1", "look", "{}")]).into_iter().skip(1).map(|play| match play {
            Play::Chunk(Chunk::BlockStart { kind, .. }) => {
                Play::Chunk(Chunk::BlockStart { index: 1, kind })
            }
            Play::Chunk(Chunk::BlockEnd { block, .. }) => {
                Play::Chunk(Chunk::BlockEnd { index: 1, block })
            }
            play => play,
        }));
        rig.model.push(plays);
    }
    goes_on_whole(rig, 2, "tools were called in its place").await;
}

/// A person who asks for it waits for a provider that is overloaded as they would for an answer.
#[tokio::test]
async fn a_provider_that_is_overloaded_for_a_while_when_a_person_asks() {
    let mut rig = nearly_full().await;
    for _ in 0..2 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::Overloaded))]);
    }
    rig.model.push(answer(800, "Notes."));
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    let (lines, outcome) = rig.until_end("c").await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    assert_eq!(ends(&rig.log().await), ["failed", "failed", "compacted"]);
}

/// A request for a summary that its provider refuses is as large as the conversation: it is not sent
/// again with every prompt.
#[tokio::test]
async fn summaries_that_a_provider_refuses_are_not_asked_for_with_each_prompt() {
    let mut rig = nearly_full().await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::InvalidRequest))]);
    for number in 0..3 {
        rig.model.push(answer(790, "Done."));
        let (lines, outcome) = rig.run(&format!("more {number}")).await;
        assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    }
    assert_eq!(ends(&rig.log().await), ["failed"]);
}

#[tokio::test]
async fn an_adapter_that_panics() {
    let rig = nearly_full().await;
    for _ in 0..2 {
        rig.model.push(vec![Play::Panic]);
    }
    goes_on_whole(rig, 2, "failed inside Bridle").await;
}

#[tokio::test]
async fn a_second_try_that_succeeds_says_what_was_wrong() {
    let mut rig = nearly_full().await;
    rig.model.push(answer(800, &"z".repeat(4 * LONG)));
    rig.model.push(answer(800, "Short notes."));
    rig.model.push(answer(200, "Done."));
    rig.run("fourth").await;
    let requests = rig.model.requests();
    let again = &requests[requests.len() - 2];
    assert!(again.contains("This was asked before, and the summary was of no use"), "{again}");
    assert!(last(&rig).contains("Short notes."));
    assert_eq!(ends(&rig.log().await), ["failed", "compacted"]);
}

#[tokio::test]
async fn a_cancel_while_it_is_written_leaves_everything_as_it_was() {
    let mut rig = nearly_full().await;
    let reached = Arc::new(tokio::sync::Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("fourth");
    reached.notified().await;
    rig.agent.cancel();
    let (lines, outcome) = rig.until_end("fourth").await;
    assert_eq!(outcome, TurnOutcome::Cancelled);
    assert!(told(&lines)[1].ends_with("cancelled"), "{lines:?}");
    let session = rig.log().await;
    assert_eq!(ends(&session), ["cancelled"]);
    assert!(session.repair().is_empty(), "the log is at rest");
    assert_eq!(surface(&session), WHOLE[..7]);
}

#[tokio::test]
async fn a_cancel_of_one_that_a_person_asked_for() {
    let mut rig = nearly_full().await;
    let reached = Arc::new(tokio::sync::Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    reached.notified().await;
    rig.agent.cancel();
    assert_eq!(rig.until_end("c").await.1, TurnOutcome::Cancelled);
    rig.model.push(answer(800, "Notes."));
    rig.model.push(answer(200, "Done."));
    assert_eq!(rig.run("on").await.1, TurnOutcome::EndTurn);
    assert_eq!(ends(&rig.log().await), ["cancelled", "compacted"]);
}

/// One that a person asked for and that fails is a failure of what they asked for.
#[tokio::test]
async fn a_person_is_told_that_it_failed() {
    let mut rig = nearly_full().await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::Billing))]);
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    let (_, outcome) = rig.until_end("c").await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert_eq!(failure.code, "billing");
}

/// A process that ends in the middle of it leaves a log that says so, and the conversation whole.
#[tokio::test]
async fn a_process_that_dies_in_the_middle() {
    let rig = nearly_full().await;
    let reached = Arc::new(tokio::sync::Notify::new());
    rig.model.push(vec![Play::Hang(Arc::clone(&reached))]);
    rig.prompt("fourth");
    reached.notified().await;
    let stored = rig.stored();
    let mut rig = Rig::over_with(stored, setting(Vec::new())).await;
    rig.model.push(answer(800, "Notes."));
    rig.model.push(answer(200, "Done."));
    assert_eq!(rig.run("fifth").await.1, TurnOutcome::EndTurn);
    assert_eq!(ends(&rig.log().await), ["interrupted", "compacted"]);
}

/// The provider counts otherwise than expected: the request is shortened and sent again.
#[tokio::test]
async fn a_request_that_is_refused_as_too_long_is_sent_again_shorter() {
    let mut rig = Rig::start(setting(Vec::new())).await;
    for (word, input) in [("first", 150), ("second", 450)] {
        rig.model.push(answer(input, &long("said")));
        rig.run(&long(word)).await;
    }
    rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
    rig.model.push(answer(300, "Notes."));
    rig.model.push(answer(200, "Done."));
    let (lines, outcome) = rig.run("third").await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    assert!(told(&lines)[1].contains("summarised"), "{lines:?}");
    let then = last(&rig);
    assert!(then.contains("Notes.") && then.ends_with("user: third"), "{then}");
}

/// A summary request that is too long itself is made of the newest part.
#[tokio::test]
async fn a_summary_request_that_is_too_long_is_cut_to_fit() {
    let mut rig = nearly_full().await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
    rig.model.push(answer(500, "Notes of the newer part."));
    rig.model.push(answer(200, "Done."));
    rig.run(&long("fourth")).await;
    let requests = rig.model.requests();
    let cut = shortened(&requests[requests.len() - 2]);
    assert!(!cut.contains("user: first"), "{cut}");
    let then = last(&rig);
    assert!(then.contains("the oldest part was too long to be read"), "{then}");
    assert!(then.contains("- first x"), "what the person said is not lost with it: {then}");
    let session = rig.log().await;
    let omits = session.events().iter().filter_map(|event| match &event.data {
        EventData::CompactionStart(start) => Some(start.omits.is_some()),
        _ => None,
    });
    assert_eq!(omits.collect::<Vec<_>>(), [false, true], "and the log says so");
}

/// B115: input that no window takes ends its turn, and does not stay to break every later one: neither
/// at the beginning nor in a conversation that is as good as it was.
#[tokio::test]
async fn a_prompt_that_is_too_long_for_the_window_is_withdrawn() {
    for (is_good, auto) in [(false, true), (true, true), (false, false), (true, false)] {
        let row = Row::new("compaction").with(json!({ "auto": auto }));
        let mut rig = Rig::start(Setting { rows: vec![row], ..setting(Vec::new()) }).await;
        if is_good {
            rig.model.push(answer(150, &long("said")));
            rig.run(&long("first")).await;
        }
        rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
        let (lines, outcome) = rig.run(&"w".repeat(10 * LONG)).await;
        let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
        assert_eq!(failure.code, "context-overflow");
        assert!(failure.message.contains("does not fit, and is withdrawn"), "{}", failure.message);
        assert!(told(&lines).is_empty(), "the good part is not touched: {lines:?}");
        rig.model.push(answer(200, "Fine."));
        assert_eq!(rig.run("next").await.1, TurnOutcome::EndTurn);
        let then = last(&rig);
        assert!(!then.contains("www") && then.ends_with("\nuser: next"), "{then}");
        assert!(then.contains("was too long for the window"), "{then}");
        assert_eq!(then.contains("user: first"), is_good, "{then}");
    }
}

/// Whoever has switched it off is told what there is.
#[tokio::test]
async fn a_request_that_is_too_long_where_nothing_happens_by_itself() {
    let row = Row::new("compaction").with(json!({"auto": false}));
    let mut rig = Rig::start(Setting { rows: vec![row], ..setting(Vec::new()) }).await;
    fill_up(&mut rig).await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
    let (lines, outcome) = rig.run("fourth").await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.contains("`/compact` shortens"), "{}", failure.message);
    assert!(told(&lines).is_empty(), "{lines:?}");
    rig.model.push(answer(800, "Notes."));
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    assert_eq!(rig.until_end("c").await.1, TurnOutcome::EndTurn);
    rig.model.push(answer(200, "Done."));
    assert_eq!(rig.run("fifth").await.1, TurnOutcome::EndTurn);
    assert!(last(&rig).contains("user: fourth"), "what was asked is still there");
}

/// Input that is not too long by itself, behind a conversation that cannot be made shorter.
#[tokio::test]
async fn a_prompt_for_which_there_is_no_room_is_withdrawn() {
    let mut rig = Rig::start(setting(Vec::new())).await;
    rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
    let (_, outcome) = rig.run(&long("first")).await;
    let TurnOutcome::Failed(failure) = outcome else { panic!("{outcome:?}") };
    assert!(failure.message.contains("does not fit, and is withdrawn"), "{}", failure.message);
    rig.model.push(answer(200, "Fine."));
    assert_eq!(rig.run("next").await.1, TurnOutcome::EndTurn);
}

/// Unread results that make the conversation too long stay in any case, so the summary is written
/// without them, at the first try.
#[tokio::test]
async fn a_summary_is_written_without_what_is_too_much_and_stays() {
    use crate::rig::TestTool;
    let big =
        |_| -> futures::future::BoxFuture<'static, _> { Box::pin(async { Ok("y".repeat(3_000)) }) };
    let tool = TestTool::new("look", bridle_agent::Access::ReadInside("/ws".into()), big);
    let mut rig = Rig::start(setting(vec![tool])).await;
    for (word, input) in [("first", 150), ("second", 450)] {
        rig.model.push(answer(input, &long("said")));
        rig.run(&long(word)).await;
    }
    rig.model.push(calls(&[("c1", "look", "{}")]));
    rig.model.push(answer(650, "Notes."));
    rig.model.push(answer(900, "Done."));
    let (lines, outcome) = rig.run("third").await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "{lines:?}");
    let requests = rig.model.requests();
    let asked = &requests[requests.len() - 2];
    assert!(asked.contains("user: first") && !asked.contains("yyy"), "{asked}");
    assert!(last(&rig).contains("result c1: yyy"), "{}", last(&rig));
    assert!(!last(&rig).contains("the oldest part was too long"), "{}", last(&rig));
    assert_eq!(ends(&rig.log().await), ["compacted"]);
}

/// A provider that finds everything too long is not asked without end.
#[tokio::test]
async fn a_provider_that_finds_everything_too_long() {
    let mut rig = nearly_full().await;
    for _ in 0..12 {
        rig.model.push(vec![Play::Fail(failure(FailureCode::ContextOverflow))]);
    }
    let before = rig.model.requests().len();
    let (_, outcome) = rig.run("fourth").await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    let asked = rig.model.requests().len() - before;
    assert!(asked <= 4, "{asked} requests");
    let session = rig.log().await;
    assert_eq!(surface(&session)[..8], WHOLE[..8]);
}

/// Panics around the requests whose numbers it is given.
struct Panics {
    seen: std::sync::atomic::AtomicUsize,
    on: Vec<usize>,
}

#[async_trait::async_trait]
impl bridle_compose::Around<bridle_agent::OnStream> for Panics {
    async fn around(
        &self,
        input: bridle_agent::StreamInput,
        next: bridle_compose::Next<'_, bridle_agent::OnStream>,
    ) -> futures::stream::BoxStream<'static, Result<Chunk, bridle_model::ModelFailure>> {
        let number = self.seen.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        assert!(!self.on.contains(&number), "scripted");
        next.run(input).await
    }
}

/// Whatever fails inside Bridle, the lock is taken off the conversation: the next request is one for
/// an answer again, in the turn and between the turns.
#[tokio::test]
async fn a_hook_that_panics() {
    let panics = Arc::new(Panics { seen: Default::default(), on: vec![3, 4] });
    let hook = Arc::clone(&panics);
    let extra = crate::rig::Extra::new(move |setup| {
        setup.hook::<bridle_agent::OnStream>(Arc::clone(&hook) as _)
    });
    let mut rig = Rig::start(Setting { extra, ..setting(Vec::new()) }).await;
    fill_up(&mut rig).await;
    let (_, outcome) = rig.run("fourth").await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    rig.agent.compact(MessageId::new("c"), String::new()).unwrap();
    let (_, outcome) = rig.until_end("c").await;
    assert!(matches!(outcome, TurnOutcome::Failed(_)), "{outcome:?}");
    rig.model.push(answer(800, "Notes."));
    rig.model.push(answer(200, "Done."));
    assert_eq!(rig.run("fifth").await.1, TurnOutcome::EndTurn);
    assert!(last(&rig).ends_with("user: fifth"), "{}", last(&rig));
    assert_eq!(ends(&rig.log().await), ["interrupted", "interrupted", "compacted"]);
}
