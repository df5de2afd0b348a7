//! Domain folds: the same from any checkpoint, and never from one that does not fit.

use expect_test::expect;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::replay::{draft, seed};
use super::sample::*;
use crate::*;

const CASES: u32 = 80;

/// The first events of a session, holes included.
fn first(session: &Session, count: usize) -> Session {
    let events = session.events().iter().take(count).map(|event| (**event).clone());
    Session::replay(header(), events).unwrap()
}

/// Through text, as an index keeps it.
fn stored<F: Fold + Serialize + DeserializeOwned>(checkpoint: &Checkpoint<F>) -> Checkpoint<F> {
    serde_json::from_str(&serde_json::to_string(checkpoint).unwrap()).unwrap()
}

/// The fold of the whole log is this, from every checkpoint.
fn check<F>(session: &Session, expected: &F) -> usize
where
    F: Fold + Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let whole = Checkpoint::<F>::of(session);
    assert_eq!(whole.state(), expected, "{}", F::NAME);
    assert_eq!(whole.seen(), session.len());
    let events = session.events();
    for count in 0..=events.len() {
        let part = Checkpoint::<F>::of(&first(session, count));
        assert_eq!(stored(&part).resume(session), whole, "{} from {count}", F::NAME);
        let mut behind = stored(&part);
        behind.extend(&events[count / 2..]);
        assert_eq!(behind, whole, "{} extended from {count}", F::NAME);
    }
    events.len() + 1
}

#[test]
fn every_fold_is_the_same_from_every_checkpoint() {
    let seed = seed();
    let config = Config {
        cases: CASES,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    };
    let wishes = prop::collection::vec((any::<u8>(), any::<u8>(), "[a-z]{1,4}"), 5..50);
    let checkpoints = std::cell::Cell::new(0);
    let outcome = TestRunner::new(config).run(&(wishes, any::<Option<u8>>()), |(wishes, lost)| {
        let mut session = Session::new(header());
        for wish in &wishes {
            let wanted = draft(&session, wish);
            drop(append(&mut session, wanted));
        }
        if let Some(lost) = lost {
            let kept = session.events().iter().filter(|e| e.seq.0 % 8 != u64::from(lost) % 8);
            session = Session::replay(header(), kept.map(|e| (**e).clone())).unwrap();
        }
        let state = session.state();
        let tried = check(&session, &state.turns)
            + check(&session, &state.inbox)
            + check(&session, &state.modes)
            + check(&session, &state.plan)
            + check(&session, &state.todo)
            + check(&session, &state.summary)
            + check(&session, &state.summary.title)
            + check(&session, &state.summary.usage)
            + check(&session, &state.spending);
        // Behind lost events a model is shown something else than what the events say.
        let tried = tried + if lost.is_none() { check(&session, &state.context_size) } else { 0 };
        checkpoints.set(checkpoints.get() + tried);
        Ok(())
    });
    println!("seed {seed}, {CASES} histories, {} checkpoints", checkpoints.get());
    outcome.unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
    assert!(checkpoints.get() > 4_000, "{}", checkpoints.get());
}

/// A session that said `one` first, and then `rest`.
fn saying(rest: &[&str]) -> Session {
    let title = |title: &&str| Draft::new(TitleSet { title: (*title).into() });
    session([user("one")].into_iter().chain(rest.iter().map(title)))
}

#[test]
fn a_checkpoint_that_does_not_fit_is_computed_anew() {
    let of = |session: &Session| serde_json::to_string(&Checkpoint::<Title>::of(session)).unwrap();
    let session = saying(&["a", "b", "c"]);
    let whole = of(&session);
    let good = of(&first(&session, 3)).replace("\"b\"", "\"kept\"");
    let resumed = |text: &str| of_text(text).resume(&session).state().text.clone().unwrap();
    // What fits is taken at its word; that is how the rest shows that it is not.
    let at_end = whole.replace("\"c\"", "\"kept\"");
    assert_eq!(resumed(&at_end), "kept");

    let longer = of(&saying(&["a", "b", "c", "d"]));
    let other_tail = of(&saying(&["a", "b", "x"]));
    let other_session = good.replace("000000000001", "000000000002");
    let lost = of(&without(&session, 1));
    for (what, text) in [
        ("another version", at_end.replace("\"version\":1", "\"version\":0")),
        ("another fold", at_end.replace("\"fold\":\"title\"", "\"fold\":\"summary\"")),
        ("another session", at_end.replace("000000000001", "000000000002")),
        ("a longer log", longer),
        ("a tail that was cut and grew again", other_tail.replace("\"x\"", "\"kept\"")),
        ("a forged length", at_end.replace("\"seen\":4", "\"seen\":3")),
        ("a forged count", at_end.replace("\"present\":4", "\"present\":3")),
        ("another session's prefix", other_session),
        ("a log that has its lost events back", lost.replace("\"c\"", "\"kept\"")),
    ] {
        let checkpoint = of_text(&text);
        assert_eq!(resumed(&text), "c", "{what}: {text}");
        assert_eq!(checkpoint.resume(&session), of_text(&whole), "{what}");
    }
    // And the other way round: the checkpoint saw what is lost now.
    let damaged = without(&session, 1);
    let resumed = of_text(&at_end).resume(&damaged);
    assert_eq!(resumed.state().text.as_deref(), Some("c"));
}

