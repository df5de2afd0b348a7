//! What the parts cost: composing the process, opening a session's scope with every row of it, and
//! a hook point.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bridle::composition::App;
use bridle::config::{Environment, Overrides};
use bridle_agent::{PreStep, StepDecision, StepInput};
use bridle_compose::{
    ActivateError, Around, Hooks, Next, Plugin, Plugins, Row, Scope, Setup, TaskSet,
};
use bridle_session::{Spending, StepNumber, TurnNumber};

use crate::figures::say;

/// How often each is done; the median counts.
const ROUNDS: usize = 200;

/// Passages through a hook point in one round.
const PASSAGES: u32 = 10_000;

pub(crate) fn run() {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let home = tempfile::tempdir().unwrap();
        let environment = || Environment::new([("BRIDLE_HOME".into(), home.path().into())], []);
        let mut composed = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let app = App::compose(environment(), Overrides::default()).await;
            composed.push(start.elapsed());
            app.close().await;
        }
        print("compose the process", &mut composed, "with the session: < 1 ms");

        let app = App::compose(environment(), Overrides::default()).await;
        let mut opened = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            let (parts, _) = app.session_parts().await;
            opened.push(start.elapsed());
            assert!(parts.len() > 10, "the session has its rows");
        }
        print("open a session's scope and close it", &mut opened, "< 1 ms");
        app.close().await;

        let scope = Scope::root("bench", Plugins::new().with(Listens), TaskSet::new());
        print("a passage without any hook", &mut passages(&Passage::Plain).await, "");
        let hooks = Passage::Hooked(scope.hooks::<PreStep>());
        print("a passage without listeners", &mut passages(&hooks).await, "the same");
        scope.mount(vec![Row::new("listens")]).await;
        let hooks = Passage::Hooked(scope.hooks::<PreStep>());
        print("a passage with one listener", &mut passages(&hooks).await, "");
        let mut looked_up = Vec::new();
        for _ in 0..ROUNDS {
            let start = Instant::now();
            for _ in 0..PASSAGES {
                std::hint::black_box(scope.hooks::<PreStep>());
            }
            looked_up.push(start.elapsed() / PASSAGES);
        }
        print("a lookup of the listeners", &mut looked_up, "");
    });
}

/// With or without a hook point.
enum Passage {
    Plain,
    Hooked(Hooks<PreStep>),
}

async fn passages(passage: &Passage) -> Vec<Duration> {
    let enter = async |input: StepInput| StepDecision::Enter(input.messages);
    let mut times = Vec::new();
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for _ in 0..PASSAGES {
            let input = StepInput {
                turn: TurnNumber(1),
                step: StepNumber(1),
                messages: Vec::new(),
                spending: Spending::default(),
            };
            let decision = match passage {
                Passage::Plain => enter(input).await,
                Passage::Hooked(hooks) => hooks.run(input, enter).await,
            };
            std::hint::black_box(decision);
        }
        times.push(start.elapsed() / PASSAGES);
    }
    times
}

fn print(what: &str, times: &mut [Duration], target: &str) {
    times.sort_unstable();
    let at = |part: usize| times.get(times.len() * part / 100).copied().unwrap_or_default();
    say(what, format!("{:?} (99 %: {:?})", at(50), at(99)), target);
}

/// Listens at `pre-step` and changes nothing.
struct Listens;

#[async_trait]
impl Plugin for Listens {
    const NAME: &'static str = "listens";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        Ok(setup.hook::<PreStep>(Arc::new(Self))?)
    }
}

#[async_trait]
impl Around<PreStep> for Listens {
    async fn around(&self, input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        next.run(input).await
    }
}
