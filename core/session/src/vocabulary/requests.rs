//! Requests to a model: their frame, the route, and tries that are repeated.

use serde::{Deserialize, Serialize};

use crate::id::{Route, SeriesNumber, StepNumber, TurnNumber};
use crate::price::PriceList;

/// The frame of the requests that follow: a series whose prefix only grows at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeader {
    /// Which series.
    pub series: SeriesNumber,
    /// Why a new series began: `start`, `model-changed`, `tools-changed`, `resumed`, …
    pub reason: String,
    /// Who is asked.
    pub route: Route,
    /// The names of the tools offered, in the order they are sent.
    pub tools: Vec<String>,
}

/// What the route of the requests that follow can take, what it costs, and how hard it is to think.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestContext {
    /// The context window, in tokens.
    pub window: u64,
    /// The most tokens an answer may have.
    pub max_output: u64,
    /// The prices that were in force, where they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<PriceList>,
    /// The thinking level that is asked for; none where the provider's own default holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
}

/// The model for the requests that follow was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSelected {
    /// The chosen route.
    pub route: Route,
}

/// The thinking level for the requests that follow was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThinkingSelected {
    /// The level's id. A model that does not take it is asked for the nearest one that it takes.
    pub level: String,
}

impl ThinkingSelected {
    /// The level that leaves the choice to the model.
    pub const DEFAULT: &str = "default";
}

/// A failed request will be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRetry {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// The number of the try to come, from 2.
    pub attempt: u32,
    /// How long the wait is, in milliseconds.
    pub delay_ms: u64,
    /// Why.
    pub code: String,
}

/// The wait is over and the request goes out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRetryStarted {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// The number of the try, from 2.
    pub attempt: u32,
}