fn of_text(text: &str) -> Checkpoint<Title> {
    serde_json::from_str(text).unwrap()
}

fn without(session: &Session, lost: u64) -> Session {
    let kept = session.events().iter().filter(|event| event.seq.0 != lost);
    Session::replay(header(), kept.map(|event| (**event).clone())).unwrap()
}

#[test]
fn input_whose_removal_was_lost_is_queued_once_when_it_comes_again() {
    let whole = session([queued(&["u"]), removed(&["u"]), queued(&["u"]), turn_start(1)]);
    let damaged = without(&whole, 1);
    assert_eq!(damaged.state().inbox.messages, [user_message("u")]);
    check(&damaged, &damaged.state().inbox);
}

#[test]
fn garbage_is_computed_anew() {
    let session = saying(&["a"]);
    let whole = Checkpoint::<Title>::of(&session);
    let good = serde_json::to_string(&whole).unwrap();
    for garbage in [
        "",
        "null",
        "{}",
        "[1]",
        "\u{0}",
        good.trim_start_matches('{'),
        &good.replace("state", "stat"),
    ] {
        let read = Checkpoint::<Title>::read(garbage, &session);
        assert_eq!(read, whole, "{garbage:?}");
    }
    let kept = good.replace("\"a\"", "\"kept\"");
    let read = Checkpoint::<Title>::read(&kept, &session);
    assert_eq!(read.state().text.as_deref(), Some("kept"));
}

