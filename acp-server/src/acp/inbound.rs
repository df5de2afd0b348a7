//! What the client sends, before the SDK sees it.
//!
//! Every line has a defined outcome: it is handed on (perhaps with the tolerable parts of its
//! parameters repaired), answered with one error, or dropped. Requests behind an unanswered
//! `initialize` are held back, because the SDK would refuse them. Nothing a client sends ends the
//! connection.

mod envelope;
mod handshake;
mod head;
mod lines;
mod prompt;
mod setup;

use std::io;
use std::sync::Arc;

use futures::stream::{self, Stream};
use serde_json::Value;
use tokio::io::AsyncRead;

use self::envelope::{Message, classify, not_understood, unreadable};
use self::lines::{Frame, LineReader, MAX_LINE};
use super::errors;
use super::ledger::{Handshake, Ledger, MAX_OPEN, NotOpened};
use super::outbound::{Outbound, OutputClosed};
use super::steering;

pub(super) use self::setup::notes_in;

/// How many lines are handed on before the dispatch loop, which shares a task with this stream,
/// gets a turn: its queue has no limit of its own.
const LINES_PER_TURN: u32 = 32;

/// The reader of one connection.
pub(super) struct Inbound<R> {
    lines: LineReader<R>,
    outbound: Outbound,
    ledger: Arc<Ledger>,
    initialized: bool,
    handed_on: u32,
}

impl<R: AsyncRead + Send + Unpin + 'static> Inbound<R> {
    pub(super) fn new(input: R, outbound: Outbound, ledger: Arc<Ledger>) -> Self {
        let lines = LineReader::new(input);
        Self { lines, outbound, ledger, initialized: false, handed_on: 0 }
    }

    /// The lines for the SDK. Ends with the input, or when no answer can be delivered any more.
    pub(super) fn into_stream(self) -> impl Stream<Item = io::Result<String>> + Send {
        stream::unfold(self, |mut inbound| async move {
            inbound.next().await.map(|line| (line, inbound))
        })
    }

    async fn next(&mut self) -> Option<io::Result<String>> {
        self.handed_on = self.handed_on.wrapping_add(1);
        if self.handed_on.is_multiple_of(LINES_PER_TURN) {
            tokio::task::yield_now().await;
        }
        loop {
            match self.ledger.settled_handshake().await {
                Handshake::Done => self.initialized = true,
                Handshake::Missing | Handshake::Open => {}
            }
            let frame = match self.lines.next().await {
                Ok(Some(frame)) => frame,
                Ok(None) => return None,
                Err(error) => return Some(Err(error)),
            };
            match self.take(frame).await {
                Ok(Some(line)) => return Some(Ok(line)),
                Ok(None) => {}
                Err(OutputClosed) => return None,
            }
        }
    }

    /// Decides on one frame; `None` when it needs nothing more.
    async fn take(&mut self, frame: Frame) -> Result<Option<String>, OutputClosed> {
        let message = match frame {
            Frame::Line(line) => classify(line),
            Frame::TooLong(head) => unreadable(&head, errors::line_too_long(MAX_LINE)),
        };
        let message = match message {
            // Without a method, so it was to be an answer.
            Message::Malformed(id, _) if self.ledger.has_asked(&id) => not_understood(&id),
            message => message,
        };
        match message {
            Message::Malformed(id, error) => {
                self.outbound.answer(&id, &error).await?;
                Ok(None)
            }
            Message::Dropped => Ok(None),
            Message::Response(line) => Ok(Some(line)),
            // Notifications are never answered, so before the handshake they are dropped.
            Message::Notification(line) => Ok(self.initialized.then_some(line)),
            Message::Request(request) => match self.admit(request) {
                Ok(line) => Ok(Some(line)),
                Err((id, error)) => {
                    self.outbound.answer(&id, &error).await?;
                    Ok(None)
                }
            },
        }
    }

    fn admit(
        &self,
        mut request: envelope::Request,
    ) -> Result<String, (Value, agent_client_protocol::Error)> {
        let id = request.id.clone();
        let refuse = |error| (id.clone(), error);
        let method = request.method.clone();
        let opening = method == "initialize";
        if !opening && !self.initialized {
            return Err(refuse(errors::not_initialized(&method)));
        }
        let changed = match method.as_str() {
            "initialize" => handshake::repair(&mut request.params),
            "session/new" | "session/load" | "session/resume" | "session/fork" => {
                setup::repair(&mut request.params)
            }
            "session/prompt" | steering::METHOD => prompt::repair(&mut request.params),
            _ => Ok(false),
        };
        let changed = changed.map_err(refuse)?;
        self.ledger.open(&id, &method).map_err(|reason| {
            refuse(match reason {
                NotOpened::IdInUse => errors::invalid_request(
                    "another request with this id has not been answered yet",
                ),
                NotOpened::TooMany => errors::too_many_requests(MAX_OPEN),
            })
        })?;
        if opening {
            self.ledger.set_handshake(Handshake::Open);
        }
        Ok(request.into_line(changed))
    }
}

#[cfg(test)]
mod tests;

/// For the fuzz target: what the SDK would get of a line, every repair applied.
#[cfg(fuzzing)]
pub fn fuzz_line(line: &[u8]) -> Option<String> {
    let envelope::Message::Request(mut request) = envelope::classify(line.to_vec()) else {
        return None;
    };
    let repairs = [handshake::repair, setup::repair, prompt::repair];
    let changed = repairs.into_iter().filter_map(|repair| repair(&mut request.params).ok());
    let changed = changed.fold(false, |any, one| any || one);
    Some(request.into_line(changed))
}
