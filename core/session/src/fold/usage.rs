//! What a session cost: tokens as the providers counted them, and money where prices are known.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::id::Route;
use crate::price::{Cost, Money, PriceList};
use crate::vocabulary::{EventData, Usage};

/// The tokens of all settled answers, of summaries, and of failed requests where the provider
/// counted them; inherited ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// The last answer's.
    pub last: Option<Usage>,
    /// All of them.
    pub total: Usage,
    /// Of that, the requests for summaries.
    #[serde(default)]
    pub compaction: Usage,
    /// Each route's, in the order of their first answers; failed requests and those for summaries
    /// are in none.
    pub routes: Vec<RouteUsage>,
    /// What all of it cost, at the prices that were in force.
    #[serde(default)]
    pub cost: Cost,
    #[serde(default)]
    till: Till,
}

/// What one route's answers cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteUsage {
    /// Who answered.
    pub route: Route,
    /// How often.
    pub answers: u64,
    /// What it cost together.
    pub usage: Usage,
}

/// The prices in force.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Till {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    prices: Option<PriceList>,
}

/// A request that cost something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Charge {
    pub(super) usage: Usage,
    /// `None` where the price is not known.
    pub(super) money: Option<Money>,
}

impl Till {
    /// Takes in the next event, and says what it cost.
    pub(super) fn charge(&mut self, event: &Event) -> Option<Charge> {
        let usage = match &event.data {
            EventData::RequestContext(context) => {
                self.prices.clone_from(&context.prices);
                return None;
            }
            EventData::AssistantMessage(answer) => answer.usage,
            EventData::AssistantAttempt(attempt) => attempt.usage?,
            EventData::CompactionEnd(end) => end.usage?,
            _ => return None,
        };
        if usage == Usage::default() {
            return None;
        }
        let money = self.prices.as_ref().and_then(|prices| prices.cost(&usage, event.time));
        Some(Charge { usage, money })
    }
}

impl Fold for UsageTotals {
    const NAME: &'static str = "usage";
    const VERSION: u32 = 3;

    fn apply(&mut self, event: &Event) {
        if let Some(Charge { usage, money }) = self.till.charge(event) {
            self.total = self.total.plus(usage);
            self.cost.add(money);
            if matches!(event.data, EventData::CompactionEnd(_)) {
                self.compaction = self.compaction.plus(usage);
            }
        }
        let EventData::AssistantMessage(answer) = &event.data else { return };
        self.last = Some(answer.usage);
        match self.routes.iter_mut().find(|row| row.route == answer.route) {
            Some(row) => {
                row.answers = row.answers.saturating_add(1);
                row.usage = row.usage.plus(answer.usage);
            }
            None => self.routes.push(RouteUsage {
                route: answer.route.clone(),
                answers: 1,
                usage: answer.usage,
            }),
        }
    }
}
