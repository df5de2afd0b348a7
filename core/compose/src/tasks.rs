//! A set of tasks with one owner. The only place that may call `tokio::spawn`.

use std::future::Future;

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Tasks that end together. Cloning gives another handle to the same set.
#[derive(Clone, Debug, Default)]
pub struct TaskSet {
    tracker: TaskTracker,
    token: CancellationToken,
}

impl TaskSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// The token that [`TaskSet::close`] cancels; long-lived tasks watch it.
    pub fn token(&self) -> &CancellationToken {
        &self.token
    }

    /// Runs `future` as a task of this set. A panic in it ends that task only.
    #[expect(clippy::disallowed_methods, reason = "this is the place the rule points to")]
    pub fn spawn<F>(&self, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        tokio::spawn(self.tracker.track_future(future))
    }

    /// Cancels the token and waits until every task has ended.
    ///
    /// # Cancel safety
    /// Cancel safe: the token stays cancelled, and a later call waits for the rest.
    pub async fn close(&self) {
        self.token.cancel();
        self.tracker.close();
        self.tracker.wait().await;
    }
}
