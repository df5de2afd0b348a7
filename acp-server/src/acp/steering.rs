//! `_session/steering`: a message for the turn that runs, in the form that several agents share.
//!
//! The client is answered when it is known what became of the message: the running turn took it up
//! (`injected`), a turn of its own began (`startedNewTurn`), or, for a client that asks for that,
//! no turn took it and it is the client's to send as a prompt (`promptRequired`). A message that a
//! cancel kept from the model is answered with an error.

use std::collections::HashMap;

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{ContentBlock, Meta, SessionId};
use agent_client_protocol::{Error, JsonRpcRequest, JsonRpcResponse};
use bridle_agent::TurnOutcome;
use bridle_session::{Failure, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio_util::sync::DropGuard;

use super::errors;
use super::outbox::answer;

/// The method.
pub(super) const METHOD: &str = "_session/steering";

/// A message for the running turn.
#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcRequest)]
#[serde(rename_all = "camelCase")]
#[request(method = "_session/steering", response = SteeringResponse)]
pub(super) struct SteeringRequest {
    pub(super) session_id: SessionId,
    pub(super) prompt: Vec<ContentBlock>,
    #[serde(rename = "_meta", default, skip_serializing_if = "Option::is_none")]
    meta: Option<Meta>,
}

/// What became of it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcResponse)]
pub(super) struct SteeringResponse {
    outcome: Outcome,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<Reason>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Outcome {
    Injected,
    StartedNewTurn,
    PromptRequired,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Reason {
    NoRunningTurn,
}

impl SteeringResponse {
    fn injected() -> Self {
        Self { outcome: Outcome::Injected, reason: None }
    }

    fn started_new_turn() -> Self {
        Self { outcome: Outcome::StartedNewTurn, reason: None }
    }

    fn prompt_required() -> Self {
        Self { outcome: Outcome::PromptRequired, reason: Some(Reason::NoRunningTurn) }
    }
}

/// What a message does when no turn runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WhenIdle {
    /// It begins one.
    StartTurn,
    /// It is given back.
    GiveBack,
}

impl SteeringRequest {
    /// What the client asks for; every unknown value means what absence means.
    pub(super) fn when_idle(&self) -> WhenIdle {
        let steering = self.meta.as_ref().and_then(|meta| meta.get("steering"));
        match steering.and_then(|steering| steering.get("idleBehavior")).and_then(Value::as_str) {
            Some("promptRequired") => WhenIdle::GiveBack,
            _ => WhenIdle::StartTurn,
        }
    }
}

/// The `_meta` of the answer to `initialize`.
pub(super) fn capability() -> Meta {
    Meta::from_iter([("steering".to_owned(), json!({"supported": true}))])
}

/// The messages of one session that the agent has and that are not over.
#[derive(Debug, Default)]
pub(super) struct Steerings(HashMap<MessageId, Steering>);

/// One of them.
#[derive(Debug)]
pub(super) struct Steering {
    /// `None` when the client has been answered.
    pub(super) responder: Option<Responder<SteeringResponse>>,
    /// Whether a cancel was sent behind it.
    pub(super) is_cancelled: bool,
    /// Ends whatever watches this message.
    pub(super) _answered: DropGuard,
}

impl Steerings {
    pub(super) fn open(&mut self, id: MessageId, steering: Steering) {
        self.0.insert(id, steering);
    }

    pub(super) fn take(&mut self, id: &MessageId) -> Option<Steering> {
        self.0.remove(id)
    }

    /// A cancel was sent behind them all.
    pub(super) fn cancel(&mut self) {
        self.0.values_mut().for_each(|steering| steering.is_cancelled = true);
    }

    /// A cancel was sent for one of them.
    pub(super) fn cancel_one(&mut self, id: &MessageId) {
        if let Some(steering) = self.0.get_mut(id) {
            steering.is_cancelled = true;
        }
    }

    /// The running turn took it up.
    pub(super) fn joined(&mut self, id: &MessageId) {
        self.respond(id, SteeringResponse::injected());
    }

    /// A turn begins with it.
    pub(super) fn began(&mut self, id: &MessageId) {
        self.respond(id, SteeringResponse::started_new_turn());
    }

    fn respond(&mut self, id: &MessageId, response: SteeringResponse) {
        let responder = self.0.get_mut(id).and_then(|steering| steering.responder.take());
        if let Some(responder) = responder {
            answer(responder.respond(response));
        }
    }

    /// The agent does not take it.
    pub(super) fn refuse(&mut self, id: &MessageId, error: Error) {
        if let Some(responder) = self.take(id).and_then(|steering| steering.responder) {
            answer(responder.respond_with_error(error));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Steering {
    /// The turn that took it is over, or none did. The failure of a turn that nobody waits for
    /// comes back.
    pub(super) fn end(self, outcome: TurnOutcome) -> Option<Failure> {
        let Some(responder) = self.responder else {
            return match outcome {
                TurnOutcome::Failed(failure) => Some(failure),
                _ => None,
            };
        };
        answer(match outcome {
            TurnOutcome::Cancelled if self.is_cancelled => {
                responder.respond_with_error(errors::steering_cancelled())
            }
            TurnOutcome::Cancelled => responder.respond(SteeringResponse::prompt_required()),
            TurnOutcome::Failed(failure) => {
                responder.respond_with_error(errors::turn_failed(&failure))
            }
            _ => responder.respond(SteeringResponse::started_new_turn()),
        });
        None
    }
}
