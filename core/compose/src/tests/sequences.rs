//! Random sequences of everything that can be done to a tree of scopes, against a model of what
//! must be active afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use fastrand::Rng;

use super::ledger::{Ledger, needs_of, plugins, provided_by, row};
use crate::{Row, RowState, Scope, TaskSet};

/// How many sequences a run tries; a long run tries ten times as many.
const SEQUENCES: u64 = 10_000;

/// Longer than any sequence of yields; the clock stands still until nothing else can run.
const STUCK: Duration = Duration::from_secs(3600);

const PLUGINS: [&str; 5] = ["gives-a", "a-to-b", "ab-to-c", "uses-c", "wraps-a"];

/// A scope below the process: a session, or a subagent below one.
struct Below {
    scope: Scope,
    above: Option<u32>,
}

/// The scopes of one sequence: the process and up to three below it.
struct Tree {
    ledger: Ledger,
    tasks: TaskSet,
    process: Scope,
    sessions: BTreeMap<u32, Below>,
    opened: u32,
}

impl Tree {
    fn new() -> Self {
        let (ledger, tasks) = (Ledger::default(), TaskSet::new());
        let process = Scope::root("process", plugins(&ledger), tasks.clone());
        Self { ledger, tasks, process, sessions: BTreeMap::new(), opened: 0 }
    }

    fn any_scope(&self, rng: &mut Rng) -> (String, Scope) {
        let sessions =
            self.sessions.iter().map(|(number, below)| (format!("s{number}"), &below.scope));
        let all: Vec<_> =
            std::iter::once(("p".to_owned(), &self.process)).chain(sessions).collect();
        let (name, scope) = &all[rng.usize(..all.len())];
        (name.clone(), (*scope).clone())
    }

    /// One random operation; sometimes its caller goes away before it is done.
    async fn operate(&mut self, rng: &mut Rng) {
        if self.sessions.len() < 3 && rng.u8(..8) == 0 {
            self.opened += 1;
            let above = self.sessions.keys().copied().next().filter(|_| rng.bool());
            let parent = above.map_or(&self.process, |above| &self.sessions[&above].scope);
            let scope = parent.child("below");
            self.sessions.insert(self.opened, Below { scope, above });
        }
        let (name, scope) = self.any_scope(rng);
        let (left, beside) = (rng.u8(..8) == 0, rng.u8(..6) == 0);
        if let Some(number) = name.strip_prefix('s').filter(|_| rng.u8(..10) == 0) {
            let number: u32 = number.parse().unwrap();
            self.sessions.retain(|below, scope| *below != number && scope.above != Some(number));
            self.poll(scope.close(), left).await;
            return;
        }
        let first = one_operation(scope, &name, rng);
        if beside {
            let (other_name, other) = self.any_scope(rng);
            let second = one_operation(other, &other_name, rng);
            futures::join!(first, second);
        } else {
            self.poll(first, left).await;
        }
    }

    async fn poll<T>(&self, operation: impl Future<Output = T>, left: bool) {
        let mut operation = std::pin::pin!(operation);
        if left {
            drop(futures::poll!(&mut operation));
        } else {
            operation.await;
        }
    }

    /// Every row is as the model says, and the ledger has nothing to complain of.
    async fn check(&self) {
        let mut seen = BTreeSet::new();
        let process = Model::of(&self.process, &[]).await;
        process.compare(&mut seen);
        let mut visible = BTreeMap::new();
        for (number, below) in &self.sessions {
            let above = below.above.map_or(&process.services, |above| &visible[&above]);
            let model = Model::of(&below.scope, above).await;
            model.compare(&mut seen);
            visible.insert(*number, model.services);
        }
        let book = self.ledger.book();
        assert!(book.wrong.is_empty(), "{:?} in {:?}", book.wrong, book.story);
        assert_eq!(book.live.len(), seen.len(), "live activations and active rows");
        assert!(book.live.values().all(|effects| effects.len() == 4), "{:?}", book.live);
    }
}

