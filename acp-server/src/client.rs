//! A small ACP client: what `exec` and `demo` drive the server with.
//!
//! It speaks JSON lines over any reader and writer, one call at a time, and needs no task of its
//! own: whatever arrives while a call waits (updates, questions) goes to a [`Host`]. It offers no
//! files and no terminal, so the agent works on the disk itself. It shows notices, so that what the
//! agent says on its own account is never taken for the model's answer.

mod lines;

use std::path::Path;

use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio_util::sync::CancellationToken;

use lines::Lines;

/// The protocol version spoken.
const PROTOCOL_VERSION: u64 = 1;

/// The other half of a client: what to do with updates and questions.
pub trait Host: Send {
    /// Takes one `session/update`: the object with the `sessionUpdate` tag.
    ///
    /// # Errors
    /// What it wrote to has failed; the call ends with [`ClientError::Io`].
    fn update(&mut self, update: &Value) -> std::io::Result<()>;

    /// Answers a `session/request_permission`, given its parameters. The answer is final.
    fn permission(&mut self, request: &Value) -> Verdict;
}

/// The answer to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This call, once.
    Allow,
    /// There is nobody who could say yes or no: the question is answered as a method that this
    /// client does not have.
    Nobody,
}

/// A call that did not succeed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with an error.
    #[error("{message}")]
    Rpc {
        /// The JSON-RPC code.
        code: i64,
        /// What the server says.
        message: String,
    },
    /// The server sent something that is not the protocol.
    #[error("the server sent {0}")]
    Protocol(&'static str),
    /// The server went away in the middle of a call.
    #[error("the server ended before it answered {0}")]
    Ended(String),
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// One connection.
pub struct Client {
    input: Lines<Box<dyn AsyncRead + Send + Unpin>>,
    output: Box<dyn AsyncWrite + Send + Unpin>,
    calls: u64,
}

impl Client {
    /// Speaks over `input` (from the server) and `output` (to it).
    pub fn new(
        input: impl AsyncRead + Send + Unpin + 'static,
        output: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Self {
        Self { input: Lines::new(Box::new(input)), output: Box::new(output), calls: 0 }
    }

    /// Opens the protocol.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn initialize(&mut self, host: &mut dyn Host) -> Result<Value, ClientError> {
        let info = json!({"name": "bridle", "version": env!("CARGO_PKG_VERSION")});
        let params = json!({
            "protocolVersion": PROTOCOL_VERSION,
            "clientInfo": info,
            "clientCapabilities": {
                "fs": {"readTextFile": false, "writeTextFile": false},
                "session": {"notices": {}},
            },
        });
        self.call("initialize", params, host, &CancellationToken::new()).await
    }

    /// Opens a session in `cwd` and returns its id.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn new_session(
        &mut self,
        cwd: &Path,
        host: &mut dyn Host,
    ) -> Result<String, ClientError> {
        let params = json!({"cwd": cwd, "mcpServers": []});
        let result = self.call("session/new", params, host, &CancellationToken::new()).await?;
        let id = result.get("sessionId").and_then(Value::as_str);
        id.map(str::to_owned).ok_or(ClientError::Protocol("a session without an id"))
    }

    /// Runs one prompt to its end and returns the stop reason. Cancelling `cancel` asks the
    /// server to stop; the prompt's own answer is still awaited.
    ///
    /// # Errors
    /// [`ClientError`].
    pub async fn prompt(
        &mut self,
        session: &str,
        text: &str,
        host: &mut dyn Host,
        cancel: &CancellationToken,
    ) -> Result<String, ClientError> {
        let params = json!({"sessionId": session, "prompt": [{"type": "text", "text": text}]});
        let result = self.call("session/prompt", params, host, cancel).await?;
        let reason = result.get("stopReason").and_then(Value::as_str);
        reason.map(str::to_owned).ok_or(ClientError::Protocol("an answer without a stop reason"))
    }

    /// Ends the connection: closes the writer and reads until the server has closed its own.
    ///
    /// # Errors
    /// When reading fails.
    pub async fn close(mut self) -> Result<(), ClientError> {
        self.output.shutdown().await?;
        drop(self.output);
        while self.input.next().await?.is_some() {}
        Ok(())
    }

    async fn call(
        &mut self,
        method: &str,
        params: Value,
        host: &mut dyn Host,
        cancel: &CancellationToken,
    ) -> Result<Value, ClientError> {
        self.calls += 1;
        let id = self.calls;
        let session = params.get("sessionId").cloned().unwrap_or_default();
        self.send(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await?;
        let mut cancelled = false;
        loop {
            let line = tokio::select! {
                biased;
                () = cancel.cancelled(), if !cancelled => {
                    cancelled = true;
                    let params = json!({"sessionId": session});
                    let message =
                        json!({"jsonrpc": "2.0", "method": "session/cancel", "params": params});
                    self.send(&message).await?;
                    continue;
                }
                line = self.input.next() => line?,
            };
            let line = line.ok_or_else(|| ClientError::Ended(method.to_owned()))?;
            let message: Value = serde_json::from_slice(&line)
                .map_err(|_| ClientError::Protocol("a line that is not JSON"))?;
            if let Some(method) = message.get("method").and_then(Value::as_str) {
                self.incoming(method, &message, host, cancelled).await?;
            } else if message.get("id").and_then(Value::as_u64) == Some(id) {
                return answer(message);
            }
        }
    }

    /// Handles a notification or a request of the server.
    async fn incoming(
        &mut self,
        method: &str,
        message: &Value,
        host: &mut dyn Host,
        cancelled: bool,
    ) -> Result<(), ClientError> {
        let null = Value::Null;
        let params = message.get("params").unwrap_or(&null);
        let Some(id) = message.get("id") else {
            if method == "session/update" {
                host.update(params.get("update").unwrap_or(&null))?;
            }
            return Ok(());
        };
        let reply = match method {
            // The protocol asks a client to answer every open question once it has cancelled.
            "session/request_permission" if cancelled => {
                json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": {"outcome": "cancelled"}}})
            }
            "session/request_permission" => match host.permission(params) {
                Verdict::Allow => {
                    let outcome = allowed(params);
                    json!({"jsonrpc": "2.0", "id": id, "result": {"outcome": outcome}})
                }
                Verdict::Nobody => no_method(id),
            },
            _ => no_method(id),
        };
        self.send(&reply).await
    }

    async fn send(&mut self, message: &Value) -> Result<(), ClientError> {
        let mut line = message.to_string();
        line.push('\n');
        self.output.write_all(line.as_bytes()).await?;
        self.output.flush().await?;
        Ok(())
    }
}

fn no_method(id: &Value) -> Value {
    let error = json!({"code": -32601, "message": "Method not found"});
    json!({"jsonrpc": "2.0", "id": id, "error": error})
}

/// The option that allows once, or a cancel when the question offers none.
fn allowed(request: &Value) -> Value {
    let options = request.get("options").and_then(Value::as_array);
    let chosen = options
        .into_iter()
        .flatten()
        .find(|option| option.get("kind").and_then(Value::as_str) == Some("allow_once"))
        .and_then(|option| option.get("optionId"));
    match chosen {
        Some(id) => json!({"outcome": "selected", "optionId": id}),
        None => json!({"outcome": "cancelled"}),
    }
}

fn answer(mut message: Value) -> Result<Value, ClientError> {
    if let Some(error) = message.get("error") {
        let text = error.get("message").and_then(Value::as_str).unwrap_or("unknown error");
        return Err(ClientError::Rpc {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message: text.to_owned(),
        });
    }
    message
        .get_mut("result")
        .map(Value::take)
        .ok_or(ClientError::Protocol("an answer without a result"))
}

#[cfg(test)]
mod tests;
