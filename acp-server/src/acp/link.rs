//! The way to the client: the SDK's connection behind the credits.

use std::sync::Arc;

use agent_client_protocol::v1::schema::{SessionId, SessionNotification, SessionUpdate};
use agent_client_protocol::v1::{ConnectionTo, SentRequest};
use agent_client_protocol::{Client, JsonRpcRequest};
use bridle_agent::json_size;
use tokio_util::sync::CancellationToken;

use super::clients::ClientTraits;
use super::credit::Credits;

/// Sends to the client; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Link {
    connection: ConnectionTo<Client>,
    credits: Arc<Credits>,
    /// Cancelled when nothing can reach the client any more; sends are dropped then.
    gone: CancellationToken,
    pub(super) client: ClientTraits,
}

impl Link {
    pub(super) fn new(
        connection: ConnectionTo<Client>,
        credits: Arc<Credits>,
        gone: CancellationToken,
        client: ClientTraits,
    ) -> Self {
        Self { connection, credits, gone, client }
    }

    /// Waits until an update may be sent; a client that is gone takes everything.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn room(&self) {
        tokio::select! {
            biased;
            () = self.credits.ready() => {}
            () = self.gone.cancelled() => {}
        }
    }

    /// Sends one update. Call [`Link::room`] first.
    pub(super) fn update(&self, session: &SessionId, update: SessionUpdate) {
        if self.gone.is_cancelled() {
            return;
        }
        let notification = SessionNotification::new(session.clone(), update);
        let size = json_size(&notification);
        let sent = self.credits.spend(size, || self.connection.send_notification(notification));
        if let Err(error) = sent {
            // The connection is being taken down; what it does not take is lost with it.
            tracing::debug!(code = i32::from(error.code), "an update could not be sent");
        }
    }

    /// Sends a question.
    pub(super) fn ask<R: JsonRpcRequest>(&self, request: R) -> SentRequest<R::Response> {
        self.connection.send_request(request)
    }
}
