//! Random histories: a live log and its replay are the same, a refused append changes nothing,
//! and any prefix can be repaired and goes on.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};

use super::repair::repaired;
use super::sample::*;
use crate::*;

const CASES: u32 = 400;

/// One random wish; what it becomes depends on the session, so that most are admissible.
pub(crate) type Wish = (u8, u8, String);

pub(crate) fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one("seed")
}

/// A draft for the wish. Some do not fit the session on purpose.
pub(crate) fn draft(session: &Session, (kind, number, text): &Wish) -> Draft {
    let state = session.state();
    let (turn, step) = (state.turns.turn.0, state.turns.step.0);
    let call = state.open_calls.get(usize::from(*number) % 3).map(|call| call.id.to_string());
    let call = call.as_deref().unwrap_or("c0");
    match kind % 26 {
        0 => turn_start(turn + 1),
        1 => turn_end(turn),
        2 => step_start(turn, step + 1),
        3 => step_end(turn, step),
        4 => system(text),
        5 | 6 => user(text),
        7 => answer(text),
        8 | 9 => {
            let ids = ["c0", "c1", "c2", "c3"];
            calls(text, &ids[..usize::from(*number) % ids.len()])
        }
        10 => taken_up(call),
        11 | 12 => result(call, text),
        13 => queued(&[text]),
        14 => match state.inbox.messages.first() {
            Some(message) => {
                Draft::new(InboxSpliced::removed(vec![message.id.clone()], text.clone()))
            }
            None => request_header(state.series().0 + u64::from(*number) % 3),
        },
        15 => {
            let block = Block::Text { text: text.clone() };
            piece_of((turn, step), &format!("m{step}"), block, number % 2 == 0)
        }
        16 if number % 4 == 0 => failed_attempt(turn, step),
        18.. => owned(session, kind % 26 - 18, *number, text),
        _ => replace_some(session, usize::from(*number), user(text)),
    }
}

/// A draft of a type that belongs to a plugin.
fn owned(session: &Session, kind: u8, number: u8, text: &str) -> Draft {
    let (state, even, text) = (session.state(), number.is_multiple_of(2), text.to_owned());
    match kind {
        0 => Draft::new(DeveloperMessage { added: vec![text], removed: Vec::new() }),
        1 => {
            let item = TodoItem { text, status: TodoStatus::InProgress };
            Draft::new(TodoWrite { items: vec![item; usize::from(number % 3)] })
        }
        2 => Draft::new(PlanMode { active: even }),
        3 if even => Draft::new(compacted(number.into())),
        3 => Draft::new(compaction(CompactionTrigger::Person, &text)),
        4 => match state.jobs.first().filter(|_| even) {
            Some(job) => {
                let outcome = JobOutcome::Exited { code: number.into() };
                Draft::new(JobEnded { id: job.id.clone(), outcome })
            }
            None => Draft::new(JobStarted { id: JobId::new(format!("j{number}")), title: text }),
        },
        5 if even => Draft::new(PermissionMode { mode: text }),
        5 => Draft::new(SandboxMode { mode: text }),
        6 => Draft::new(TitleSet { title: text }),
        _ => Draft::new(GoalChange { goal: even.then_some(text) }),
    }
}

/// Replaces a run of nodes; often one that cannot go.
fn replace_some(session: &Session, number: usize, draft: Draft) -> Draft {
    let nodes: Vec<u64> = surface_seqs(session).into_iter().map(|seq| seq.0).collect();
    let start = number % nodes.len().max(1);
    let end = (start + 1 + number / 50).min(nodes.len());
    match nodes.get(start..end) {
        Some(covers) if !covers.is_empty() => replacing(draft, covers),
        _ => draft,
    }
}

pub(crate) fn surface_seqs(session: &Session) -> Vec<Seq> {
    session.projection().entries().map(|(seq, _)| seq).collect()
}

pub(crate) fn assert_same(a: &Session, b: &Session) {
    assert_eq!(lines(a), lines(b));
    assert_eq!(a.state(), b.state());
    assert_eq!(surface(a), surface(b));
    assert_eq!(surface_seqs(a), surface_seqs(b));
}

/// What a store does: lines out, lines in.
fn replayed(session: &Session, count: usize) -> Session {
    let read = |line: &String| Event::from_line(line).unwrap();
    let lines = lines(session);
    Session::replay(header(), lines[..count].iter().map(read)).unwrap()
}

#[test]
fn a_replay_is_the_live_log_and_every_prefix_can_go_on() {
    let seed = seed();
    let (mut admitted, mut refused) = (0, 0);
    let counts = std::cell::RefCell::new((&mut admitted, &mut refused));
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let wishes = prop::collection::vec((any::<u8>(), any::<u8>(), any::<String>()), 1..60);
    let outcome =
        TestRunner::new(config).run(&(wishes, any::<prop::sample::Index>()), |(wishes, cut)| {
            let mut live = Session::new(header());
            for wish in &wishes {
                let wanted = draft(&live, wish);
                let before = live.clone();
                let mut counts = counts.borrow_mut();
                match append(&mut live, wanted) {
                    Ok(_) => *counts.0 += 1,
                    Err(_) => {
                        *counts.1 += 1;
                        assert_eq!(live.events().len(), before.events().len());
                        assert_eq!(live.state(), before.state());
                        assert_eq!(surface_seqs(&live), surface_seqs(&before));
                    }
                }
            }
            assert_same(&replayed(&live, live.events().len()), &live);
            let prefix = replayed(&live, cut.index(live.events().len() + 1));
            let mut resumed = repaired(&prefix);
            assert_same(&replayed(&resumed, resumed.events().len()), &resumed);
            assert_same(&repaired(&prefix), &resumed);
            let next = turn_start(resumed.state().turns.turn.0 + 1);
            append(&mut resumed, next).unwrap();
            append(&mut resumed, user("goes on")).unwrap();
            Ok(())
        });
    println!("seed {seed}, {CASES} histories, {admitted} events admitted, {refused} refused");
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(admitted > 2_000 && refused > 1_000, "{admitted} admitted, {refused} refused");
}

#[test]
fn a_position_that_the_log_has_passed_is_named() {
    let session = session([turn_start(1), user("u"), turn_end(1)]);
    let mut events: Vec<_> = session.events().iter().map(|event| (**event).clone()).collect();
    events.push(events[1].clone());
    let error = Session::replay(header(), events).unwrap_err();
    assert_eq!(error.to_string(), "event 1 stands where 3 or a later one was due");
}

#[test]
fn an_event_that_could_not_have_been_appended_is_named() {
    let mut bad =
        session([turn_start(1)]).events().iter().map(|e| (**e).clone()).collect::<Vec<_>>();
    bad.push(Event { seq: Seq(1), ..bad[0].clone() });
    let error = Session::replay(header(), bad).unwrap_err();
    assert_eq!(error.to_string(), "event 1: turn/start: the turn before it is open");
}