#[test]
fn usage_is_counted_for_the_session_and_each_route() {
    let other = AssistantMessage {
        route: Route::parse("other/model").unwrap(),
        usage: Usage { input: 100, output: 10, cache_read: 0, cache_write: 5 },
        ..answer_message("c", [Block::Text { text: "x".into() }])
    };
    let session = session([answer("a"), answer("b"), Draft::new(other)]);
    let usage = &session.state().summary.usage;
    assert_eq!(usage.last.unwrap().input, 100);
    expect![[r#"{"last":{"input":100,"output":10,"cache_read":0,"cache_write":5},"total":{"input":106,"output":14,"cache_read":2,"cache_write":5},"compaction":{"input":0,"output":0,"cache_read":0,"cache_write":0},"routes":[{"route":{"provider":"demo","model":"scripted"},"answers":2,"usage":{"input":6,"output":4,"cache_read":2,"cache_write":0}},{"route":{"provider":"other","model":"model"},"answers":1,"usage":{"input":100,"output":10,"cache_read":0,"cache_write":5}}],"cost":{"unpriced":3},"till":{}}"#]]
        .assert_eq(&serde_json::to_string(usage).unwrap());
}

#[test]
fn a_summary_is_what_a_list_shows() {
    let long = "x".repeat(300);
    let context = UserMessage {
        source: UserSource::Context { name: "AGENTS.md".into() },
        ..user_message("rules")
    };
    let mut session = session([Draft::new(context)]);
    assert!(!session.state().summary.has_human_message);
    for draft in [user(&format!("\n  \n {long}\nmore")), user("later"), turn_start(1), turn_end(1)]
    {
        append(&mut session, draft).unwrap();
    }
    let summary = &session.state().summary;
    assert_eq!(summary.first_line.as_deref(), Some(long.get(..200).unwrap()));
    assert!(summary.has_human_message);
    assert_eq!((summary.events, summary.turns), (EventCount(5), TurnNumber(1)));
    assert_eq!(summary.last_time, Some(session.last_time()));
}

fn usage(input: u64, output: u64) -> Usage {
    Usage { input, output, ..Usage::default() }
}

/// One unit a token of input, two a token of output, so that sums can be read.
fn prices(currency: &str) -> Draft {
    let unit = |units: u64| Nanos(units * 1_000_000_000_000_000);
    let tier =
        PriceTier { over: 0, input: unit(1), output: unit(2), cache_read: None, cache_write: None };
    let prices = PriceList { currency: currency.into(), tiers: vec![tier], peak: None };
    Draft::new(RequestContext { prices: Some(prices), ..RequestContext::default() })
}

fn costing(id: &str, usage: Usage) -> Draft {
    let answer = answer_message(id, [Block::Text { text: "x".into() }]);
    Draft::new(AssistantMessage { usage, ..answer })
}

fn sums(cost: &Cost) -> Vec<(String, u64)> {
    cost.sums.iter().map(|sum| (sum.currency.clone(), sum.amount.0 / 1_000_000_000)).collect()
}

#[test]
fn money_is_counted_at_the_prices_in_force_and_currencies_are_never_added() {
    let attempt = AssistantAttempt {
        turn: TurnNumber(1),
        step: StepNumber(1),
        attempt: 1,
        failure: Failure {
            code: "overloaded".into(),
            message: "no".into(),
            status: None,
            request_id: None,
        },
        usage: Some(usage(5, 0)),
    };
    let mut session = session([
        turn_start(1),
        costing("unpriced", usage(7, 7)),
        prices("USD"),
        step_start(1, 1),
        Draft::new(attempt),
        costing("a", usage(10, 1)),
    ]);
    let cost = |session: &Session| session.state().summary.usage.cost.clone();
    assert_eq!(sums(&cost(&session)), [("USD".into(), 17)], "the failed attempt counts");
    assert_eq!((cost(&session).unpriced, cost(&session).whole()), (1, None));
    for draft in [step_end(1, 1), turn_end(1), prices("CNY"), turn_start(2), step_start(2, 1)] {
        append(&mut session, draft).unwrap();
    }
    append(&mut session, costing("b", usage(3, 0))).unwrap();
    assert_eq!(sums(&cost(&session)), [("USD".into(), 17), ("CNY".into(), 3)]);
    let spending = &session.state().spending;
    assert_eq!(sums(&spending.turn.cost), [("CNY".into(), 3)]);
    assert_eq!(spending.session.cost, cost(&session));
    assert_eq!((spending.turn.tokens, spending.session.tokens), (3, 33));
    assert_eq!((spending.turn.steps, spending.session.steps), (1, 2));
    check(&session, &session.state().summary.usage);
    check(&session, spending);
}

#[test]
fn time_is_counted_within_turns_only() {
    let mut session = Session::new(header());
    let mut at = |millis, draft| drop(session.append(draft, UnixMillis(millis)).unwrap());
    at(1_000, turn_start(1));
    at(4_000, turn_end(1));
    at(90_000, turn_start(2));
    at(91_000, step_start(2, 1));
    let spending = &session.state().spending;
    let now = spending.at(UnixMillis(95_000));
    assert_eq!((now.turn.millis, now.session.millis), (5_000, 8_000));
    // The process dies; another one closes the turn a day later.
    for draft in session.repair() {
        session.append(draft, UnixMillis(86_400_000)).unwrap();
    }
    let spending = &session.state().spending;
    assert_eq!((spending.turn.millis, spending.session.millis), (1_000, 4_000));
    assert_eq!(spending.at(UnixMillis(99_999_999)), *spending, "no turn is open");
}

#[test]
fn the_estimate_of_the_context_learns_from_what_was_counted() {
    let text = "x".repeat(3_500);
    let mut session = session([user(&text)]);
    let size = |session: &Session| session.state().context_size.tokens();
    assert_eq!(size(&session), 1_150, "a token for 3.5 bytes, and 15 % more");
    // The first request has tools in it, of which the log does not know the size.
    append(&mut session, costing("a", usage(5_000, 100))).unwrap();
    assert_eq!((size(&session), session.state().context_size.percent()), (5_100, 100));
    append(&mut session, user(&text)).unwrap();
    assert_eq!(size(&session), 6_250);
    // It was half of what was estimated, and so the next one is taken to be.
    append(&mut session, costing("b", usage(5_675, 25))).unwrap();
    assert_eq!(session.state().context_size.percent(), 50);
    append(&mut session, user(&text)).unwrap();
    assert_eq!(size(&session), 5_700 + 575);
    assert_eq!(session.state().context_size.pressure(12_550), 50);
    check(&session, &session.state().context_size);
}
