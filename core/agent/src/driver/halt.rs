//! Why a turn stops before its natural end.

use bridle_model::{FailureCode, ModelFailure};
use bridle_session::{Failure, TurnEndReason};

use crate::recorder::RecordError;
use crate::update::TurnOutcome;

/// What ends a turn early.
#[derive(Debug)]
pub(super) enum Halt {
    /// Somebody cancelled.
    Cancelled,
    /// Something failed.
    Failed(Failure),
}

impl From<RecordError> for Halt {
    fn from(error: RecordError) -> Self {
        Self::Failed(error.failure())
    }
}

impl From<ModelFailure> for Halt {
    fn from(failure: ModelFailure) -> Self {
        match failure.code {
            FailureCode::Cancelled => Self::Cancelled,
            _ => Self::Failed(stored(&failure)),
        }
    }
}

impl Halt {
    /// The reason that the log keeps; `cause` is what cancelled last.
    pub(super) fn reason(self, cause: &str) -> TurnEndReason {
        match self {
            Self::Cancelled => TurnEndReason::Aborted { cause: cause.to_owned() },
            Self::Failed(failure) => TurnEndReason::Error { failure },
        }
    }
}

/// A model failure as it is stored.
pub(super) fn stored(failure: &ModelFailure) -> Failure {
    Failure {
        code: failure.code.as_str().to_owned(),
        message: failure.message.clone(),
        status: failure.status,
        request_id: failure.request_id.clone(),
    }
}

/// How the end of a turn looks to a client.
pub(super) fn outcome(reason: &TurnEndReason) -> TurnOutcome {
    match reason {
        TurnEndReason::Completed | TurnEndReason::Blocked { limit: false, .. } => {
            TurnOutcome::EndTurn
        }
        TurnEndReason::Blocked { limit: true, .. } => TurnOutcome::MaxTurnRequests,
        TurnEndReason::MaxTokens => TurnOutcome::MaxTokens,
        TurnEndReason::Refused => TurnOutcome::Refusal,
        TurnEndReason::Aborted { .. } | TurnEndReason::Interrupted | TurnEndReason::Forked => {
            TurnOutcome::Cancelled
        }
        TurnEndReason::Error { failure } => TurnOutcome::Failed(failure.clone()),
    }
}
