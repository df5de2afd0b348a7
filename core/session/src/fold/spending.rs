//! What the last turn and the whole session have used up, in everything that a budget can limit.

use serde::{Deserialize, Serialize};

use super::Fold;
use super::usage::{Charge, Till};
use crate::event::Event;
use crate::id::UnixMillis;
use crate::price::Cost;
use crate::vocabulary::{EventData, TurnEndReason};

/// What was used up, inherited turns included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spending {
    /// In the turn that began last.
    pub turn: Spent,
    /// In all turns.
    pub session: Spent,
    till: Till,
    /// Up to when the time of the open turn is counted; `None` between turns.
    counted_to: Option<UnixMillis>,
}

/// An account of what was used up.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent {
    /// Steps that began, each with one request (a retry is not another one).
    pub steps: u64,
    /// Tokens of all requests as the providers counted them: input, cached or not, and output.
    pub tokens: u64,
    /// Money.
    pub cost: Cost,
    /// Wall time within turns, in milliseconds. Of a turn that was broken off it counts up to the
    /// beginning of its last step.
    pub millis: u64,
}

impl Spending {
    /// Both accounts as they stand at `now`, which may be later than the last event.
    #[must_use]
    pub fn at(&self, now: UnixMillis) -> Self {
        let mut spending = self.clone();
        spending.pass(now);
        spending
    }

    fn both(&mut self, mut spend: impl FnMut(&mut Spent)) {
        spend(&mut self.turn);
        spend(&mut self.session);
    }

    /// Counts the time up to `now` if a turn is open.
    fn pass(&mut self, now: UnixMillis) {
        let Some(counted_to) = &mut self.counted_to else { return };
        let passed = now.0.saturating_sub(counted_to.0);
        *counted_to = now;
        self.both(|spent| spent.millis = spent.millis.saturating_add(passed));
    }
}

impl Fold for Spending {
    const NAME: &'static str = "spending";
    const VERSION: u32 = 2;

    fn apply(&mut self, event: &Event) {
        if let Some(Charge { usage, money }) = self.till.charge(event) {
            self.both(|spent| {
                spent.tokens = spent.tokens.saturating_add(usage.context());
                spent.cost.add(money.clone());
            });
        }
        match &event.data {
            EventData::TurnStart(_) => {
                self.turn = Spent::default();
                self.counted_to = Some(event.time);
            }
            EventData::StepStart(_) => {
                self.pass(event.time);
                self.both(|spent| spent.steps = spent.steps.saturating_add(1));
            }
            EventData::TurnEnd(end) => {
                // The end of a turn that was broken off is written by a later process.
                if !matches!(end.reason, TurnEndReason::Interrupted | TurnEndReason::Forked) {
                    self.pass(event.time);
                }
                self.counted_to = None;
            }
            _ => {}
        }
    }
}
