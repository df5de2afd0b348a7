//! What a server says, read to its end: answers go to whoever waits for them, and what it says and asks by itself
//! to a listener.
//!
//! Nothing is waited for here but the server: an answer of ours that cannot be queued is one to a server that asks
//! faster than it reads, and it is given up. So is one whose messages cannot be told from each other any more.

use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bridle_compose::Clock;
use bridle_world::servers::{Secrets, written_out};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Answer, NoAnswer, Pending, lock};
use crate::answer::shown;
use crate::framing::{Frame, Framing, framed, id_in};
use crate::silence::Silence;

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

/// What of a server's output was no message.
#[derive(Default)]
pub(super) struct Misread {
    /// What came since the last message, as far as it is quoted.
    noise: Mutex<String>,
    /// Why the server was given up.
    why: OnceLock<String>,
}

impl Misread {
    /// Why the server was given up.
    pub(super) fn why(&self) -> Option<String> {
        self.why.get().cloned()
    }

    /// What came last that was no message, in words; `None` where a message followed.
    pub(super) fn noise(&self) -> Option<String> {
        let noise = lock(&self.noise);
        (!noise.is_empty()).then(|| format!("what it wrote to its output is no message: {noise}"))
    }
}

/// What reads, and where what it reads goes.
pub(super) struct Reader {
    pub(super) pending: Pending,
    pub(super) silence: Arc<Mutex<Silence>>,
    pub(super) listener: Arc<dyn Listener>,
    /// Answers to what the server asks.
    pub(super) answers: mpsc::Sender<Vec<u8>>,
    pub(super) secrets: Secrets,
    pub(super) misread: Arc<Misread>,
    pub(super) clock: Arc<dyn Clock>,
}

impl Reader {
    /// Reads to the end, and has everybody who waits hear of it.
    pub(super) async fn run(self, output: impl AsyncRead + Unpin, over: CancellationToken) {
        if let Err(why) = self.read(output, &over).await {
            self.misread.why.get_or_init(|| why);
        }
        over.cancel();
        lock(&self.pending).take();
    }

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
        let clean = written_out(text.trim());
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
                    // Without either it says nothing, and nothing is not "none".
                    None => part("result").ok_or(NoAnswer::Garbled),
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
        message: shown(error.get("message")).unwrap_or_else(|| "it refused".to_owned()),
        data: error.get("data").cloned().unwrap_or_default(),
    }
}
