//! Forks: cut at any event, at rest, and the parent is as it was.

use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::damage::assert_paired;
use super::repair::repaired;
use super::replay::{assert_same, draft, seed, surface_seqs};
use super::sample::*;
use crate::*;

const CASES: u32 = 50;

/// What the header of a fork of this session at this event says. Forks of forks get other ids.
pub(crate) fn fork_header(parent: &Session, at: Seq) -> Header {
    let generation = parent.header().id.as_str().chars().last().unwrap().to_digit(10).unwrap() + 1;
    Header {
        id: SessionId::new(format!("01980000-0000-7000-8000-00000000000{generation}")),
        created_at: UnixMillis(1_000_000),
        parent: Some(Parent { id: parent.header().id.clone(), inherited: EventCount(at.0 + 1) }),
        ..header()
    }
}

fn forked(parent: &Session, at: u64) -> Session {
    parent.fork(fork_header(parent, Seq(at)), Seq(at)).unwrap()
}

/// What a store does.
fn stored(session: &Session) -> Session {
    let events = lines(session).into_iter().map(|line| Event::from_line(&line).unwrap());
    Session::replay((**session.header()).clone(), events).unwrap()
}

/// The lines behind the first `count`.
fn behind(session: &Session, count: usize) -> String {
    lines(session).split_off(count).join("\n")
}

