//! Anthropic Messages: request building, streaming, errors.

use bridle_session::Route;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::{Chunk, HttpClient, ModelAdapter, ModelFailure, ModelRequest, Secret};

/// The adapter for Anthropic Messages and DeepSeek's dialect of it.
#[derive(Clone, Debug)]
pub struct AnthropicAdapter {
    _private: (HttpClient, Route, Secret),
}

impl ModelAdapter for AnthropicAdapter {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        let _ = (request, token);
        todo!()
    }
}
