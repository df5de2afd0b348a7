//! The conversation with one server: requests and their answers, and what the server says and asks.
//!
//! One task reads and one writes. The reader never waits for the writer: answers to the server's own
//! requests go through a lane of their own, and a server that asks faster than it reads is given up. So is
//! one whose messages cannot be told from each other any more. An answer that nobody waits for any more is
//! dropped, but noted: a server that let somebody wait in vain is given less time until it answers. When the
//! pipes close, everybody who waits hears it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_world::servers::Secrets;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::framing::{Frame, Framing, framed, id_in};
use crate::silence::Silence;

/// How many messages of ours may wait to be written.
const QUEUE: usize = 64;

/// How many answers to the server's requests may wait to be written.
const ANSWER_QUEUE: usize = 4_096;

/// The size of one read, in bytes.
const READ_SIZE: usize = 64 * 1024;

/// How long nothing may follow what was no message, or a part of one, while somebody waits, until nobody
/// believes that messages come. Up to twice as long for who begins to wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// No such method.
const UNKNOWN_METHOD: i64 = -32601;

/// Hears what a server says by itself, and answers what it asks. Never waits.
pub(crate) trait Listener: Send + Sync + 'static {
    /// Takes note of a notification.
    fn heard(&self, method: &str, params: Value);

    /// Answers a request; `None` for one that is not known.
    fn asked(&self, method: &str, params: Value) -> Option<Value>;
}

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

/// What of a server's output was no message.
#[derive(Default)]
struct Misread {
    /// What came since the last message, as far as it is quoted.
    noise: Mutex<String>,
    /// Why the server was given up.
    why: OnceLock<String>,
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
        let ended = over.clone();
        tasks.spawn(async move {
            if let Err(why) = reader.read(output, &ended).await {
                reader.misread.why.get_or_init(|| why);
            }
            ended.cancel();
            lock(&reader.pending).take();
        });
        tasks.spawn(write(input, messages, answered, closing.clone(), over.clone()));
        let next = AtomicI64::new(1);
        Self { outgoing, pending, next, cancels, clock, closing, over, misread, silence }
    }

    /// Why it is over, where the server was given up.
    pub(crate) fn given_up(&self) -> Option<String> {
        self.misread.why.get().cloned()
    }

    /// What the server wrote last that was no message, in words; `None` where a message followed.
    pub(crate) fn noise(&self) -> Option<String> {
        let noise = lock(&self.misread.noise);
        (!noise.is_empty()).then(|| format!("what it wrote to its output is no message: {noise}"))
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

struct Reader {
    pending: Pending,
    silence: Arc<Mutex<Silence>>,
    listener: Arc<dyn Listener>,
    answers: mpsc::Sender<Vec<u8>>,
    secrets: Secrets,
    misread: Arc<Misread>,
    clock: Arc<dyn Clock>,
}

impl Reader {
    /// Reads to the end.
    ///
    /// # Errors
    /// Why the server is given up before it.
    async fn read(
        &self,
        mut output: impl AsyncRead + Unpin,
        over: &CancellationToken,
    ) -> Result<(), String> {
        let mut framing = Framing::default();
        let mut bytes = vec![0; READ_SIZE];
        // Whether somebody waits since the last look.
        let mut waited = false;
        loop {
            let read = tokio::select! {
                biased;
                read = output.read(&mut bytes) => read,
                () = over.cancelled() => return Ok(()),
                () = self.clock.sleep(PATIENCE), if framing.is_in_doubt() => {
                    let waits = lock(&self.pending).as_ref().is_some_and(|all| !all.is_empty());
                    if waits && waited {
                        return Err(self.unreadable());
                    }
                    waited = waits;
                    continue;
                }
            };
            waited = false;
            let Ok(count) = read else { return Ok(()) };
            if count == 0 {
                return Ok(());
            }
            for frame in framing.push(bytes.get(..count).unwrap_or_default()) {
                self.take(frame).map_err(|()| "it asks faster than it reads".to_owned())?;
            }
            self.note(framing.noise());
            if framing.is_lost() {
                return Err(self.unreadable());
            }
        }
    }

    /// Remembers what was no message.
    fn note(&self, noise: &[u8]) {
        let text = String::from_utf8_lossy(noise);
        let clean = text.trim().replace(|c: char| c.is_control() && c != '\n', "\u{fffd}");
        let clean = clean.lines().collect::<Vec<_>>().join(" | ");
        *lock(&self.misread.noise) = self.secrets.blank(&clean).into_owned();
    }

    fn unreadable(&self) -> String {
        let noise = lock(&self.misread.noise);
        let quoted = if noise.is_empty() { String::new() } else { format!(": {noise}") };
        format!("what it writes to its output cannot be read as messages any more{quoted}")
    }

    /// # Errors
    /// When an answer of ours cannot be queued.
    fn take(&self, frame: Frame) -> Result<(), ()> {
        let mut message = match frame {
            Frame::Message(message) => message,
            Frame::TooLong(beginning) => {
                if let Some(id) = id_in(&beginning) {
                    self.settle(id, Err(NoAnswer::TooLong));
                }
                return Ok(());
            }
            Frame::Garbled(beginning) => {
                tracing::debug!("a body of a language server is no JSON");
                if let Some(id) = id_in(&beginning) {
                    self.settle(id, Err(NoAnswer::Garbled));
                }
                return Ok(());
            }
        };
        // Before anybody reads or keeps any of it.
        self.secrets.blank_in(&mut message);
        let id = message.get("id").filter(|id| !id.is_null()).cloned();
        let method = message.get("method").and_then(Value::as_str).map(str::to_owned);
        let mut part = |name: &str| message.get_mut(name).map(Value::take);
        match (method, id) {
            (Some(method), None) => {
                self.listener.heard(&method, part("params").unwrap_or_default());
            }
            (Some(method), Some(id)) => {
                let answer = self.listener.asked(&method, part("params").unwrap_or_default());
                let answer = match answer {
                    Some(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
                    None => {
                        let error = json!({"code": UNKNOWN_METHOD, "message": "no such method"});
                        json!({"jsonrpc": "2.0", "id": id, "error": error})
                    }
                };
                return self.answers.try_send(framed(&answer)).map_err(drop);
            }
            (None, Some(id)) => {
                // Some servers give numbers back as text.
                let number = id.as_i64().or_else(|| id.as_str()?.parse().ok());
                let Some(number) = number else { return Ok(()) };
                let answer = match part("error").filter(|error| !error.is_null()) {
                    Some(error) => Err(refusal(&error)),
                    None => Ok(part("result").unwrap_or_default()),
                };
                self.settle(number, answer);
            }
            (None, None) => {}
        }
        Ok(())
    }

    fn settle(&self, id: i64, answer: Answer) {
        let waiting = lock(&self.pending).as_mut().and_then(|all| all.remove(&id));
        match waiting {
            // Whoever waited may be gone by now.
            Some(waiting) => drop(waiting.send(answer)),
            None => lock(&self.silence).answered_late(id),
        }
    }
}

fn refusal(error: &Value) -> NoAnswer {
    NoAnswer::Refused {
        code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
        message: error.get("message").and_then(Value::as_str).unwrap_or("it refused").to_owned(),
        data: error.get("data").cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
