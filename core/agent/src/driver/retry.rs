//! Whether a failed request is tried again, and the wait before it: planned on the log and on the
//! disk, shown, cancellable, and taken up where a restart cut it off.

use std::time::Duration;

use bridle_model::{FailureCode, ModelFailure};
use bridle_session::{LlmRetry, LlmRetryStarted, Route, StepNumber};
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::hooks::{OnRequestError, RequestFailed};
use crate::plant::Plant;
use crate::update::NoticeLevel;

/// A wait as long as this is told to the person even if nothing was shown yet.
const NOTICEABLE: Duration = Duration::from_secs(1);

impl Driver {
    /// Whether and when a failed request is tried again; `delay` is what its route says.
    pub(super) async fn after_failure(
        &mut self,
        step: StepNumber,
        attempt: u32,
        route: &Route,
        failure: &ModelFailure,
        delay: Option<Duration>,
        token: &CancellationToken,
    ) -> Result<Option<Duration>, Halt> {
        let hooks = self.scope.hooks::<OnRequestError>();
        let (turn, route, failure) = (self.turn, route.clone(), failure.clone());
        let input = RequestFailed { turn, step, attempt, route, failure };
        self.decided("request-error", hooks.run(input, async move |_| delay), token).await
    }

    /// Waits before try number `attempt`; the plan and its start are on the log, the plan also on
    /// the disk, so that a restart does not cut the wait short.
    pub(super) async fn back_off(
        &mut self,
        step: StepNumber,
        attempt: u32,
        failure: &ModelFailure,
        delay: Duration,
        shown: bool,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        self.recorder.append(LlmRetry {
            turn: self.turn,
            step,
            attempt,
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            code: failure.code.as_str().to_owned(),
        })?;
        self.recorder.flush().await?;
        // One short hiccup is nobody's concern; a provider that goes on failing is.
        let repeated = attempt > 2 || failure.code == FailureCode::Silent;
        if shown || repeated || delay >= NOTICEABLE {
            let what =
                if shown { "The answer was cut off and starts again" } else { "Trying again" };
            let title = format!("{what} in {:.1} s", delay.as_secs_f64());
            self.notice(NoticeLevel::Warning, title, Some(failure.message.clone())).await;
        }
        self.wait_to_retry(step, attempt, delay, token).await
    }

    /// Goes on where the process before this one ended in a wait: the next request waits for what
    /// is left of it, and counts as the try that was planned. Says which that is.
    pub(super) async fn take_up_retry(
        &mut self,
        step: StepNumber,
        token: &CancellationToken,
    ) -> Result<Option<u32>, Halt> {
        let Some(planned) = self.recorder.session().state().planned_retry.clone() else {
            return Ok(None);
        };
        // A clock that was set back makes no wait longer than it was planned.
        let left = planned.due.0.saturating_sub(self.recorder.now().0).min(planned.retry.delay_ms);
        let left = Duration::from_millis(left);
        if left >= NOTICEABLE {
            let title = format!("Trying again in {:.1} s", left.as_secs_f64());
            let detail = format!("The model failed before the restart: {}.", planned.retry.code);
            self.notice(NoticeLevel::Warning, title, Some(detail)).await;
        }
        let attempt = planned.retry.attempt;
        self.wait_to_retry(step, attempt, left, token).await?;
        Ok(Some(attempt))
    }

    async fn wait_to_retry(
        &mut self,
        step: StepNumber,
        attempt: u32,
        delay: Duration,
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let wait = self.clock.sleep(delay);
        let deaf = Plant::DeafRetry.is_in().then(CancellationToken::new);
        self.unless_cancelled(wait, deaf.as_ref().unwrap_or(token)).await?;
        self.recorder.append(LlmRetryStarted { turn: self.turn, step, attempt })?;
        Ok(())
    }
}
