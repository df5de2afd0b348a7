//! Asking the client's person about a call. Only the one option that allows is a yes.

use agent_client_protocol::v1::schema::{
    RequestPermissionOutcome, RequestPermissionResponse, SessionId,
};
use agent_client_protocol::{Error, ErrorCode};
use async_trait::async_trait;
use bridle_agent::{Answer, Approver, Question};
use tokio::sync::mpsc;

use super::outbox::{Ask, ask};
use super::to_acp;

/// The option that lets the call run.
pub(super) const ALLOW_ONCE: &str = "allow_once";

/// The option that does not.
pub(super) const REJECT_ONCE: &str = "reject_once";

/// Asks through the outbox of its session, so that the question comes after the updates that the
/// client must have seen first.
#[derive(Debug)]
pub(super) struct ClientApprover {
    session: SessionId,
    outbox: mpsc::Sender<Ask>,
}

impl ClientApprover {
    pub(super) fn new(session: SessionId, outbox: mpsc::Sender<Ask>) -> Self {
        Self { session, outbox }
    }
}

#[async_trait]
impl Approver for ClientApprover {
    async fn ask(&self, question: Question) -> Answer {
        let request = to_acp::question(self.session.clone(), question);
        ask(&self.outbox, request).await.map_or(Answer::NoApprover, answer)
    }
}

fn answer(response: Result<RequestPermissionResponse, Error>) -> Answer {
    match response.map(|response| response.outcome) {
        Ok(RequestPermissionOutcome::Cancelled) => Answer::Cancelled,
        Ok(RequestPermissionOutcome::Selected(selected)) => match &*selected.option_id.0 {
            ALLOW_ONCE => Answer::AllowOnce,
            REJECT_ONCE => Answer::Reject,
            _ => Answer::ClientError,
        },
        Ok(_) => Answer::ClientError,
        // The client has no such method, so no person can see the question.
        Err(error) if error.code == ErrorCode::METHOD_NOT_FOUND => Answer::NoApprover,
        Err(error) => {
            tracing::warn!(code = i32::from(error.code), "the client failed to answer a question");
            Answer::ClientError
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_allowing_option_allows() {
        let read =
            |outcome| answer(Ok(serde_json::from_value(json!({"outcome": outcome})).unwrap()));
        let selected = |id: &str| read(json!({"outcome": "selected", "optionId": id}));
        assert_eq!(selected("allow_once"), Answer::AllowOnce);
        assert_eq!(selected("reject_once"), Answer::Reject);
        assert_eq!(selected("allow_always"), Answer::ClientError);
        assert_eq!(selected(""), Answer::ClientError);
        assert_eq!(read(json!({"outcome": "cancelled"})), Answer::Cancelled);
        assert_eq!(answer(Err(Error::internal_error())), Answer::ClientError);
        assert_eq!(answer(Err(Error::method_not_found())), Answer::NoApprover);
    }
}
