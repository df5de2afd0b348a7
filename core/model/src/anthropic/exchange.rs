//! One request and its answer over HTTP: connecting, reading, silence, cancellation.
//!
//! Owns the connection for the time of the call. Whatever ends the call early drops the response,
//! and with it the connection.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::time::Duration;

use reqwest::Response;
use reqwest::header::CONTENT_TYPE;
use tokio_util::sync::CancellationToken;

use super::AnthropicAdapter;
use super::decode::Decoder;
use super::failure::{self, Head};
use crate::{Chunk, FailureCode, ModelFailure, ModelRequest};

/// The most bytes that are read of an error's body.
const MAX_ERROR_BODY: usize = 64 << 10;

/// How long the end of the body may take after the end of the answer. Reading to the end lets the
/// next request use the connection again.
const MAX_DRAIN: Duration = Duration::from_millis(50);

/// The state of one call.
pub(super) struct Exchange {
    adapter: AnthropicAdapter,
    token: CancellationToken,
    phase: Phase,
    decoder: Decoder,
    /// Chunks of one read that have not been taken.
    ready: VecDeque<Chunk>,
    /// What to end with once `ready` is empty.
    failed: Option<ModelFailure>,
}

enum Phase {
    Unsent(Box<ModelRequest>),
    Reading { response: Response, request_id: Option<String> },
    Ended,
}

impl Exchange {
    pub(super) fn new(
        adapter: AnthropicAdapter,
        request: ModelRequest,
        token: CancellationToken,
    ) -> Self {
        let decoder = adapter.decoder(HashMap::new());
        Self {
            adapter,
            token,
            phase: Phase::Unsent(Box::new(request)),
            decoder,
            ready: VecDeque::new(),
            failed: None,
        }
    }

    /// The next chunk; `None` after the last one or after an error.
    ///
    /// # Cancel safety
    /// Not cancel safe: a dropped future closes the connection, and the next call ends the
    /// stream. The stream that is made of these calls keeps each future until it is done.
    pub(super) async fn next(&mut self) -> Option<Result<Chunk, ModelFailure>> {
        loop {
            if self.token.is_cancelled() && !matches!(self.phase, Phase::Ended) {
                return self.fail(ModelFailure::cancelled());
            }
            if let Some(chunk) = self.ready.pop_front() {
                if matches!(chunk, Chunk::Stop(_)) {
                    self.release().await;
                }
                return Some(Ok(chunk));
            }
            if let Some(failure) = self.failed.take() {
                return self.fail(failure);
            }
            match std::mem::replace(&mut self.phase, Phase::Ended) {
                Phase::Unsent(request) => match self.open(&request).await {
                    Ok(phase) => self.phase = phase,
                    Err(failure) => return self.fail(failure),
                },
                Phase::Reading { mut response, request_id } => {
                    self.failed = self
                        .read(&mut response)
                        .await
                        .err()
                        .map(|failure| ModelFailure { request_id: request_id.clone(), ..failure });
                    self.phase = Phase::Reading { response, request_id };
                }
                Phase::Ended => return None,
            }
        }
    }

    /// Ends the stream with `failure` and with nothing else.
    fn fail(&mut self, failure: ModelFailure) -> Option<Result<Chunk, ModelFailure>> {
        self.phase = Phase::Ended;
        self.ready.clear();
        self.failed = None;
        Some(Err(failure))
    }

    /// Sends the request and looks at the head of the answer.
    async fn open(&mut self, request: &ModelRequest) -> Result<Phase, ModelFailure> {
        let (body, own_names) = self.adapter.build(request)?;
        self.decoder = self.adapter.decoder(own_names);
        let adapter = &self.adapter;
        let client = self.guard(adapter.http.client_for(&adapter.url)).await??;
        let send =
            client.post(adapter.url.clone()).headers(adapter.headers.clone()).body(body).send();
        let mut response = self.guard(send).await?.map_err(|error| self.cut(&error))?;
        let now = adapter.http.clock().now();
        let head = Head::new(response.status(), response.headers(), now);
        if head.status.as_u16() == 200 && is_event_stream(&response) {
            return Ok(Phase::Reading { response, request_id: head.request_id });
        }
        let body = self.error_body(&mut response).await?;
        Err(failure::from_response(adapter.asked(), &head, &body))
    }

    /// The start of an error's body; a connection that fails meanwhile does not hide the error.
    async fn error_body(&self, response: &mut Response) -> Result<Vec<u8>, ModelFailure> {
        let mut body = Vec::new();
        while body.len() < MAX_ERROR_BODY {
            match self.guard(response.chunk()).await {
                Ok(Ok(Some(bytes))) => body.extend_from_slice(&bytes),
                Err(failure) if failure.code == FailureCode::Cancelled => return Err(failure),
                _ => break,
            }
        }
        Ok(body)
    }

    /// Reads once and decodes what came.
    async fn read(&mut self, response: &mut Response) -> Result<(), ModelFailure> {
        let read = self.guard(response.chunk()).await?;
        let Some(bytes) = read.map_err(|error| self.cut(&error))? else {
            return Err(ModelFailure::new(
                FailureCode::Transport,
                "the connection was closed before the answer was complete",
            ));
        };
        self.decoder.push(self.adapter.asked(), &bytes, &mut self.ready)
    }

    /// Ends the phase of reading. What follows a complete answer is read if it comes at once, and
    /// before the stop is shown, because nobody asks for more after it.
    async fn release(&mut self) {
        let Phase::Reading { mut response, .. } = std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return;
        };
        let end = async { while let Ok(Some(_)) = response.chunk().await {} };
        tokio::select! {
            biased;
            () = self.token.cancelled() => {}
            () = end => {}
            () = self.adapter.http.clock().sleep(MAX_DRAIN) => {}
        }
    }

    /// Waits for `future`, but not for a silent provider and not after a cancellation.
    async fn guard<T>(&self, future: impl Future<Output = T>) -> Result<T, ModelFailure> {
        tokio::select! {
            biased;
            () = self.token.cancelled() => Err(ModelFailure::cancelled()),
            result = self.adapter.http.unless_silent(future) => result,
        }
    }

    fn cut(&self, error: &reqwest::Error) -> ModelFailure {
        let host = self.adapter.url.host_str().unwrap_or_default();
        failure::from_transport(self.adapter.asked(), host, error)
    }
}

/// A server that names no type at all gets the benefit of the doubt.
fn is_event_stream(response: &Response) -> bool {
    let Some(content_type) = response.headers().get(CONTENT_TYPE) else { return true };
    let essence = content_type.as_bytes().split(|byte| *byte == b';').next().unwrap_or_default();
    essence.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}
