//! The clock as a value. The only place that may call `tokio::time::sleep`.

use std::time::{Duration, SystemTime};

use futures::future::BoxFuture;

/// Tells the time and waits.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time.
    fn now(&self) -> SystemTime;

    /// Completes after `duration`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; nothing else happens.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The real clock. Its sleeps follow tokio's, which a test can pause.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place the rule points to")]
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }
}
