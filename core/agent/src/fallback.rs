//! The route that answers when the chosen one does not, where the user configured one.
//!
//! When a request has failed for good because its provider is overloaded, limits the rate, fails
//! or cannot be reached, the other route is asked for the rest of the turn; the next turn begins
//! with the chosen one again. A missing or refused key and a request that is at fault are never
//! covered up. The driver logs the change of the route and tells the person.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Around, Next, Plugin, Setup};
use bridle_model::{FailureCode, ModelFailure, PreparedCall, RetryPolicy};
use bridle_session::{Route, StepNumber, TurnNumber};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::hooks::{OnRequest, OnRequestError, RequestFailed, RequestInput};

/// Asks another route when the chosen one fails.
pub struct FallbackPlugin;

/// Which.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FallbackConfig {
    /// As `provider/model`.
    pub model: String,
}

#[async_trait]
impl Plugin for FallbackPlugin {
    const NAME: &'static str = "fallback";
    type Config = FallbackConfig;
    type Needs = ();

    async fn activate(
        &self,
        config: FallbackConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let route = Route::parse(&config.model).ok_or_else(|| {
            ActivateError::Unable(format!("model {:?} is no provider/model", config.model))
        })?;
        let fallback = Arc::new(Fallback { route, taken: Mutex::default() });
        setup.hook::<OnRequest>(Arc::clone(&fallback) as _)?;
        Ok(setup.hook::<OnRequestError>(fallback)?)
    }
}

struct Fallback {
    route: Route,
    taken: Mutex<Option<Taken>>,
}

/// Since when the other route is asked.
#[derive(Clone, Copy)]
struct Taken {
    turn: TurnNumber,
    /// The step in which it was taken, and the last try of the chosen route in it.
    step: StepNumber,
    after: u32,
}

impl Fallback {
    fn taken(&self, turn: TurnNumber) -> Option<Taken> {
        let taken = *self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.filter(|taken| taken.turn == turn)
    }

    fn take(&self, failed: &RequestFailed) {
        let taken = Taken { turn: failed.turn, step: failed.step, after: failed.attempt };
        *self.taken.lock().unwrap_or_else(PoisonError::into_inner) = Some(taken);
    }
}

#[async_trait]
impl Around<OnRequest> for Fallback {
    async fn around(
        &self,
        mut input: RequestInput,
        next: Next<'_, OnRequest>,
    ) -> Result<PreparedCall, ModelFailure> {
        if self.taken(input.turn).is_some() {
            input.route = self.route.clone();
        }
        next.run(input).await
    }
}

#[async_trait]
impl Around<OnRequestError> for Fallback {
    async fn around(
        &self,
        failed: RequestFailed,
        next: Next<'_, OnRequestError>,
    ) -> Option<Duration> {
        let wait = next.run(failed.clone()).await;
        if wait.is_some() {
            return wait;
        }
        match self.taken(failed.turn) {
            None if is_outage(failed.failure.code) && failed.route != self.route => {
                self.take(&failed);
                Some(Duration::ZERO)
            }
            // The tries of the chosen route are used up; the other one has its own.
            Some(taken) if taken.step == failed.step => {
                let attempt = failed.attempt.saturating_sub(taken.after);
                RetryPolicy::standard().delay(attempt, &failed.failure, fastrand::f64())
            }
            _ => None,
        }
    }
}

fn is_outage(code: FailureCode) -> bool {
    matches!(
        code,
        FailureCode::RateLimited
            | FailureCode::Overloaded
            | FailureCode::Server
            | FailureCode::Transport
    )
}
