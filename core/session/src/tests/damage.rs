//! Logs that lost events: the rest is kept, what a model reads is paired, and they go on.

use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::repair::repaired;
use super::replay::{assert_same, draft, seed, surface_seqs};
use super::sample::*;
use crate::*;

const CASES: u32 = 1_000;

fn events(session: &Session) -> Vec<Event> {
    session.events().iter().map(|event| (**event).clone()).collect()
}

/// The session as it is read when these events are lost.
fn without(session: &Session, lost: impl Fn(u64) -> bool) -> Session {
    let kept = events(session).into_iter().filter(|event| !lost(event.seq.0));
    Session::replay(header(), kept).unwrap()
}

/// The surface as a model reads it, answers with their blocks.
fn shown(session: &Session) -> String {
    let block = |timed: &TimedBlock| match &timed.block {
        Block::Text { text } => text.clone(),
        Block::ToolCall { id, .. } => format!("<{id}>"),
        other => format!("{other:?}"),
    };
    let projection = session.projection();
    let lines = projection.messages().zip(surface(session)).map(|(message, word)| {
        let Message::Assistant(answer) = message else { return word };
        format!("{word} {}", answer.blocks.iter().map(block).collect::<Vec<_>>().join(" "))
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// 0 system, 1 user, 2 turn, 3 step, 4 answer with calls, 5–8 calls and results, 9 and 10 ends,
/// 11 turn, 12 user, 13 step, 14 answer, 15 and 16 ends.
fn history() -> Session {
    session([
        system("s"),
        user("u"),
        turn_start(1),
        step_start(1, 1),
        calls("a", &["c1", "c2"]),
        taken_up("c1"),
        result("c1", "r1"),
        taken_up("c2"),
        result("c2", "r2"),
        step_end(1, 1),
        turn_end(1),
        turn_start(2),
        user("v"),
        step_start(2, 1),
        answer("b"),
        step_end(2, 1),
        turn_end(2),
    ])
}

#[test]
fn lost_events_are_one_message_where_they_stood() {
    let damaged = without(&history(), |seq| (10..=13).contains(&seq));
    expect![[r#"
        system:s
        user:u
        answer:a <c1> <c2>
        result:c1:r1
        result:c2:r2
        user:[Events 10–13 of this session were damaged on the disk and are lost. What was said and done there is unknown: look at the present state before you rely on it.]
        answer:b done"#]]
    .assert_eq(&shown(&damaged));
    let state = damaged.state();
    assert_eq!(
        (state.turns.turn, state.turns.turn_open, state.turns.step_open),
        (TurnNumber(2), false, false)
    );
    assert_eq!(damaged.len(), EventCount(17));
}

#[test]
fn results_without_a_call_and_calls_without_a_result_are_text() {
    let no_call = without(&history(), |seq| seq == 4);
    expect![[r#"
        system:s
        user:u
        user:[Event 4 of this session was damaged on the disk and is lost. What was said and done there is unknown: look at the present state before you rely on it.]
        user:[Text { text: "[The result of a call of read that was damaged:]" }, Text { text: "r1" }]
        user:[Text { text: "[The result of a call of read that was damaged:]" }, Text { text: "r2" }]
        user:v
        answer:b done"#]]
    .assert_eq(&shown(&no_call));
    let no_results = without(&history(), |seq| (5..=8).contains(&seq));
    expect![[r#"
        system:s
        user:u
        answer:a [I called read with {}. What came of it was damaged.] [I called read with {}. What came of it was damaged.]
        user:[Events 5–8 of this session were damaged on the disk and are lost. What was said and done there is unknown: look at the present state before you rely on it.]
        user:v
        answer:b done"#]]
    .assert_eq(&shown(&no_results));
    let no_second_result = without(&history(), |seq| seq == 7 || seq == 8);
    expect![[r#"
        system:s
        user:u
        answer:a [I called read with {}. What came of it was damaged.] <c1>
        result:c1:r1
        user:[Events 7–8 of this session were damaged on the disk and are lost. What was said and done there is unknown: look at the present state before you rely on it.]
        user:v
        answer:b done"#]]
    .assert_eq(&shown(&no_second_result));
    assert!(no_second_result.state().open_calls.is_empty());
}

#[test]
fn a_replacement_covers_what_remains() {
    let mut whole = history();
    append(&mut whole, replacing(user("summary"), &[1, 4, 6, 8, 12])).unwrap();
    let summary_of = |lost: &[u64]| shown(&without(&whole, |seq| lost.contains(&seq)));
    for lost in [&[4_u64][..], &[1], &[12], &[6, 7, 8], &[1, 2, 3, 4], &[0, 1], &[10, 11, 12]] {
        let said = summary_of(lost);
        assert!(said.ends_with("user:summary\nanswer:b done"), "{lost:?}: {said}");
        assert!(!said.contains("r2") && !said.contains("user:v"), "{lost:?}: {said}");
    }
    // Of the whole span nothing remains: the summary stands behind the note.
    let all = summary_of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    let words: Vec<_> = all.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!(words, ["system:s", "user:[Events", "user:summary", "answer:b"]);
}

#[test]
fn a_lost_system_message_is_put_in_front_again() {
    let mut damaged = repaired(&without(&history(), |seq| seq < 2));
    append(&mut damaged, system("t")).unwrap();
    assert_eq!(surface(&damaged)[0], "system:t");
    assert!(refusal(&damaged, system("second")).contains("a later one replaces it"));
}

#[test]
fn repair_records_each_gap_once_and_a_series_begins() {
    let mut drafts = vec![request_header(1)];
    drafts.extend([user("u"), user("v"), user("w"), request_header(1)]);
    let damaged = without(&session(drafts), |seq| seq == 1 || seq == 3);
    assert!(damaged.state().series_broken, "the header was written before the damage");
    let mut resumed = repaired(&damaged);
    let expected = expect![[r#"
        {"seq":5,"time":1005,"type":"log/gap","data":{"a":1,"b":1,"hash":""}}
        {"seq":6,"time":1005,"type":"log/gap","data":{"a":3,"b":3,"hash":""}}"#]];
    expected.assert_eq(&lines(&resumed)[3..].join("\n"));
    assert!(resumed.state().series_broken);
    append(&mut resumed, request_header(2)).unwrap();
    assert!(!resumed.state().series_broken);
    assert_same(&Session::replay(header(), events(&resumed)).unwrap(), &resumed);
}

#[test]
fn a_mode_from_before_the_damage_does_not_count() {
    let mode = |mode: &str| Draft::new(PermissionMode { mode: mode.into() });
    let session = session([mode("auto"), user("u"), user("v"), mode("ask"), user("w")]);
    assert_eq!(without(&session, |seq| seq == 1).state().modes.permission.as_deref(), Some("ask"));
    assert_eq!(without(&session, |seq| seq == 3).state().modes.permission, None);
}

#[test]
fn events_that_come_back_do_no_harm() {
    let damaged = without(&history(), |seq| seq < 5);
    let mut resumed = repaired(&damaged);
    append(&mut resumed, system("t")).unwrap();
    append(&mut resumed, replacing(user("x"), &[0, 6])).unwrap();
    // The lost bytes are restored from a copy, and the log has gone on without them.
    let back = events(&history()).into_iter().take(5);
    let all = back.chain(events(&resumed));
    let restored = Session::replay(header(), all).unwrap();
    assert_eq!(surface(&restored)[0], "system:t");
    assert!(restored.state().gaps.is_empty());
}

#[test]
fn a_call_that_comes_back_after_its_turn_was_closed_is_text() {
    let open = [turn_start(1), step_start(1, 1), user("u"), calls("a", &["c1"]), taken_up("c1")];
    let whole = session(open);
    let mut resumed = repaired(&without(&whole, |seq| seq == 3));
    append(&mut resumed, turn_start(2)).unwrap();
    append(&mut resumed, user("v")).unwrap();
    let mut all = events(&resumed);
    all.insert(3, events(&whole).remove(3));
    let restored = Session::replay(header(), all).unwrap();
    expect![[r#"
        user:u
        answer:a [I called read with {}. What came of it was damaged.]
        user:v"#]]
    .assert_eq(&shown(&restored));
}

/// Each call has its result right behind it, and no result stands alone.
pub(crate) fn assert_paired(session: &Session, context: &str) {
    let mut open: Vec<ToolCallId> = Vec::new();
    for message in session.projection().messages() {
        match message {
            Message::ToolResult(result) => {
                let due = (!open.is_empty()).then(|| open.remove(0));
                assert_eq!(due.as_ref(), Some(&result.id), "{context}\n{}", shown(session));
            }
            _ => assert!(open.is_empty(), "{context}: {open:?}\n{}", shown(session)),
        }
        if let Message::Assistant(answer) = message {
            open.extend(answer.tool_calls().map(|(id, ..)| id.clone()));
        }
    }
    assert!(open.is_empty(), "{context}: {open:?}");
}

#[test]
fn any_history_goes_on_without_any_of_its_events() {
    let seed = seed();
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let wishes = prop::collection::vec((any::<u8>(), any::<u8>(), "[a-z]{1,4}"), 10..80);
    let holes = prop::collection::vec((any::<prop::sample::Index>(), 1..6_u64), 1..4);
    let gaps = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config).run(&(wishes, holes), |(wishes, holes)| {
        let mut live = Session::new(header());
        for wish in &wishes {
            let wanted = draft(&live, wish);
            drop(append(&mut live, wanted));
        }
        let last = live.len().0.saturating_sub(1);
        let holes: Vec<_> = holes
            .into_iter()
            .map(|(start, len)| (start.index(live.events().len().max(1)) as u64, len))
            .collect();
        // What nothing follows is torn, and no gap.
        let lost =
            |seq: u64| seq != last && holes.iter().any(|(at, len)| (*at..at + len).contains(&seq));
        let damaged = without(&live, lost);
        gaps.set(gaps.get() + damaged.state().gaps.len());
        let kept = events(&live).into_iter().filter(|event| !lost(event.seq.0));
        let kept: Vec<_> = kept.map(|event| event.to_line().unwrap()).collect();
        assert_eq!(lines(&damaged), kept, "every other event is kept");

        let mut resumed = repaired(&damaged);
        assert_paired(&resumed, "after repair");
        append(&mut resumed, turn_start(damaged.state().turns.turn.0 + 1)).unwrap();
        if resumed.projection().messages().all(|message| !matches!(message, Message::System(_))) {
            append(&mut resumed, system("again")).unwrap();
        }
        append(&mut resumed, user("goes on")).unwrap();
        append(&mut resumed, calls("more", &["c0", "c1"])).unwrap();
        append(&mut resumed, result("c0", "r")).unwrap();
        append(&mut resumed, result("c1", "r")).unwrap();
        let nodes: Vec<u64> = surface_seqs(&resumed).iter().skip(1).map(|seq| seq.0).collect();
        append(&mut resumed, replacing(user("summary"), &nodes)).unwrap();
        let again = Session::replay(header(), events(&resumed)).unwrap();
        assert_same(&again, &resumed);
        // And the next damage may take the summary, or the record of the first.
        let second = without(&resumed, |seq| seq == last + 1 + (last % 4));
        assert_paired(&repaired(&second), "after the second damage");
        Ok(())
    });
    println!("seed {seed}, {CASES} histories, {} gaps", gaps.get());
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(gaps.get() > CASES as usize);
}
