//! The conversation with one server: what it is told and asked, and who waits for which answer.
//!
//! One task reads (`connection/reader.rs`) and one writes. The reader never waits for the writer: answers to the
//! server's own requests go through a lane of their own. An answer that nobody waits for any more is dropped, but
//! noted: a server that let somebody wait in vain is given less time until it answers. When the pipes close,
//! everybody who waits hears it.

mod reader;

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_world::servers::Secrets;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::framing::framed;
use crate::silence::Silence;

pub(crate) use reader::Listener;
use reader::{Misread, Reader};

/// How many messages of ours may wait to be written.
const QUEUE: usize = 64;

/// How many answers to the server's requests may wait to be written.
const ANSWER_QUEUE: usize = 4_096;

/// Why a request has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum NoAnswer {
    /// The server refused it.
    #[error("{message} ({code})")]
    Refused {
        /// The protocol's code.
        code: i64,
        /// Why.
        message: String,
        /// What it says besides.
        data: Value,
    },
    /// Its answer was too long to be read.
    #[error("its answer was longer than 16 MiB")]
    TooLong,
    /// Its answer was no JSON.
    #[error("its answer cannot be read")]
    Garbled,
    /// It did not answer in time.
    #[error("it did not answer within {} s", .0.as_secs_f64())]
    TimedOut(Duration),
    /// It did not answer in the short time that one has which did not answer before.
    #[error("it did not answer within {} s, nor before", .0.as_secs_f64())]
    StillSilent(Duration),
    /// Nobody wants the answer any more.
    #[error("the request was cancelled")]
    Cancelled,
    /// The conversation is over.
    #[error("the server has ended")]
    Gone,
}

type Answer = Result<Value, NoAnswer>;

/// The requests that wait for an answer; `None` once the conversation is over.
type Pending = Arc<Mutex<Option<HashMap<i64, oneshot::Sender<Answer>>>>>;

/// How a server is spoken with.
pub(crate) struct Manners {
    /// Whether it bears that a request is cancelled.
    pub(crate) cancels: bool,
    /// What nobody is to read of what it says.
    pub(crate) secrets: Secrets,
}

/// A conversation. Dropped, it ends.
pub(crate) struct Connection {
    outgoing: mpsc::Sender<Vec<u8>>,
    pending: Pending,
    next: AtomicI64,
    /// Whether the server bears that a request is cancelled.
    cancels: bool,
    clock: Arc<dyn Clock>,
    /// Told to end: nothing more is written, and the server reads the end of its input.
    closing: CancellationToken,
    /// Cancelled when nothing more can be heard.
    pub(crate) over: CancellationToken,
    misread: Arc<Misread>,
    silence: Arc<Mutex<Silence>>,
}

impl Connection {
    /// Begins a conversation over these pipes.
    pub(crate) fn new(
        input: impl AsyncWrite + Send + Unpin + 'static,
        output: impl AsyncRead + Send + Unpin + 'static,
        listener: Arc<dyn Listener>,
        manners: Manners,
        clock: Arc<dyn Clock>,
        tasks: &TaskSet,
    ) -> Self {
        let (outgoing, messages) = mpsc::channel(QUEUE);
        let (answers, answered) = mpsc::channel(ANSWER_QUEUE);
        let pending: Pending = Arc::new(Mutex::new(Some(HashMap::new())));
        let (closing, over) = (CancellationToken::new(), CancellationToken::new());
        let Manners { cancels, secrets } = manners;
        let (misread, silence) = (Arc::<Misread>::default(), Arc::<Mutex<Silence>>::default());
        let reader = Reader {
            pending: Arc::clone(&pending),
            silence: Arc::clone(&silence),
            listener,
            answers,
            secrets,
            misread: Arc::clone(&misread),
            clock: Arc::clone(&clock),
        };
        tasks.spawn(reader.run(output, over.clone()));
        tasks.spawn(write(input, messages, answered, closing.clone(), over.clone()));
        let next = AtomicI64::new(1);
        Self { outgoing, pending, next, cancels, clock, closing, over, misread, silence }
    }

    /// Why it is over, where the server was given up.
    pub(crate) fn given_up(&self) -> Option<String> {
        self.misread.why()
    }

