//! Credits: how much may be on its way to the client at once.
//!
//! The SDK's outgoing queue has no limit, so a session takes a credit before it hands a
//! notification over and gets it back when the line has been written. Nothing else holds a fast
//! session back when a client reads slowly.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// How many notifications may be under way.
const MAX_MESSAGES: usize = 256;

/// How many bytes of notifications may be under way. One message more may pass, so that a message
/// larger than the limit is not stuck for ever.
const MAX_BYTES: usize = 1024 * 1024;

/// The credits of one connection.
#[derive(Debug, Default)]
pub(super) struct Credits {
    in_flight: Mutex<InFlight>,
    returned: Notify,
}

#[derive(Debug, Default)]
struct InFlight {
    /// The charges in the order in which the lines will be written.
    charges: VecDeque<usize>,
    bytes: usize,
}

impl Credits {
    /// Waits until there is room for a message.
    ///
    /// # Cancel safety
    /// Cancel safe: nothing is taken yet.
    pub(super) async fn ready(&self) {
        loop {
            let mut returned = pin!(self.returned.notified());
            // Registered before the look, so that a credit returned in between wakes us.
            returned.as_mut().enable();
            if self.has_room() {
                return;
            }
            returned.await;
        }
    }

    /// Whether a message may be sent now.
    pub(super) fn has_room(&self) -> bool {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        in_flight.charges.len() < MAX_MESSAGES && in_flight.bytes < MAX_BYTES
    }

    /// How many messages and bytes are under way.
    #[cfg(test)]
    pub(super) fn in_flight(&self) -> (usize, usize) {
        let in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        (in_flight.charges.len(), in_flight.bytes)
    }

    /// Runs `send` and charges `bytes` if it succeeds, under one lock, so that the charges are in
    /// the order of the queue that `send` feeds. `send` must not block.
    ///
    /// # Errors
    /// The error of `send`.
    pub(super) fn spend<T, E>(
        &self,
        bytes: usize,
        send: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = send()?;
        in_flight.charges.push_back(bytes);
        in_flight.bytes = in_flight.bytes.saturating_add(bytes);
        Ok(sent)
    }

    /// Returns the credit of the oldest message under way.
    pub(super) fn written(&self) {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = in_flight.charges.pop_front().unwrap_or(0);
        in_flight.bytes = in_flight.bytes.saturating_sub(bytes);
        drop(in_flight);
        self.returned.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn spend(credits: &Credits, bytes: usize) {
        credits.spend(bytes, || Ok::<(), ()>(())).unwrap();
    }

    #[test]
    fn count_and_bytes_hold_a_sender_back_until_lines_are_written() {
        let credits = Credits::default();
        for _ in 0..MAX_MESSAGES {
            assert!(credits.ready().now_or_never().is_some());
            spend(&credits, 1);
        }
        assert!(credits.ready().now_or_never().is_none());
        credits.written();
        assert!(credits.ready().now_or_never().is_some());

        let credits = Credits::default();
        spend(&credits, 10 * MAX_BYTES);
        assert!(credits.ready().now_or_never().is_none());
        credits.written();
        assert!(credits.ready().now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_waiting_sender_wakes_when_a_line_is_written() {
        let credits = Credits::default();
        spend(&credits, 2 * MAX_BYTES);
        let waiting = credits.ready();
        futures::join!(waiting, async { credits.written() });
    }
}