fn one_operation(scope: Scope, name: &str, rng: &mut Rng) -> impl Future<Output = ()> + use<> {
    let plugin = PLUGINS[rng.usize(..PLUGINS.len())];
    let id = format!("{name}-{plugin}");
    let takes_out = rng.u8(..3) == 0;
    let faults = ["none", "none", "none", "half", "panic", "undo", "undo-panic"];
    let fault = faults[rng.usize(..faults.len())];
    let disabled = rng.u8(..10) == 0;
    let row = Row { disabled, ..row(&id, plugin, fault, rng.u32(..3)) };
    async move {
        if takes_out {
            scope.unmount(&id).await;
        } else {
            scope.mount(vec![row]).await;
        }
    }
}

/// What must be active in one scope, given what the scope above provides.
struct Model {
    rows: Vec<(String, RowState, bool)>,
    /// What is visible from here.
    services: Vec<crate::ServiceKey>,
}

impl Model {
    async fn of(scope: &Scope, above: &[crate::ServiceKey]) -> Self {
        let statuses = scope.rows().await;
        let works = |status: &crate::RowStatus| {
            !matches!(status.state, RowState::Failed(_) | RowState::Disabled)
        };
        let mut active = BTreeSet::new();
        loop {
            let own = |except: &str| {
                let others = statuses.iter().filter(|row| active.contains(&row.id));
                let others = others.filter(move |row| row.id != except);
                others.flat_map(|row| provided_by(&row.plugin)).collect::<Vec<_>>()
            };
            let next = statuses.iter().find(|row| {
                let visible = [own(&row.id), above.to_vec()].concat();
                let met = needs_of(&row.plugin).iter().all(|need| visible.contains(need));
                works(row) && met && !active.contains(&row.id)
            });
            match next {
                Some(row) => active.insert(row.id.clone()),
                None => {
                    let services = [own(""), above.to_vec()].concat();
                    let rows = statuses.into_iter().map(|row| {
                        let expected = active.contains(&row.id);
                        (row.id, row.state, expected)
                    });
                    return Self { rows: rows.collect(), services };
                }
            };
        }
    }

    fn compare(&self, seen: &mut BTreeSet<String>) {
        for (id, state, expected) in &self.rows {
            assert_eq!(*state == RowState::Active, *expected, "{id} is {state:?}");
            if *expected {
                assert!(seen.insert(id.clone()));
            }
        }
    }
}

async fn sequence(seed: u64) -> usize {
    let mut rng = Rng::with_seed(seed);
    let mut tree = Tree::new();
    let operations = rng.usize(1..12);
    for _ in 0..operations {
        tree.operate(&mut rng).await;
    }
    // Operations that were left behind end before the rows can be looked at.
    let below = tree.sessions.values().map(|below| &below.scope);
    for scope in below.chain([&tree.process]) {
        scope.unmount("nothing").await;
    }
    tree.check().await;
    tree.process.close().await;
    tree.tasks.close().await;
    let book = tree.ledger.book();
    assert!(book.wrong.is_empty(), "{:?}", book.wrong);
    assert!(book.live.is_empty(), "leaked: {:?}", book.live);
    assert!(tree.process.tables().is_empty());
    book.story.len()
}

#[test]
fn random_sequences_leak_nothing_run_nothing_twice_and_never_get_stuck() {
    let first = std::env::var("BRIDLE_SEED").ok().and_then(|seed| seed.parse().ok());
    let seed: u64 = first.unwrap_or_else(|| fastrand::u64(..u64::MAX / 2));
    let long = std::env::var_os("BRIDLE_LONG").is_some();
    let count = if long { SEQUENCES * 10 } else { SEQUENCES };
    // Panics are part of the sequences; their messages are not of interest.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.unwrap();
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if panic.payload().downcast_ref::<&str>().is_none_or(|text| *text != "as planned") {
            quiet(panic);
        }
    }));
    let mut activations = 0;
    for number in 0..count {
        let seed = seed + number;
        let sequence = async { tokio::time::timeout(STUCK, sequence(seed)).await };
        let run = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            runtime.block_on(sequence).expect("nothing can go on any more")
        }));
        match run {
            Ok(steps) => activations += steps,
            Err(panic) => {
                println!("the sequence of BRIDLE_SEED={seed} failed");
                std::panic::resume_unwind(panic);
            }
        }
    }
    println!(
        "scopes: {count} sequences from seed {seed}, {activations} activations and retractions"
    );
    assert!(activations as u64 > count * 3, "the sequences do something");
}
