//! Requests to a model: their frame, the route, and tries that are repeated.

use serde::{Deserialize, Serialize};

use crate::id::{Route, SeriesNumber, StepNumber, TurnNumber};

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

/// What the chosen route can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestContext {
    /// The context window, in tokens.
    pub window: u64,
    /// The most tokens an answer may have.
    pub max_output: u64,
}

/// The model for the requests that follow was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSelected {
    /// The chosen route.
    pub route: Route,
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
