//! The one writer of the output: every line that leaves passes here.
//!
//! The SDK's lines come through [`LineSink`], the reader's own answers through
//! [`Outbound::answer`]; both end in one bounded queue that [`write_lines`] empties. On the way,
//! errors are replaced by those of our table, and what a written line sets free is released:
//! credits, open request ids, the handshake gate.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use agent_client_protocol::Error;
use futures::Sink;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use super::credit::Credits;
use super::errors;
use super::ledger::{Handshake, Ledger};

/// How many finished lines may wait for the output.
const QUEUE_LINES: usize = 64;

/// How many bytes are gathered before one write.
const WRITE_BATCH: usize = 64 * 1024;

/// How the SDK begins a session update. Recognising it spares parsing each line of a stream; a
/// line that begins otherwise is parsed.
const UPDATE_PREFIX: &str = r#"{"jsonrpc":"2.0","method":"session/update","#;

/// A line on its way out, and what its writing sets free.
#[derive(Debug)]
struct Line {
    text: String,
    release: Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    Nothing,
    Credit,
    Handshake(Handshake),
}

/// Makes lines for the writer; cheap to clone.
#[derive(Clone, Debug)]
pub(super) struct Outbound {
    lines: mpsc::Sender<Line>,
    ledger: Arc<Ledger>,
}

/// The writer's end of the queue.
#[derive(Debug)]
pub(super) struct Lines(mpsc::Receiver<Line>);

/// The output side has ended; no answer can be delivered any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OutputClosed;

impl Outbound {
    /// The queue between those who make lines and the writer.
    pub(super) fn channel(ledger: Arc<Ledger>) -> (Self, Lines) {
        let (sender, receiver) = mpsc::channel(QUEUE_LINES);
        (Self { lines: sender, ledger }, Lines(receiver))
    }

    /// Answers a line that the SDK must not see.
    pub(super) async fn answer(&self, id: &Value, error: &Error) -> Result<(), OutputClosed> {
        let text = json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string();
        self.lines.send(Line { text, release: Release::Nothing }).await.map_err(|_| OutputClosed)
    }

    /// The sink that the SDK writes to.
    pub(super) fn sink(self) -> LineSink {
        LineSink { queue: PollSender::new(self.lines), ledger: self.ledger }
    }
}

/// Takes the SDK's lines. A line counts as sent when it is in the queue: the writer flushes.
pub(super) struct LineSink {
    queue: PollSender<Line>,
    ledger: Arc<Ledger>,
}

impl Sink<String> for LineSink {
    type Error = io::Error;

    fn poll_ready(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.queue.poll_reserve(cx).map_err(|_| closed())
    }

    fn start_send(mut self: Pin<&mut Self>, text: String) -> io::Result<()> {
        let line = prepare(text, &self.ledger);
        self.queue.send_item(line).map_err(|_| closed())
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.queue.close();
        Poll::Ready(Ok(()))
    }
}

fn closed() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// As much of an outgoing message as decides what is done with it.
#[derive(Deserialize)]
struct Envelope<'a> {
    method: Option<Value>,
    id: Option<Value>,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
}

fn prepare(text: String, ledger: &Ledger) -> Line {
    if text.starts_with(UPDATE_PREFIX) {
        return Line { text, release: Release::Credit };
    }
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
        tracing::error!(bytes = text.len(), "the protocol library made a line that is not JSON");
        return Line { text, release: Release::Nothing };
    };
    if let Some(method) = envelope.method {
        let update = method == "session/update" && envelope.id.is_none();
        if let Some(id) = envelope.id {
            ledger.ask(id);
        }
        return Line { text, release: if update { Release::Credit } else { Release::Nothing } };
    }
    let id = envelope.id.unwrap_or(Value::Null);
    let method = ledger.close(&id);
    let failed = envelope.error.is_some();
    let release = match method.as_deref() {
        Some("initialize") if failed => Release::Handshake(Handshake::Missing),
        Some("initialize") => Release::Handshake(Handshake::Done),
        _ => Release::Nothing,
    };
    let text = match envelope.error {
        None => text,
        Some(raw) => {
            let object: Map<String, Value> = serde_json::from_str(raw.get()).unwrap_or_default();
            let error = errors::outgoing(method.as_deref(), &object);
            json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string()
        }
    };
    Line { text, release }
}

