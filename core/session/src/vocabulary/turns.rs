//! Turns, their steps, and how they end.

use serde::{Deserialize, Serialize};

use crate::id::{StepNumber, TurnNumber};

/// A turn opened; logged before its input is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// Which turn.
    pub turn: TurnNumber,
}

/// A turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Which turn.
    pub turn: TurnNumber,
    /// Why.
    pub reason: TurnEndReason,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// The model had nothing more to do.
    Completed,
    /// A hook, a budget or a guard stopped it.
    Blocked {
        /// What stopped it, for the person.
        message: String,
        /// Whether a budget or guard (not a hook) did.
        limit: bool,
    },
    /// The model hit its output limit.
    MaxTokens,
    /// The model refused.
    Refused,
    /// A person or the client cancelled.
    Aborted {
        /// What asked for it: `cancel`, `close`, `eof`.
        cause: String,
    },
    /// The turn failed.
    Error {
        /// What failed.
        failure: Failure,
    },
    /// The process died in mid-turn; written by repair.
    Interrupted,
    /// A fork cut the turn open; written by repair.
    Forked,
}

/// A failure as it is stored: never a secret, never a provider's raw body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A short stable code: `auth`, `rate-limited`, `overloaded`, `transport`, …
    pub code: String,
    /// One sentence for a person.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's request id, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A step (one request and its tool calls) began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStart {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
}

/// A step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
}
