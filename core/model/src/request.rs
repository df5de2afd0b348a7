//! A model request in neutral words. It can only be built from a projection, so whatever a model
//! sees is in the log.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bridle_session::{Projection, Seq};
use serde_json::value::RawValue;

use crate::{Effort, Images};

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name. One that a provider does not take gets another on its wire, and calls come back
    /// under this one.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments, serialised once so that its bytes never change within a
    /// series. What a provider refuses of it is not sent to that provider.
    pub input_schema: Box<RawValue>,
}

/// One request.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    projection: Projection,
    tools: Arc<[ToolSpec]>,
    effort: Option<Effort>,
    reasoning_since: Seq,
    images: Images,
    cache: RequestCache,
}

impl ModelRequest {
    /// A request for the next answer of the session that `projection` was taken from.
    /// `tools` are sent in this order; `effort` `None` leaves it to the provider. Reasoning of
    /// messages before the event `reasoning_since` (where the current series began) is not sent
    /// back: its prefix is not the one it was made for.
    pub fn new(
        projection: Projection,
        tools: Arc<[ToolSpec]>,
        effort: Option<Effort>,
        reasoning_since: Seq,
    ) -> Self {
        let (images, cache) = (Images::default(), RequestCache::default());
        Self { projection, tools, effort, reasoning_since, images, cache }
    }

    /// The same request, which shows these of its images. Without it shows none.
    #[must_use]
    pub fn with_images(self, images: Images) -> Self {
        Self { images, ..self }
    }

    /// The same request, built from where the last one of the session with this cache ended.
    #[must_use]
    pub fn with_cache(self, cache: &RequestCache) -> Self {
        Self { cache: cache.clone(), ..self }
    }

    /// What the model reads.
    pub fn projection(&self) -> &Projection {
        &self.projection
    }

    /// The tools offered.
    pub fn tools(&self) -> &[ToolSpec] {
        &self.tools
    }

    /// Where the current series began; see [`ModelRequest::new`].
    pub fn reasoning_since(&self) -> Seq {
        self.reasoning_since
    }

    /// The images that it shows.
    pub(crate) fn images(&self) -> &Images {
        &self.images
    }

    /// The effort asked for.
    pub fn effort(&self) -> Option<Effort> {
        self.effort
    }

    /// What the wire kept of the last request.
    pub(crate) fn cache(&self) -> &RequestCache {
        &self.cache
    }
}

/// What a wire keeps of a session's last request, so that the next one costs only what is new.
/// Cloning shares it. It only saves time: a request is the same without it.
#[derive(Clone, Default)]
pub struct RequestCache(Arc<Mutex<Option<Box<dyn Any + Send>>>>);

impl RequestCache {
    /// Takes out what a wire put in; of another wire's there is nothing.
    pub(crate) fn take<T: Any>(&self) -> Option<T> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        kept.downcast().ok().map(|kept| *kept)
    }

    pub(crate) fn put<T: Any + Send>(&self, kept: T) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(kept));
    }
}

impl fmt::Debug for RequestCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RequestCache")
    }
}