/// Writes lines until every maker of lines is gone. Lines that wait together are written together
/// and flushed once.
///
/// # Errors
/// When the output fails; a client that has gone away is a broken pipe.
pub(super) async fn write_lines(
    Lines(mut lines): Lines,
    mut output: impl AsyncWrite + Send + Unpin,
    credits: Arc<Credits>,
    ledger: Arc<Ledger>,
) -> io::Result<()> {
    let mut batch = Vec::new();
    let mut releases = Vec::new();
    while let Some(first) = lines.recv().await {
        let mut next = Some(first);
        while let Some(line) = next {
            batch.extend_from_slice(line.text.as_bytes());
            batch.push(b'\n');
            releases.push(line.release);
            next = if batch.len() < WRITE_BATCH { lines.try_recv().ok() } else { None };
        }
        output.write_all(&batch).await?;
        output.flush().await?;
        batch.clear();
        // One huge line must not keep its memory for the rest of the session.
        batch.shrink_to(WRITE_BATCH * 2);
        for release in releases.drain(..) {
            match release {
                Release::Nothing => {}
                Release::Credit => credits.written(),
                Release::Handshake(state) => ledger.set_handshake(state),
            }
        }
    }
    output.shutdown().await
}

#[cfg(test)]
mod tests {
    use agent_client_protocol::v1::schema::{
        ContentBlock, ContentChunk, SessionNotification, SessionUpdate,
    };
    use agent_client_protocol::{JsonRpcMessage as _, RawJsonRpcMessage};

    use super::*;

    #[test]
    fn an_update_of_the_sdk_is_recognised_by_its_beginning() {
        let chunk = ContentChunk::new(ContentBlock::from("hi"));
        let update = SessionNotification::new("s", SessionUpdate::AgentMessageChunk(chunk));
        let (method, params) = update.to_untyped_message().unwrap().into_parts();
        let line = serde_json::to_string(&RawJsonRpcMessage::notification(method, params).unwrap());
        assert!(line.unwrap().starts_with(UPDATE_PREFIX));
    }

    #[test]
    fn an_update_spelled_otherwise_still_returns_its_credit() {
        let line = r#"{"method":"session/update","jsonrpc":"2.0","params":{}}"#;
        assert_eq!(prepare(line.to_owned(), &Ledger::new()).release, Release::Credit);
    }

    #[test]
    fn an_error_names_the_method_of_its_request_and_closes_it() {
        let ledger = Ledger::new();
        ledger.open(&json!("a"), "_custom/x").unwrap();
        let line = prepare(
            r#"{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"?","data":"_custom/x"}}"#
                .to_owned(),
            &ledger,
        );
        let sent: Value = serde_json::from_str(&line.text).unwrap();
        assert_eq!(sent["error"]["message"], "Method not found: _custom/x");
        assert_eq!(ledger.close(&json!("a")), None);
    }

    #[tokio::test]
    async fn credits_and_the_handshake_follow_the_written_line() {
        let ledger = Arc::new(Ledger::new());
        let credits = Arc::new(Credits::default());
        let (outbound, lines) = Outbound::channel(ledger.clone());
        ledger.open(&json!(1), "initialize").unwrap();
        ledger.set_handshake(Handshake::Open);
        let mut sink = outbound.sink();
        for text in [
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#,
        ] {
            credits.spend(2_000_000, || Ok::<(), ()>(())).unwrap();
            futures::SinkExt::send(&mut sink, text.to_owned()).await.unwrap();
        }
        futures::SinkExt::close(&mut sink).await.unwrap();
        let mut output = Vec::new();
        write_lines(lines, &mut output, credits, ledger.clone()).await.unwrap();
        assert_eq!(output.iter().filter(|byte| **byte == b'\n').count(), 2);
        assert_eq!(ledger.settled_handshake().await, Handshake::Done);
    }
}
