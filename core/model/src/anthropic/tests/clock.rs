//! A clock on which a wait is over when the test says so.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bridle_compose::{Clock, Sleep, SystemClock};
use tokio::sync::Semaphore;

/// Tells when waits begin, and ends one when a test says so. Cloning gives the same clock.
#[derive(Clone)]
pub(super) struct ManualClock {
    begun: Arc<Semaphore>,
    over: Arc<Semaphore>,
}

impl ManualClock {
    pub(super) fn new() -> Self {
        Self { begun: Arc::new(Semaphore::new(0)), over: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until `count` more waits have begun.
    pub(super) async fn begun(&self, count: u32) {
        self.begun.acquire_many(count).await.unwrap().forget();
    }

    /// Ends the wait that is going on.
    pub(super) fn end_one(&self) {
        self.over.add_permits(1);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> SystemTime {
        SystemClock.now()
    }

    fn sleep(&self, _: Duration) -> Sleep {
        let over = Arc::clone(&self.over);
        self.begun.add_permits(1);
        Box::pin(async move { over.acquire().await.unwrap().forget() })
    }
}
