//! Where in its turns and steps a log stands.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::id::{StepNumber, TurnNumber};
use crate::vocabulary::EventData;

/// The turn and the step that began last, and whether they are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnBoundary {
    /// The turn that started last; 0 before the first.
    pub turn: TurnNumber,
    /// Whether that turn has no `turn/end` yet.
    pub turn_open: bool,
    /// The step of that turn that started last; 0 before its first.
    pub step: StepNumber,
    /// Whether that step has no `step/end` yet.
    pub step_open: bool,
}

impl Fold for TurnBoundary {
    const NAME: &'static str = "turn-boundary";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        match &event.data {
            EventData::TurnStart(start) => {
                *self = Self { turn: start.turn, turn_open: true, ..Self::default() };
            }
            EventData::TurnEnd(end) => {
                (self.turn, self.turn_open, self.step_open) = (end.turn, false, false);
            }
            EventData::StepEnd(end) => self.within(end.turn, end.step, false),
            data => {
                if let Some((turn, step)) = data.step() {
                    self.within(turn, step, true);
                }
            }
        }
    }
}

impl TurnBoundary {
    fn within(&mut self, turn: TurnNumber, step: StepNumber, step_open: bool) {
        *self = Self { turn, turn_open: true, step, step_open };
    }
}

impl EventData {
    /// The turn and the step in which an event of this type says that it stands.
    pub(crate) fn step(&self) -> Option<(TurnNumber, StepNumber)> {
        match self {
            Self::StepStart(start) => Some((start.turn, start.step)),
            Self::StepEnd(end) => Some((end.turn, end.step)),
            Self::AssistantPartial(partial) => Some((partial.turn, partial.step)),
            Self::AssistantAttempt(attempt) => Some((attempt.turn, attempt.step)),
            Self::LlmRetry(retry) => Some((retry.turn, retry.step)),
            Self::LlmRetryStarted(retry) => Some((retry.turn, retry.step)),
            _ => None,
        }
    }
}
