//! The budget of a turn, in model requests.

use std::num::NonZeroU32;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Around, Next, Plugin, Setup};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::hooks::{PreStep, StepDecision, StepInput};

/// Ends a turn that wants more steps than it may have.
pub struct StepBudget;

/// How many.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepBudgetConfig {
    /// The most steps of one turn, each with one model request (a retry is not another one).
    pub max_steps: NonZeroU32,
}

#[async_trait]
impl Plugin for StepBudget {
    const NAME: &'static str = "step-budget";
    type Config = StepBudgetConfig;
    type Needs = ();

    async fn activate(
        &self,
        config: StepBudgetConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        Ok(setup.hook::<PreStep>(Arc::new(Budget(config.max_steps)))?)
    }
}

struct Budget(NonZeroU32);

#[async_trait]
impl Around<PreStep> for Budget {
    async fn around(&self, input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        if input.step.0 <= u64::from(self.0.get()) {
            return next.run(input).await;
        }
        let message = format!("The turn was ended after {} model requests.", self.0);
        StepDecision::Reject { message, limit: true }
    }
}
