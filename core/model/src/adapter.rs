//! The seam itself: what resolves a route, and the call it yields.

use bridle_session::Route;
use futures::stream::BoxStream;
use tokio_util::sync::CancellationToken;

use crate::{
    CatalogueModel, Chunk, Dialect, HttpClient, ModelFailure, ModelRequest, RetryPolicy, Secret,
};

/// Resolves routes to calls. The driver asks before every attempt, so that a route, a key or a
/// limit can change at any time and no request mixes two.
pub trait ModelSource: Send + Sync + 'static {
    /// Prepares one call on `route`. Does no I/O and never blocks.
    ///
    /// # Errors
    /// `Auth` when the provider has no key (the message says what to set), `UnknownModel` when
    /// the provider is not configured.
    fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure>;

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
        Self { route, limits, retry, adapter }
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
