//! The model seam: from a session projection to streamed chunks to an assembled answer.
//!
//! `Models` resolves a [`Route`](bridle_session::Route) to a single-use [`PreparedCall`]; the call
//! consumes a [`ModelRequest`], which can only be built from a session's projection; its stream of
//! [`Chunk`]s feeds the live view and an [`Assembler`]. Adapters (one per wire) live in folders of
//! their own. This crate refuses to retry: it says whether and when a retry makes sense, the
//! driver decides and logs.

mod adapter;
mod anthropic;
mod assembler;
#[cfg(test)]
mod behaviour;
mod cache;
mod catalogue;
mod chunk;
mod content;
mod effort;
mod failure;
mod hint;
mod http;
mod images;
mod plant;
mod prefix;
mod request;
mod retry;
mod sse;
mod tags;

pub use adapter::{ListedModel, ModelAdapter, ModelSource, PreparedCall, RouteLimits, Wire};
pub use anthropic::AnthropicAdapter;
pub use assembler::{Assembled, Assembler, Fresh};
pub use cache::{CacheMiss, CacheWatch};
pub use catalogue::{
    Catalogue, CatalogueModel, CatalogueProvider, Dialect, Input, ModelPatch, Thinking,
};
pub use chunk::{BlockKind, Chunk, Refusal, StopReason};
pub use content::file_of_uri;
pub use effort::Effort;
pub use failure::{FailureCode, ModelFailure, RefusedImages};
pub use http::{HttpClient, Secret, client_builder, innermost};
pub use images::{
    Image, ImageFormat, ImageLimits, ImageShelf, Images, MAX_IMAGE_BYTES, MAX_PIXELS, NotAnImage,
    Shown, Smaller, smaller,
};
pub use prefix::{PrefixGuard, PrefixHash, PrefixStep};
pub use request::{ModelRequest, RequestCache, ToolSpec};
pub use retry::RetryPolicy;
#[cfg(fuzzing)]
pub use sse::fuzz_sse;
pub use tags::{attribute, is_unseen, unclosing};

/// Adds the plugins of this crate: one wire each.
#[must_use]
pub fn plugins(plugins: bridle_compose::Plugins) -> bridle_compose::Plugins {
    plugins.with(anthropic::AnthropicWire)
}
