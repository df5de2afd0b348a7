//! What a session cost.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::id::Route;
use crate::vocabulary::{EventData, Usage};

/// The tokens of all settled answers, inherited ones included.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageTotals {
    /// The last answer's.
    pub last: Option<Usage>,
    /// All answers'.
    pub total: Usage,
    /// Each route's, in the order of their first answers.
    pub routes: Vec<RouteUsage>,
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

impl Fold for UsageTotals {
    const NAME: &'static str = "usage";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        let EventData::AssistantMessage(answer) = &event.data else { return };
        self.last = Some(answer.usage);
        self.total = self.total.plus(answer.usage);
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
