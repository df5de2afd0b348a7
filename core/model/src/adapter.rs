//! The seam itself: what resolves a route, and the call it yields.

use async_trait::async_trait;
use bridle_session::{PriceList, Route};
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use crate::{
    CatalogueModel, Chunk, Dialect, Effort, HttpClient, ImageLimits, ModelFailure, ModelRequest,
    RetryPolicy, Secret,
};

/// Resolves routes to calls. The driver asks before every attempt, so that a route, a key or a
/// limit can change at any time and no request mixes two.
#[async_trait]
pub trait ModelSource: Send + Sync + 'static {
    /// Prepares one call on `route`. Asks nobody but, once, the command from which the user has
    /// the key taken.
    ///
    /// # Errors
    /// `Auth` when the provider has no key (the message says what to set), `UnknownModel` when
    /// the provider is not configured.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure>;

    /// The route of a session that chose none.
    ///
    /// # Errors
    /// `Auth` when no provider has a key (the message says what to set), `UnknownModel` when the
    /// configured route is unusable.
    fn default_route(&self) -> Result<Route, ModelFailure>;
}

/// One wire. An adapter is cheap to clone behind an `Arc` and is frozen into a prepared call.
pub trait ModelAdapter: Send + Sync + 'static {
    /// Sends the request and streams the answer. The stream ends after `Chunk::Stop`, or with
    /// exactly one error; a stream that ends in any other way is turned into a `Transport` error
    /// by the adapter. Cancelling `token` ends it at once with `Cancelled`.
    fn stream(
        &self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>>;

    /// Asks the endpoint which models it offers; `None` where this wire has no such question. Not
    /// part of any turn: a person asks.
    fn list(&self) -> Option<BoxFuture<'_, Result<Vec<ListedModel>, ModelFailure>>> {
        None
    }
}

/// A model as an endpoint lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListedModel {
    /// The id.
    pub id: String,
    /// The name a person reads, where the endpoint says one.
    #[serde(default)]
    pub name: Option<String>,
    /// The context window in tokens, where the endpoint says it.
    #[serde(default)]
    pub window: Option<u64>,
    /// The longest answer in tokens, where the endpoint says it.
    #[serde(default)]
    pub max_output: Option<u64>,
}

/// One provider API, contributed to a scope: makes the adapters that speak it.
pub trait Wire: Send + Sync + 'static {
    /// Whether it speaks to models of this dialect.
    fn speaks(&self, dialect: Dialect) -> bool;

    /// An adapter that asks `model` at `base_url` with `key`. Does no I/O.
    ///
    /// # Errors
    /// `InvalidRequest` when `base_url` is not an HTTP URL, `Auth` when `key` has characters that
    /// no key has.
    fn adapter(
        &self,
        http: HttpClient,
        base_url: &str,
        key: Secret,
        model: CatalogueModel,
    ) -> Result<Box<dyn ModelAdapter>, ModelFailure>;
}

/// What the chosen route can take, in tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteLimits {
    /// The context window.
    pub window: u64,
    /// The longest answer.
    pub max_output: u64,
}

/// A call that is resolved and may be used once.
pub struct PreparedCall {
    route: Route,
    limits: RouteLimits,
    retry: RetryPolicy,
    levels: Vec<Effort>,
    prices: Option<PriceList>,
    images: Option<ImageLimits>,
    adapter: Box<dyn ModelAdapter>,
}

impl PreparedCall {
    /// Joins what a source resolved.
    pub fn new(
        route: Route,
        limits: RouteLimits,
        retry: RetryPolicy,
        adapter: Box<dyn ModelAdapter>,
    ) -> Self {
        let (levels, prices, images) = (Vec::new(), None, None);
        Self { route, limits, retry, levels, prices, images, adapter }
    }

    /// The same call on a route that takes these thinking levels and has these prices.
    #[must_use]
    pub fn described(self, levels: Vec<Effort>, prices: Option<PriceList>) -> Self {
        Self { levels, prices, ..self }
    }

    /// The same call on a route that takes images within these limits; `None` takes none.
    #[must_use]
    pub fn with_images(self, images: Option<ImageLimits>) -> Self {
        Self { images, ..self }
    }

    /// What the route takes of images; `None` when it takes none.
    pub fn images(&self) -> Option<&ImageLimits> {
        self.images.as_ref()
    }

    /// The thinking level to ask for when `wanted` is: the nearest that the route takes.
    pub fn level(&self, wanted: Option<Effort>) -> Option<Effort> {
        wanted?.nearest(&self.levels)
    }

    /// What the route costs, where that is known.
    pub fn prices(&self) -> Option<&PriceList> {
        self.prices.as_ref()
    }

    /// Who will be asked.
    pub fn route(&self) -> &Route {
        &self.route
    }

    /// What the route can take.
    pub fn limits(&self) -> RouteLimits {
        self.limits
    }

    /// When to try again.
    pub fn retry(&self) -> &RetryPolicy {
        &self.retry
    }

    /// Sends the request; see [`ModelAdapter::stream`].
    pub fn stream(
        self,
        request: ModelRequest,
        token: CancellationToken,
    ) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
        self.adapter.stream(request, token)
    }
}
