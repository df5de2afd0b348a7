//! A schedule explorer: everybody around a driver (prompts, cancels, modes, the model, tools, the
//! approver, hooks, the disk, time and a slow client) moves in a random order, and the laws of
//! [`laws`] hold for every order.
//!
//! One thread, no real time, and one move after the other, so that a schedule that fails can be
//! played again. It is then made shorter and printed; kept in `explorer/kept.jsonl` it is played
//! first from there on.

mod actors;
mod laws;
mod scene;
mod schedule;
mod world;

use std::panic::{self, AssertUnwindSafe};
use std::time::Instant;

use fastrand::Rng;

use self::schedule::{Schedule, Setup, Step};

/// How many moves a schedule has at most.
const LENGTH: std::ops::Range<usize> = 15..60;

/// What was found once, one schedule a line.
const KEPT: &str = include_str!("explorer/kept.jsonl");

/// How many schedules a run plays.
fn count() -> u64 {
    let said = std::env::var("BRIDLE_SCHEDULES").ok().and_then(|count| count.parse().ok());
    let long = std::env::var_os("BRIDLE_LONG").is_some();
    said.unwrap_or(if long { 300_000 } else { 2_000 })
}

fn seed() -> u64 {
    let said = std::env::var("BRIDLE_SCHEDULES_SEED").ok().and_then(|seed| seed.parse().ok());
    said.unwrap_or_else(|| fastrand::u64(..))
}

/// Plays in a runtime of its own, so that nothing of one schedule reaches the next.
fn in_runtime<T>(play: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(play)
}

fn replay(schedule: &Schedule) -> Vec<String> {
    let mut steps = schedule.steps.iter().cloned();
    let played = || in_runtime(world::play(&schedule.setup, |_| steps.next()));
    let played = panic::catch_unwind(AssertUnwindSafe(played));
    played.unwrap_or_else(|_| vec!["the world panicked".to_owned()])
}

fn explore(rng: &mut Rng) -> (Schedule, Vec<String>) {
    let setup = Setup::random(rng);
    let (mut steps, length) = (Vec::new(), rng.usize(LENGTH));
    let broken = in_runtime(world::play(&setup, |menu| {
        let step = (steps.len() < length).then(|| Step::random(rng, menu));
        steps.extend(step.clone());
        step
    }));
    (Schedule { setup, steps }, broken)
}

/// The same failure with as few moves as taking them out one by one leaves.
fn shorter(mut schedule: Schedule) -> Schedule {
    let mut at = 0;
    while at < schedule.steps.len() {
        let mut without = schedule.clone();
        without.steps.remove(at);
        if replay(&without).is_empty() {
            at += 1;
        } else {
            schedule = without;
        }
    }
    schedule
}

fn report(schedule: Schedule, from: &str) -> String {
    let schedule = shorter(schedule);
    let broken = replay(&schedule);
    format!(
        "{from}: {broken:#?}\nto play it again, add this line to explorer/kept.jsonl:\n{}",
        serde_json::to_string(&schedule).unwrap()
    )
}

/// What schedules say when they panic is not worth reading.
fn hush() {
    let loud = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if info.payload_as_str() != Some(scene::PLANNED) {
            loud(info);
        }
    }));
}

#[test]
fn every_schedule_keeps_the_laws() {
    hush();
    // First: a schedule seeds this thread's random numbers with its own seed.
    let seed = seed();
    for (line, kept) in KEPT.lines().enumerate() {
        let schedule: Schedule = serde_json::from_str(kept).unwrap();
        let broken = replay(&schedule);
        assert!(broken.is_empty(), "kept schedule {}: {broken:#?}", line + 1);
    }
    let (count, begun) = (count(), Instant::now());
    println!("schedules: BRIDLE_SCHEDULES_SEED={seed} BRIDLE_SCHEDULES={count}");
    let failed = std::thread::scope(|scope| {
        let halves = [0, 1].map(|half| {
            scope.spawn(move || {
                let numbers = (0..count).filter(|number| number % 2 == half);
                let played = numbers.map(|number| {
                    (number, explore(&mut Rng::with_seed(seed.wrapping_add(number))))
                });
                played.into_iter().find(|(_, (_, broken))| !broken.is_empty())
            })
        });
        halves.into_iter().find_map(|half| half.join().unwrap())
    });
    if let Some((number, (schedule, _))) = failed {
        panic!("{}", report(schedule, &format!("schedule {number} of seed {seed}")));
    }
    println!("{count} schedules in {:.1} s", begun.elapsed().as_secs_f64());
}
