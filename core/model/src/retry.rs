//! When a failed request may be tried again, and after how long.

use std::time::Duration;

use crate::ModelFailure;

/// Bounded exponential backoff with jitter; a provider's own hint wins.
#[derive(Clone, Debug)]
pub struct RetryPolicy {
    /// The most tries of one request, the first included.
    pub max_attempts: u32,
    /// The wait after the first failure.
    pub first_delay: Duration,
    /// The longest wait; a provider's hint beyond it fails the request instead.
    pub max_delay: Duration,
}

impl RetryPolicy {
    /// The wait before try number `attempt + 1`, after try `attempt` (from 1) failed with
    /// `failure`; `None` when it must not be tried again. `jitter` is in `0.0..1.0`.
    pub fn delay(&self, attempt: u32, failure: &ModelFailure, jitter: f64) -> Option<Duration> {
        let _ = (attempt, failure, jitter);
        todo!()
    }
}