    /// What the server wrote last that was no message, in words; `None` where a message followed.
    pub(crate) fn noise(&self) -> Option<String> {
        self.misread.noise()
    }

    /// Tells the server something.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    ///
    /// # Cancel safety
    /// Cancel safe: it is told whole or not at all.
    pub(crate) async fn tell(&self, method: &str, params: Option<Value>) -> Result<(), NoAnswer> {
        let message = framed(&message(None, method, params));
        let sent = self.outgoing.send(message);
        tokio::select! {
            biased;
            () = self.over.cancelled() => Err(NoAnswer::Gone),
            sent = sent => sent.map_err(|_| NoAnswer::Gone),
        }
    }

    /// Asks the server something and waits for the answer, but not longer than `limit`; for a moment only where
    /// it did not answer before.
    ///
    /// # Errors
    /// [`NoAnswer`].
    ///
    /// # Cancel safety
    /// When it is dropped, the server is told that nobody waits any more, where it bears that.
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Option<Value>,
        limit: Duration,
        token: &CancellationToken,
    ) -> Answer {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let patience = lock(&self.silence).patience(method).filter(|patience| *patience < limit);
        let (sender, answer) = oneshot::channel();
        lock(&self.pending).as_mut().ok_or(NoAnswer::Gone)?.insert(id, sender);
        let mut waiting = Waiting { connection: self, id, sent: false };
        let asking = async {
            let message = framed(&message(Some(id), method, params));
            self.outgoing.send(message).await.map_err(|_| NoAnswer::Gone)?;
            waiting.sent = true;
            let answer = answer.await.unwrap_or(Err(NoAnswer::Gone));
            lock(&self.silence).answered(method);
            answer
        };
        tokio::select! {
            biased;
            answer = asking => answer,
            () = token.cancelled() => Err(NoAnswer::Cancelled),
            () = self.over.cancelled() => Err(NoAnswer::Gone),
            () = self.clock.sleep(patience.unwrap_or(limit)) => {
                lock(&self.silence).gave_up(id, method, patience.unwrap_or(limit));
                Err(patience.map_or(NoAnswer::TimedOut(limit), NoAnswer::StillSilent))
            }
        }
    }

    /// Says nothing more: the server reads the end of its input once it has read what was said.
    pub(crate) fn hang_up(&self) {
        self.closing.cancel();
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// A request that is under way.
struct Waiting<'a> {
    connection: &'a Connection,
    id: i64,
    sent: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = lock(&self.connection.pending).as_mut().and_then(|all| all.remove(&self.id));
        // Its answer has come otherwise.
        if waited.is_some() && self.sent && self.connection.cancels {
            let params = Some(json!({"id": self.id}));
            let cancel = framed(&message(None, "$/cancelRequest", params));
            // A server that reads nothing learns nothing either.
            self.connection.outgoing.try_send(cancel).ok();
        }
    }
}

fn message(id: Option<i64>, method: &str, params: Option<Value>) -> Value {
    let mut message = json!({"jsonrpc": "2.0"});
    if let Some(id) = id {
        put(&mut message, "id", json!(id));
    }
    put(&mut message, "method", json!(method));
    // Strict servers refuse `null` where there are none.
    if let Some(params) = params {
        put(&mut message, "params", params);
    }
    message
}

/// Gives an object a field.
pub(crate) fn put(object: &mut Value, name: &str, value: Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.insert(name.to_owned(), value);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes until there is nothing more to say, or nobody reads it.
async fn write(
    mut input: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Vec<u8>>,
    mut answers: mpsc::Receiver<Vec<u8>>,
    closing: CancellationToken,
    over: CancellationToken,
) {
    loop {
        let next = tokio::select! {
            biased;
            () = over.cancelled() => None,
            Some(answer) = answers.recv() => Some(answer),
            message = messages.recv() => message,
            () = closing.cancelled() => None,
        };
        let Some(next) = next else { return };
        let written = tokio::select! {
            biased;
            written = async {
                input.write_all(&next).await?;
                input.flush().await
            } => written,
            () = over.cancelled() => return,
        };
        if written.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
