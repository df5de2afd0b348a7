//! A model request in neutral words. It can only be built from a projection, so whatever a model
//! sees is in the log.

use std::sync::Arc;

use bridle_session::{Projection, Seq};
use serde_json::value::RawValue;

/// A tool as a model is told of it.
#[derive(Clone, Debug)]
pub struct ToolSpec {
    /// The name: `[a-zA-Z0-9_-]{1,64}`.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its arguments (an object schema), serialised once so that its bytes
    /// never change within a series.
    pub input_schema: Box<RawValue>,
}

/// How hard the model should think.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effort {
    /// Little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
}

/// One request.
#[derive(Clone, Debug)]
pub struct ModelRequest {
    projection: Projection,
    tools: Arc<[ToolSpec]>,
    effort: Option<Effort>,
    reasoning_since: Seq,
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
        Self { projection, tools, effort, reasoning_since }
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

    /// The effort asked for.
    pub fn effort(&self) -> Option<Effort> {
        self.effort
    }
}
