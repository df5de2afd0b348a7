//! When a failed request may be tried again, and after how long.

use std::time::Duration;

use crate::ModelFailure;

/// The share of a wait that jitter may take away, so that agents which failed together do not
/// come back together.
const MAX_JITTER: f64 = 0.25;

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
    /// What suits a person who waits: six tries, the first after half a second, each wait twice
    /// the one before, and at most a minute when the provider asks for it.
    pub const fn standard() -> Self {
        Self {
            max_attempts: 6,
            first_delay: Duration::from_millis(500),
            max_delay: Duration::from_secs(60),
        }
    }

    /// The wait before try number `attempt + 1`, after try `attempt` (from 1) failed with
    /// `failure`; `None` when it must not be tried again. `jitter` is in `0.0..1.0`.
    pub fn delay(&self, attempt: u32, failure: &ModelFailure, jitter: f64) -> Option<Duration> {
        if attempt >= self.max_attempts || !failure.code.is_retryable() {
            return None;
        }
        match failure.retry_after {
            Some(hint) if hint > self.max_delay => None,
            // "At once" says nothing about when; five tries at once would help nobody.
            Some(hint) if !hint.is_zero() => Some(hint),
            _ => Some(self.backoff(attempt).mul_f64(1.0 - jitter.clamp(0.0, 1.0) * MAX_JITTER)),
        }
    }

    fn backoff(&self, attempt: u32) -> Duration {
        let doublings = attempt.saturating_sub(1);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        self.first_delay.saturating_mul(factor).min(self.max_delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FailureCode;

    fn failure(code: FailureCode, retry_after: Option<Duration>) -> ModelFailure {
        ModelFailure { retry_after, ..ModelFailure::new(code, "no") }
    }

    fn millis(attempt: u32, jitter: f64) -> Option<u128> {
        RetryPolicy::standard()
            .delay(attempt, &failure(FailureCode::Overloaded, None), jitter)
            .map(|delay| delay.as_millis())
    }

    #[test]
    fn waits_double_until_the_tries_are_used_up() {
        let waits: Vec<_> = (1..=7).map(|attempt| millis(attempt, 0.0)).collect();
        let expected = [Some(500), Some(1000), Some(2000), Some(4000), Some(8000), None, None];
        assert_eq!(waits, expected);
    }

    #[test]
    fn jitter_takes_at_most_a_quarter() {
        assert_eq!(millis(1, 1.0), Some(375));
        assert_eq!(millis(1, 7.0), Some(375));
    }

    #[test]
    fn the_backoff_never_passes_the_longest_wait() {
        let policy = RetryPolicy { max_attempts: u32::MAX, ..RetryPolicy::standard() };
        let failure = failure(FailureCode::Server, None);
        assert_eq!(policy.delay(100, &failure, 0.0), Some(policy.max_delay));
    }

    #[test]
    fn a_hint_wins_up_to_the_longest_wait() {
        let wait = |seconds| {
            let hint = Some(Duration::from_secs(seconds));
            RetryPolicy::standard().delay(3, &failure(FailureCode::RateLimited, hint), 0.5)
        };
        assert_eq!(wait(3), Some(Duration::from_secs(3)));
        assert_eq!(wait(60), Some(Duration::from_secs(60)));
        assert_eq!(wait(61), None);
        assert_eq!(wait(0), Some(Duration::from_millis(1750)), "an empty hint is no hint");
    }

    #[test]
    fn a_final_failure_is_not_tried_again_whatever_the_hint() {
        let hint = Some(Duration::from_secs(1));
        for code in [
            FailureCode::Auth,
            FailureCode::Billing,
            FailureCode::InvalidRequest,
            FailureCode::UnknownModel,
            FailureCode::ContextOverflow,
            FailureCode::Cancelled,
        ] {
            assert_eq!(RetryPolicy::standard().delay(1, &failure(code, hint), 0.0), None);
        }
    }
}