#[test]
fn a_fork_of_an_open_turn_closes_it_and_drops_the_queue() {
    let parent = session([
        turn_start(1),
        step_start(1, 1),
        user("u"),
        calls("a", &["c1", "c2"]),
        taken_up("c1"),
        queued(&["v"]),
        result("c1", "r1"),
        taken_up("c2"),
        result("c2", "r2"),
        step_end(1, 1),
        turn_end(1),
    ]);
    expect![[r#"
        {"seq":6,"time":1006,"type":"session/seed-end","data":{"inherited":6}}
        {"seq":7,"time":1006,"type":"tool/result","data":{"id":"c1","name":"read","content":[{"type":"text","text":"The outcome of this call is unknown here: this session was forked from another while it was under way, so its effect may be complete, partial or absent. Look at the current state before you repeat it."}],"error":"TOOL_OUTCOME_UNKNOWN"},"surface_op":"append"}
        {"seq":8,"time":1006,"type":"tool/result","data":{"id":"c2","name":"read","content":[{"type":"text","text":"This call was not run here: this session was forked from another before it began. The other session may have run it. Look at the current state before you call the tool again."}],"error":"TOOL_NOT_STARTED"},"surface_op":"append"}
        {"seq":9,"time":1006,"type":"step/end","data":{"turn":1,"step":1}}
        {"seq":10,"time":1006,"type":"turn/end","data":{"turn":1,"reason":{"kind":"forked"}}}
        {"seq":11,"time":1006,"type":"agent/inbox/spliced","data":{"removed":["id of v"],"reason":"discarded: fork"}}"#]]
    .assert_eq(&behind(&forked(&parent, 5), 6));
}

#[test]
fn a_fork_in_mid_stream_keeps_what_was_seen() {
    let text = |text: &str| Block::Text { text: text.into() };
    let parent = session([
        turn_start(1),
        step_start(1, 1),
        user("u"),
        piece("m", text("One"), false),
        piece("m", text(" two"), true),
        answer("m"),
    ]);
    let child = forked(&parent, 3);
    assert_eq!(surface(&child), ["user:u", "answer:m"]);
    let projection = child.projection();
    let Some(Message::Assistant(kept)) = projection.messages().last() else { panic!() };
    assert!(kept.interrupted && kept.blocks[0].block == text("One"));
}

#[test]
fn a_fork_at_rest_adds_its_boundary_only() {
    let parent = session([turn_start(1), user("u"), turn_end(1), turn_start(2)]);
    let child = forked(&parent, 2);
    expect![[r#"{"seq":3,"time":1003,"type":"session/seed-end","data":{"inherited":3}}"#]]
        .assert_eq(&behind(&child, 3));
    assert_eq!(child.state().inherited, EventCount(3));
    // What then happens in the fork is its own: after a crash its turns were not forked.
    let mut live = child;
    append(&mut live, queued(&["v"])).unwrap();
    append(&mut live, turn_start(2)).unwrap();
    let died = stored(&live);
    expect![[r#"
        {"seq":6,"time":1005,"type":"turn/end","data":{"turn":2,"reason":{"kind":"interrupted"}}}
        {"seq":7,"time":1005,"type":"agent/inbox/spliced","data":{"removed":["id of v"],"reason":"discarded: restart"}}"#]]
    .assert_eq(&behind(&repaired(&died), 6));
}

#[test]
fn compactions_and_jobs_of_the_parent_are_not_the_forks() {
    let parent = session([
        turn_start(1),
        Draft::new(compaction(CompactionTrigger::Pressure, "Summarise.")),
        Draft::new(JobStarted { id: JobId::new("j1"), title: "make".into() }),
        user("u"),
    ]);
    expect![[r#"
        {"seq":4,"time":1004,"type":"session/seed-end","data":{"inherited":4}}
        {"seq":5,"time":1004,"type":"compaction/end","data":{"outcome":{"kind":"interrupted"}}}
        {"seq":6,"time":1004,"type":"turn/end","data":{"turn":1,"reason":{"kind":"forked"}}}
        {"seq":7,"time":1004,"type":"job/ended","data":{"id":"j1","outcome":{"kind":"lost"}}}"#]]
    .assert_eq(&behind(&forked(&parent, 3), 4));
}

#[test]
fn a_compaction_whose_summary_holds_is_done_however_the_log_ends() {
    let parent = session([
        turn_start(1),
        user(&"long ".repeat(400)),
        answer("a"),
        turn_end(1),
        Draft::new(compaction(CompactionTrigger::Person, "Summarise.")),
        replacing(user("what was said"), &[1, 2]),
        Draft::new(compacted(1)),
    ]);
    // `compaction/start` says 9000 tokens; what goes is about 660, what comes 4.
    let ends = [forked(&parent, 5), repaired(&forked(&parent, 6)), forked(&parent, 4)];
    let [cut, whole, before] = ends.map(|it| behind(&it, 4));
    expect![[r#"
        {"seq":4,"time":1005,"type":"compaction/start","data":{"trigger":"person","tokens":9000,"instruction":{"id":"id of Summarise.","content":[{"type":"text","text":"Summarise."}],"source":{"kind":"context","name":"compaction"}}}}
        {"seq":5,"time":1006,"type":"user/message","data":{"id":"id of what was said","content":[{"type":"text","text":"what was said"}],"source":{"kind":"human"}},"surface_op":{"replace":{"first":1,"last":2,"covers":[1,2]}}}
        {"seq":6,"time":1006,"type":"session/seed-end","data":{"inherited":6}}
        {"seq":7,"time":1006,"type":"compaction/end","data":{"outcome":{"kind":"compacted","tokens":8346}}}"#]].assert_eq(&cut);
    assert!(!whole.contains("interrupted"), "{whole}");
    assert!(before.contains(r#"{"kind":"interrupted"}"#), "nothing was put in place: {before}");
    let died = session(
        parent
            .events()
            .iter()
            .take(6)
            .map(|event| Draft { data: event.data.clone(), surface: event.surface.clone() }),
    );
    assert!(behind(&repaired(&died), 6).contains(r#""kind":"compacted""#));
}

#[test]
fn what_the_parent_lost_stays_lost_with_its_hash() {
    let whole = session([turn_start(1), user("u"), user("v"), user("w"), turn_end(1)]);
    let mut records: Vec<Record> =
        whole.events().iter().map(|event| Record::from((**event).clone())).collect();
    records.splice(1..3, [Record::Damage { hash: "abc".into() }]);
    let parent = Session::replay(header(), records).unwrap();
    for (at, last) in [(4, 2), (3, 2), (2, 2), (1, 1)] {
        let child = forked(&parent, at);
        let lost = LogGap { first: Seq(1), last: Seq(last), hash: "abc".into() };
        assert_eq!(child.state().gaps, [Gap { lost, recorded: true }], "at {at}");
        assert_eq!(child.state().inherited, EventCount(at + 1));
        assert_same(&stored(&child), &child);
    }
}

#[test]
fn a_fork_says_truly_whose_it_is() {
    let parent = session([turn_start(1), user("u")]);
    let good = fork_header(&parent, Seq(1));
    let of = |id: &str, inherited: u64| {
        Some(Parent { id: SessionId::new(id), inherited: EventCount(inherited) })
    };
    let own = parent.header().id.as_str();
    let headers = [
        (Header { parent: of(own, 3), ..good.clone() }, 2),
        (Header { parent: of(own, 1), ..good.clone() }, 1),
        (Header { parent: of(own, 3), ..good.clone() }, 1),
        (Header { parent: of("another", 2), ..good.clone() }, 1),
        (Header { parent: None, ..good.clone() }, 1),
        (Header { id: SessionId::new(own), ..good }, 1),
    ];
    let said: Vec<_> = headers
        .into_iter()
        .map(|(header, at)| parent.fork(header, Seq(at)).unwrap_err().to_string())
        .collect();
    expect![[r#"
        event 2 is beyond the end of the session, which has 2 events
        the header of a fork must name session 01980000-0000-7000-8000-000000000001 and 2 inherited events
        the header of a fork must name session 01980000-0000-7000-8000-000000000001 and 2 inherited events
        the header of a fork must name session 01980000-0000-7000-8000-000000000001 and 2 inherited events
        the header of a fork must name session 01980000-0000-7000-8000-000000000001 and 2 inherited events
        a fork of session 01980000-0000-7000-8000-000000000001 needs another id"#]]
    .assert_eq(&said.join("\n"));
    let mut deep = Session::new(Header { delegation_depth: 2, ..header() });
    append(&mut deep, user("u")).unwrap();
    let error = deep.fork(fork_header(&deep, Seq(0)), Seq(0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the delegation depth of a fork must be at least its parent's, 2"
    );
    let empty = Session::new(header());
    let error = empty.fork(fork_header(&empty, Seq(0)), Seq(0)).unwrap_err();
    assert_eq!(error.to_string(), "event 0 is beyond the end of the session, which has 0 events");
}

#[test]
fn a_header_that_lies_about_its_prefix_is_refused() {
    let child = forked(&session([turn_start(1), user("u"), turn_end(1)]), 2);
    let replay = |inherited: Option<u64>, count: usize| {
        let parent =
            inherited.map(|inherited| Parent { id: header().id, inherited: EventCount(inherited) });
        let events = child.events().iter().take(count).map(|event| (**event).clone());
        match Session::replay(Header { parent, ..(**child.header()).clone() }, events) {
            Ok(session) => format!("{} inherited", session.state().inherited),
            Err(error) => error.to_string(),
        }
    };
    let said = [
        replay(Some(3), 4),
        replay(Some(3), 3),
        replay(Some(9), 4),
        replay(Some(4), 4),
        replay(Some(2), 4),
        replay(None, 4),
    ];
    expect![[r#"
        3 inherited
        the header says that 3 events were inherited; the log says 0 of 3
        the header says that 9 events were inherited; the log says 3 of 4
        the header says that 4 events were inherited; the log says 3 of 4
        event 3: session/seed-end: is not in what the header says was inherited
        event 3: session/seed-end: is not in what the header says was inherited"#]]
    .assert_eq(&said.join("\n"));
    let at_three = || Draft::new(SeedEnd { inherited: EventCount(3) });
    let said = refusal(&child, at_three());
    assert_eq!(said, "session/seed-end: does not stand at the boundary that it names");
    let said = refusal(&session([user("a"), user("b"), user("c")]), at_three());
    assert_eq!(said, "session/seed-end: is not in what the header says was inherited");
}

#[test]
fn a_boundary_that_was_damaged_is_the_headers() {
    let mut child = forked(&session([turn_start(1), user("u"), turn_end(1)]), 2);
    append(&mut child, user("v")).unwrap();
    append(&mut child, user("w")).unwrap();
    let kept = child.events().iter().filter(|event| ![3, 4].contains(&event.seq.0));
    let damaged = Session::replay((**child.header()).clone(), kept.map(|e| (**e).clone())).unwrap();
    assert_eq!(damaged.state().inherited, EventCount(3));
}

/// Everything that holds of any fork. Returns it.
fn check_fork(parent: &Session, at: u64) -> Session {
    let child = forked(parent, at);
    assert!(child.repair().is_empty(), "repair is done");
    assert_paired(&child, "fork");
    assert_same(&child, &forked(parent, at));
    assert_same(&child, &stored(&child));
    assert_eq!(child.state().inherited, EventCount(at + 1));
    let prefix = parent.events().iter().filter(|event| event.seq.0 <= at).count();
    assert_eq!(lines(&child)[..prefix], lines(parent)[..prefix]);
    // A process that died behind the boundary is repaired to the same log.
    let events = child.events().iter().take(prefix + 1).map(|event| (**event).clone());
    let cut = Session::replay((**child.header()).clone(), events).unwrap();
    assert_same(&repaired(&cut), &child);
    child
}

#[test]
fn any_history_can_be_forked_at_every_event() {
    let seed = seed();
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let wishes = prop::collection::vec((any::<u8>(), any::<u8>(), "[a-z]{1,4}"), 5..50);
    let (forks, open, gaps) = Default::default();
    let counts: [&std::cell::Cell<u32>; 3] = [&forks, &open, &gaps];
    let count = |n: usize| counts[n].set(counts[n].get() + 1);
    let outcome = TestRunner::new(config).run(&(wishes, any::<Option<u8>>()), |(wishes, lost)| {
        let mut parent = Session::new(header());
        for wish in &wishes {
            let wanted = draft(&parent, wish);
            drop(append(&mut parent, wanted));
        }
        if let Some(lost) = lost {
            let len = parent.len().0.saturating_sub(1);
            let kept = parent
                .events()
                .iter()
                .filter(|event| event.seq.0 == len || event.seq.0 % 16 != u64::from(lost) % 16);
            parent = Session::replay(header(), kept.map(|e| (**e).clone())).unwrap();
        }
        let before = (lines(&parent), parent.state().clone(), surface_seqs(&parent));
        for at in 0..parent.len().0 {
            let child = check_fork(&parent, at);
            count(0);
            if lines(&child).last().unwrap().contains("fork") {
                count(1);
            }
            if !child.state().gaps.is_empty() {
                count(2);
            }
            // A fork of a fork knows its own boundary, however often it is read.
            let again = check_fork(&child, at / 2);
            let mut last = check_fork(&again, again.len().0 - 1);
            let turn = last.state().turns.turn.next();
            append(&mut last, turn_start(turn.0)).unwrap();
            append(&mut last, user("goes on")).unwrap();
            assert_eq!(stored(&stored(&last)).state().inherited, again.len());
        }
        let after = (lines(&parent), parent.state().clone(), surface_seqs(&parent));
        assert_eq!(before, after, "the parent is as it was");
        Ok(())
    });
    let [forks, open, gaps] = counts.map(std::cell::Cell::get);
    println!("seed {seed}, {forks} forks and as many of forks, {open} cut open, {gaps} with gaps");
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(forks > 300 && open > 100 && gaps > 20, "{forks} {open} {gaps}");
}
