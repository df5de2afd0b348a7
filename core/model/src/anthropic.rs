//! Anthropic Messages: request building, streaming, errors.
//!
//! One adapter serves Anthropic and DeepSeek, whose dialect differs in few places, all decided by
//! the catalogue row. It refuses to retry and to store; it turns one request into one stream.

mod answer;
mod block;
mod decode;
mod exchange;
mod failure;
mod history;
mod list;
mod names;
mod plugin;
mod request;
mod schema;
mod wire;

use std::collections::{HashMap, VecDeque};

use futures::future::BoxFuture;
use futures::stream::{self, BoxStream};
use futures::{FutureExt as _, StreamExt as _};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use tokio_util::sync::CancellationToken;

use self::decode::Decoder;
use self::exchange::Exchange;
use self::failure::Asked;
pub(crate) use self::plugin::AnthropicWire;
use crate::{
    CatalogueModel, Chunk, Dialect, FailureCode, HttpClient, ListedModel, ModelAdapter,
    ModelFailure, ModelRequest, Secret,
};

/// The version of the wire that this adapter speaks.
const API_VERSION: &str = "2023-06-01";

/// The adapter for Anthropic Messages and DeepSeek's dialect of it.
#[derive(Clone, Debug)]
pub struct AnthropicAdapter {
    http: HttpClient,
    url: Url,
    headers: HeaderMap,
    key: Secret,
    model: CatalogueModel,
}

impl AnthropicAdapter {
    /// An adapter that asks `model` at `base_url` (with or without `/v1` or a slash at its end)
    /// with `key`. Does no I/O.
    ///
    /// # Errors
    /// `InvalidRequest` when `base_url` is not an HTTP URL, `Auth` when `key` has characters that
    /// no key has.
    pub fn new(
        http: HttpClient,
        base_url: &str,
        key: Secret,
        model: CatalogueModel,
    ) -> Result<Self, ModelFailure> {
        let url = endpoint(base_url)?;
        let mut key_value = HeaderValue::from_str(key.expose().trim()).map_err(|_| {
            let message = format!("the key of {} has characters that no key has", model.provider);
            ModelFailure::new(FailureCode::Auth, message)
        })?;
        key_value.set_sensitive(true);
        let headers = HeaderMap::from_iter([
            (CONTENT_TYPE, HeaderValue::from_static("application/json")),
            (ACCEPT, HeaderValue::from_static("text/event-stream")),
            (HeaderName::from_static("anthropic-version"), HeaderValue::from_static(API_VERSION)),
            (HeaderName::from_static("x-api-key"), key_value),
        ]);
        Ok(Self { http, url, headers, key, model })
    }

    /// The exact body that [`ModelAdapter::stream`] would send.
    ///
    /// # Errors
    /// `InvalidRequest` when the conversation has nothing to answer or two tools have one name,
    /// `ContextOverflow` when it is larger than the provider's front door.
    pub fn body(&self, request: &ModelRequest) -> Result<Vec<u8>, ModelFailure> {
        self.build(request).map(|(body, _)| body)
    }

    /// Reads a recorded event stream that arrives in `pieces`, as an answer to a request without
    /// renamed tools. What was sound before a failure is kept beside it.
    pub fn replay<'a>(
        &self,
        pieces: impl IntoIterator<Item = &'a [u8]>,
    ) -> (Vec<Chunk>, Option<ModelFailure>) {
        let mut decoder = self.decoder(HashMap::new());
        let mut chunks = VecDeque::new();
        let failed = pieces
            .into_iter()
            .try_for_each(|piece| decoder.push(self.asked(), piece, &mut chunks))
            .err();
        (chunks.into(), failed)
    }

    /// The body of a request, and our names of the tools that have another one in it.
    fn build(
        &self,
        request: &ModelRequest,
    ) -> Result<(Vec<u8>, HashMap<String, String>), ModelFailure> {
        let mut series = request::series(request.cache().take(), &self.model, request)?;
        let body = series.body(&self.model, request);
        let own_names = series.tools().own_names().clone();
        request.cache().put(series);
        Ok((body?, own_names))
    }

    fn decoder(&self, own_names: HashMap<String, String>) -> Decoder {
        Decoder::new(self.model.max_output, own_names)
    }

    fn asked(&self) -> Asked<'_> {
        Asked { provider: &self.model.provider, model: &self.model.id, key: &self.key }
    }
}

impl ModelAdapter for AnthropicAdapter {
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        let exchange = Box::new(Exchange::new(self.clone(), request, token));
        stream::unfold(exchange, |mut exchange| async move {
            exchange.next().await.map(|item| (item, exchange))
        })
        .boxed()
    }

    fn list(&self) -> Option<BoxFuture<'_, Result<Vec<ListedModel>, ModelFailure>>> {
        match self.model.dialect {
            Dialect::Anthropic => Some(self.ask_for_list().boxed()),
            // Its list is on another wire.
            Dialect::DeepSeek => None,
        }
    }
}

/// The address of the messages of `base_url`.
fn endpoint(base_url: &str) -> Result<Url, ModelFailure> {
    let refused = |reason: &str| {
        let message = format!("the base URL of the model provider {reason}");
        ModelFailure::new(FailureCode::InvalidRequest, message)
    };
    let mut url =
        Url::parse(base_url.trim()).map_err(|error| refused(&format!("is not a URL: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
        return Err(refused("is neither http nor https"));
    }
    let path = url.path().trim_end_matches('/');
    let path = path.strip_suffix("/v1").unwrap_or(path);
    let path = format!("{path}/v1/messages");
    url.set_path(&path);
    Ok(url)
}

#[cfg(test)]
mod tests;
