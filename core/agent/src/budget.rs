//! Budgets of a turn and of a session: steps, tokens, time and money.
//!
//! They are checked before each step, against what the log says was used up; so they hold across a
//! restart, and a step that has begun is never cut off by one. A turn that may not go on ends as
//! `blocked`; the next prompt of a session that has used up its own budget ends at once, without a
//! request. A limit of money that cannot be checked (the prices are not known, or in another
//! currency) ends the turn, too: a limit is never ignored.

use std::num::NonZeroU64;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Around, Next, Plugin, Setup};
use bridle_session::{Cost, Nanos, Spent};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::hooks::{PreStep, StepDecision, StepInput};

/// The names of the limits in [`BudgetConfig`].
pub const BUDGET_LIMITS: [&str; 8] = [
    "turn_steps",
    "turn_tokens",
    "turn_minutes",
    "turn_cost",
    "session_steps",
    "session_tokens",
    "session_minutes",
    "session_cost",
];

const MILLIS_PER_MINUTE: f64 = 60_000.0;

/// Ends a turn that wants more than it may have.
pub struct BudgetPlugin;

/// How much; what is left out has no limit.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BudgetConfig {
    /// The most steps of one turn, each with one model request (a retry is not another one).
    pub turn_steps: Option<NonZeroU64>,
    /// The most tokens of one turn, as the providers count them: input, cached or not, and output.
    pub turn_tokens: Option<NonZeroU64>,
    /// The longest time of one turn, waiting for a person included.
    pub turn_minutes: Option<f64>,
    /// The most money of one turn.
    pub turn_cost: Option<f64>,
    /// The most steps of all turns of a session.
    pub session_steps: Option<NonZeroU64>,
    /// The most tokens of all turns of a session.
    pub session_tokens: Option<NonZeroU64>,
    /// The longest time of all turns of a session together.
    pub session_minutes: Option<f64>,
    /// The most money of all turns of a session.
    pub session_cost: Option<f64>,
    /// The currency of both limits of money.
    pub currency: String,
}

#[async_trait]
impl Plugin for BudgetPlugin {
    const NAME: &'static str = "budget";
    type Config = BudgetConfig;
    type Needs = ();

    async fn activate(
        &self,
        config: BudgetConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let BudgetConfig { currency, .. } = &config;
        let turn = Limits {
            of: "turn",
            steps: config.turn_steps,
            tokens: config.turn_tokens,
            minutes: config.turn_minutes,
            cost: config.turn_cost,
            currency: currency.clone(),
        };
        let session = Limits {
            of: "session",
            steps: config.session_steps,
            tokens: config.session_tokens,
            minutes: config.session_minutes,
            cost: config.session_cost,
            currency: currency.clone(),
        };
        Ok(setup.hook::<PreStep>(Arc::new(Budget { turn, session }))?)
    }
}

struct Budget {
    turn: Limits,
    session: Limits,
}

#[async_trait]
impl Around<PreStep> for Budget {
    async fn around(&self, input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        let spending = &input.spending;
        let reached = self.session.reached(&spending.session);
        match reached.or_else(|| self.turn.reached(&spending.turn)) {
            Some(message) => StepDecision::Reject { message, limit: true },
            None => next.run(input).await,
        }
    }
}

/// The limits of one account.
struct Limits {
    of: &'static str,
    steps: Option<NonZeroU64>,
    tokens: Option<NonZeroU64>,
    minutes: Option<f64>,
    cost: Option<f64>,
    currency: String,
}

impl Limits {
    /// Which limit is reached, for the person.
    fn reached(&self, spent: &Spent) -> Option<String> {
        self.counted("steps", self.steps, spent.steps, "model requests")
            .or_else(|| self.counted("tokens", self.tokens, spent.tokens, "tokens"))
            .or_else(|| self.timed(spent.millis))
            .or_else(|| self.priced(&spent.cost))
    }

    fn counted(
        &self,
        key: &str,
        limit: Option<NonZeroU64>,
        used: u64,
        what: &str,
    ) -> Option<String> {
        let limit = limit.filter(|limit| used >= limit.get())?;
        Some(self.message(key, &format!("it has used {used} {what}, and may use {limit}")))
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds of a session are few")]
    fn timed(&self, millis: u64) -> Option<String> {
        let used = millis as f64 / MILLIS_PER_MINUTE;
        let limit = self.minutes.filter(|limit| used >= *limit)?;
        Some(self.message("minutes", &format!("it took {used:.1} minutes, and may take {limit}")))
    }

    fn priced(&self, cost: &Cost) -> Option<String> {
        let (limit, currency) = (self.cost?, &self.currency);
        let foreign = cost.sums.iter().find(|sum| sum.currency != *currency);
        if let Some(sum) = foreign.filter(|sum| sum.amount > Nanos(0)) {
            let other = &sum.currency;
            let text = format!("a part of its cost is in {other} and the limit is in {currency}");
            return Some(self.message("cost", &text));
        }
        if cost.unpriced > 0 {
            return Some(self.message("cost", "a part of its cost is not known"));
        }
        let used = cost.sums.first().map_or(Nanos(0), |sum| sum.amount);
        (used.units() >= limit).then(|| {
            let used = used.units();
            let text = format!("it has cost {currency} {used:.4}, and may cost {limit}");
            self.message("cost", &text)
        })
    }

    /// One message with the limit, what was used, and what to change.
    fn message(&self, key: &str, text: &str) -> String {
        let of = self.of;
        let (ended, open) = match of {
            "session" => ("The budget of this session is used up", " and open the session again"),
            _ => ("The turn was ended by its budget", " for later sessions"),
        };
        format!(
            "{ended}: {text}. To change that, set {of}_{key} under [budget] in config.toml{open}."
        )
    }
}
