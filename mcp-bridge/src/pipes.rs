//! The wire to a server that is spoken with over pipes: one JSON-RPC message a line.
//!
//! It answers in the server's place where the official client would wait for ever: for a line that is
//! too long and for an error without an id. Lines that are no messages are skipped. Results reach the
//! bridge as they were written, so that one bad item costs no more than itself (notes on MCP, 1.9).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_world::process::Dialogue;
use rmcp::model::{CustomResult, ErrorData, JsonRpcMessage, RequestId, ServerResult};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::request::Fault;

/// The longest line that is taken, in bytes.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// How much of a longer line is kept at each end, to find out whose answer it is, in bytes.
const ENDS: usize = 512;

/// The size of one read, in bytes.
const READ_SIZE: usize = 64 * 1024;

/// How many lines that are no messages are told of one by one.
const MAX_TOLD: usize = 5;

/// Both directions.
pub(crate) struct Pipes {
    server: Arc<str>,
    /// `None` once it is closed.
    input: Arc<tokio::sync::Mutex<Option<Sender>>>,
    output: Receiver,
    line: Line,
    /// Requests of ours without an answer, oldest first.
    waiting: Arc<Mutex<Vec<Waiting>>>,
    /// Answers that were given in the server's place and not yet received.
    own: VecDeque<RxJsonRpcMessage<RoleClient>>,
    /// How many lines were no messages.
    junk: usize,
}

struct Waiting {
    id: RequestId,
    /// The official client wants the answer in its own type.
    typed: bool,
}

/// The line that is being read.
#[derive(Default)]
struct Line {
    /// What was read and belongs to no finished line. At its limit only the two ends of a line are in it.
    buffer: Vec<u8>,
    /// How much of the buffer holds no line end.
    searched: usize,
    /// How many bytes of the line were left out between the two ends.
    omitted: usize,
}

