//! The clock as a value. The only place that may call `tokio::time::sleep`.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

/// A wait that can be stored anywhere.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send + Sync>>;

/// Tells the time and waits.
pub trait Clock: Send + Sync + 'static {
    /// The wall-clock time.
    fn now(&self) -> SystemTime;

    /// Completes after `duration`.
    ///
    /// # Cancel safety
    /// Dropping the future ends the wait; nothing else happens.
    fn sleep(&self, duration: Duration) -> Sleep;
}

/// The real clock. Its sleeps follow tokio's, which a test can pause.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    #[expect(clippy::disallowed_methods, reason = "this is the place the rule points to")]
    fn sleep(&self, duration: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(duration))
    }
}
