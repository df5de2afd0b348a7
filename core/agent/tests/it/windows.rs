//! What each window of a turn shows when it is cancelled or fails there: the updates of the
//! client, the events of the log, and the request that the next prompt makes. `tests/README.md`
//! has the table.

mod cancels;
mod failures;
mod orders;

use std::fmt::Write as _;
use std::sync::Arc;
use std::task::Poll;

use bridle_agent::{AgentUpdate, TurnOutcome};
use bridle_compose::{Around, HookPoint, Next};
use futures::future::BoxFuture;

use crate::rig::{Extra, Rig, kinds, line, text};

/// What a client saw of the turn, how it ended, and that the next prompt works.
async fn told(rig: &mut Rig, id: &str) -> String {
    let (mut seen, outcome) = rig.until_end(id).await;
    seen.push(format!("{id} {}", ended(&outcome)));
    rig.model.push(text("Fine."));
    let (_, outcome) = rig.run("and now?").await;
    assert_eq!(outcome, TurnOutcome::EndTurn, "the next prompt does not work");
    page(rig, seen).await
}

async fn page(rig: &mut Rig, seen: Vec<String>) -> String {
    let mut page = String::new();
    let log = rig.log().await;
    assert!(log.repair().is_empty(), "the log is not at rest");
    let events = kinds(&log);
    let turn = events.iter().rposition(|kind| kind == "turn/start").unwrap();
    // The next turn is queued before it begins.
    let events = &events[..turn - 1];
    let next = rig.model.requests().pop().unwrap_or_default();
    for (head, lines) in [("seen", seen), ("log", events.to_vec()), ("next", vec![next])] {
        writeln!(page, "{head}").unwrap();
        for line in lines.iter().flat_map(|line| line.lines()) {
            writeln!(page, "  {line}").unwrap();
        }
    }
    page
}

fn ended(outcome: &TurnOutcome) -> String {
    match outcome {
        TurnOutcome::Failed(failure) => format!("failed {}: {}", failure.code, failure.message),
        outcome => format!("{outcome:?}"),
    }
}

/// What it comes to while nobody but the driver moves.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(output) = futures::poll!(future.as_mut()) {
            return output;
        }
        tokio::task::yield_now().await;
    }
    panic!("the driver waits for what does not come");
}

/// Waits for the update that reads so; what came before it, and it.
async fn until(rig: &mut Rig, wanted: &str) -> Vec<String> {
    let mut lines = Vec::new();
    while lines.last().map(String::as_str) != Some(wanted) {
        let update: AgentUpdate = rig.updates.recv().await.unwrap();
        lines.push(line(&update));
    }
    lines
}

struct Listener<F>(F);

#[async_trait::async_trait]
impl<P, F> Around<P> for Listener<F>
where
    P: HookPoint,
    F: for<'a> Fn(P::Input, Next<'a, P>) -> BoxFuture<'a, P::Output> + Send + Sync + 'static,
{
    async fn around(&self, input: P::Input, next: Next<'_, P>) -> P::Output {
        (self.0)(input, next).await
    }
}

/// The row of one listener.
fn at<P: HookPoint>(
    listener: impl for<'a> Fn(P::Input, Next<'a, P>) -> BoxFuture<'a, P::Output> + Send + Sync + 'static,
) -> Extra {
    let listener: Arc<dyn Around<P>> = Arc::new(Listener(listener));
    Extra::new(move |setup| setup.hook::<P>(Arc::clone(&listener)))
}
