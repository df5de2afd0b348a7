//! A barrier between a test and an answer, so that no test needs to wait for time to pass.

use std::sync::Arc;

use tokio::sync::watch;

/// A point at which an answer stands still until the test opens it. Clones are the same gate.
///
/// Once open it stays open.
#[derive(Clone, Debug)]
pub struct Gate(Arc<Sides>);

#[derive(Debug)]
struct Sides {
    reached: watch::Sender<bool>,
    open: watch::Sender<bool>,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self(Arc::new(Sides {
            reached: watch::Sender::new(false),
            open: watch::Sender::new(false),
        }))
    }

    /// Waits until an answer stands at the gate (or has passed it).
    ///
    /// # Cancel safety
    /// Safe: nothing is consumed.
    pub async fn reached(&self) {
        until_true(&self.0.reached).await;
    }

    /// Lets the answer go on.
    pub fn open(&self) {
        self.0.open.send_replace(true);
    }

    /// Marks the gate reached and waits until it is open.
    pub(crate) async fn pass(&self) {
        self.0.reached.send_replace(true);
        until_true(&self.0.open).await;
    }
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

/// The sender lives as long as the borrow, so the wait can only end with the value `true`.
async fn until_true(side: &watch::Sender<bool>) {
    let mut receiver = side.subscribe();
    if receiver.wait_for(|value| *value).await.is_err() {
        tracing::error!("a gate lost its sender while it was borrowed");
    }
}