impl Pipes {
    pub(crate) fn new(server: Arc<str>, dialogue: Dialogue) -> Self {
        Self {
            server,
            input: Arc::new(tokio::sync::Mutex::new(Some(dialogue.input))),
            output: dialogue.output,
            line: Line::default(),
            waiting: Arc::default(),
            own: VecDeque::new(),
            junk: 0,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message of a line; `None` where it holds none.
    fn message(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        let Ok(Value::Object(mut message)) = serde_json::from_slice(line) else {
            return self.skip(line);
        };
        if message.contains_key("method") {
            let read = serde_json::from_value(Value::Object(message.clone())).ok();
            // Whoever asks in a way that cannot be read is told so instead of waiting for ever.
            let asks = message.contains_key("id") && message.remove("params").is_some();
            let bare = || serde_json::from_value(Value::Object(message)).ok();
            return match read.or_else(|| asks.then(bare).flatten()) {
                Some(message) => Some(message),
                None => self.skip(line),
            };
        }
        let id = message.get("id").cloned().and_then(|id| serde_json::from_value(id).ok());
        let Some(id) = id else {
            let error = message.remove("error")?;
            self.answer_all(serde_json::from_value(error).unwrap_or_else(|_| nonsense()));
            return self.own.pop_front();
        };
        let typed = self.settle(&id)?.typed;
        let answer = match message.remove("result") {
            Some(result) if typed => match serde_json::from_value(result) {
                Ok(result) => JsonRpcMessage::response(ServerResult::InitializeResult(result), id),
                Err(error) => JsonRpcMessage::error(malformed(&error), Some(id)),
            },
            Some(result) => {
                JsonRpcMessage::response(ServerResult::CustomResult(CustomResult(result)), id)
            }
            None => {
                let error = message.remove("error").and_then(|it| serde_json::from_value(it).ok());
                JsonRpcMessage::error(error.unwrap_or_else(nonsense), Some(id))
            }
        };
        Some(answer)
    }

    /// Takes the request off those without an answer; `None` for an answer that nobody waits for.
    fn settle(&self, id: &RequestId) -> Option<Waiting> {
        let mut waiting = self.waiting();
        let at = waiting.iter().position(|it| it.id == *id)?;
        Some(waiting.remove(at))
    }

    /// Ends every request that waits: whose answer this was cannot be known, and none may wait for ever.
    fn answer_all(&mut self, error: ErrorData) {
        let all = std::mem::take(&mut *self.waiting());
        let answers = all.into_iter().map(|it| JsonRpcMessage::error(error.clone(), Some(it.id)));
        self.own.extend(answers);
    }

    /// A line that is too long is an error of the request that it answers.
    fn too_long(&mut self, ends: &[u8], omitted: usize) -> Option<RxJsonRpcMessage<RoleClient>> {
        let len = ends.len() + omitted;
        let text = format!("it has {len} bytes, and {MAX_LINE} are the most");
        let error = Fault::Unreadable.answer(text);
        let (head, tail) = ends.split_at(ends.len() / 2);
        let named: Vec<_> = self
            .waiting()
            .iter()
            .filter(|it| names(head, &it.id) || names(tail, &it.id))
            .map(|it| it.id.clone())
            .collect();
        match named.as_slice() {
            [id] => {
                self.settle(id);
                Some(JsonRpcMessage::error(error, Some(id.clone())))
            }
            _ => {
                self.answer_all(error);
                self.own.pop_front()
            }
        }
    }

    fn skip(&mut self, line: &[u8]) -> Option<RxJsonRpcMessage<RoleClient>> {
        self.junk += 1;
        if self.junk <= MAX_TOLD && !line.trim_ascii().is_empty() {
            let head = String::from_utf8_lossy(line.get(..200).unwrap_or(line));
            tracing::warn!(server = &*self.server, line = %head, "a line is no message");
        }
        None
    }
}

/// Whether this end of an answer gives it the id, at the outermost level as far as can be seen.
fn names(end: &[u8], id: &RequestId) -> bool {
    let Ok(id) = serde_json::to_string(id) else { return false };
    let text = String::from_utf8_lossy(end);
    let text: String = text.chars().filter(|c| !c.is_whitespace()).collect();
    let member = format!("\"id\":{id}");
    let starts = text.strip_prefix('{').is_some_and(|text| {
        let text = text.strip_prefix("\"jsonrpc\":\"2.0\",").unwrap_or(text);
        text.strip_prefix(member.as_str()).is_some_and(|rest| rest.starts_with(','))
    });
    let ends = text.strip_suffix('}').is_some_and(|text| {
        let text = text.strip_suffix(",\"jsonrpc\":\"2.0\"").unwrap_or(text);
        text.strip_suffix(member.as_str()).is_some_and(|rest| {
            rest.strip_suffix("\"jsonrpc\":\"2.0\",").unwrap_or(rest).ends_with("},")
        })
    });
    starts || ends
}

fn nonsense() -> ErrorData {
    Fault::Unreadable.answer("it answered nonsense")
}

fn malformed(error: &serde_json::Error) -> ErrorData {
    Fault::Unreadable.answer(format!("its answer is malformed: {error}"))
}

impl Transport<RoleClient> for Pipes {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), io::Error>> + Send + 'static {
        if let JsonRpcMessage::Request(request) = &message {
            let typed = request.request.method() == "initialize";
            self.waiting().push(Waiting { id: request.id.clone(), typed });
        }
        let input = Arc::clone(&self.input);
        let line = serde_json::to_vec(&message);
        async move {
            let mut line = line?;
            line.push(b'\n');
            match &mut *input.lock().await {
                Some(input) => input.write_all(&line).await,
                None => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }
    }

    /// Cancel safe: what was read stays in the buffer.
    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            if let Some(answer) = self.own.pop_front() {
                return Some(answer);
            }
            while let Some((line, omitted)) = self.line.take() {
                let message = match omitted {
                    0 => self.message(&line),
                    _ => self.too_long(&line, omitted),
                };
                if message.is_some() {
                    return message;
                }
            }
            self.line.buffer.reserve(READ_SIZE);
            match self.output.read_buf(&mut self.line.buffer).await {
                Ok(0) | Err(_) => return None,
                Ok(_) => {}
            }
        }
    }

    async fn close(&mut self) -> Result<(), io::Error> {
        self.input.lock().await.take();
        Ok(())
    }
}

impl Line {
    /// The next finished line without its end, and how many bytes were left out of it.
    fn take(&mut self) -> Option<(Vec<u8>, usize)> {
        let rest = self.buffer.get(self.searched..)?;
        let Some(end) = rest.iter().position(|byte| *byte == b'\n') else {
            self.searched = self.buffer.len();
            self.shorten();
            return None;
        };
        let end = self.searched + end;
        let rest = self.buffer.split_off(end + 1);
        let mut line = std::mem::replace(&mut self.buffer, rest);
        line.truncate(end);
        self.searched = 0;
        let mut omitted = std::mem::take(&mut self.omitted);
        if omitted == 0 && line.len() > MAX_LINE {
            omitted = cut(&mut line);
        } else if omitted > 0 {
            omitted += cut(&mut line);
        }
        Some((line, omitted))
    }

    /// Keeps only the two ends of an unfinished line that is too long.
    fn shorten(&mut self) {
        if self.omitted > 0 || self.buffer.len() > MAX_LINE {
            self.omitted += cut(&mut self.buffer);
            self.buffer.shrink_to(READ_SIZE);
            self.searched = self.buffer.len();
        }
    }
}

/// Takes out all but the two ends; how many bytes that were.
fn cut(line: &mut Vec<u8>) -> usize {
    let omitted = line.len().saturating_sub(2 * ENDS);
    if omitted > 0 {
        line.drain(ENDS..ENDS + omitted);
    }
    omitted
}

#[cfg(test)]
mod tests;
