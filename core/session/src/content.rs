//! What messages are made of: the parts of user and tool content, and the blocks of an answer.
//!
//! Assistant blocks keep what a provider needs back byte for byte (signatures, empty reasoning,
//! blocks we do not understand); nothing here is ever re-rendered for a provider. How a part
//! reads to a model is one pure function, so that a stored message yields the same bytes for ever.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::blob::BlobRef;
use crate::id::{ToolCallId, UnixMillis};

/// One part of a user message or of a tool result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Content {
    /// Plain text.
    Text {
        /// The text itself.
        text: String,
    },
    /// A text that the client embedded, with the URI it came from.
    Resource {
        /// The resource's URI as the client gave it.
        uri: String,
        /// The media type, where known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mime_type: Option<String>,
        /// The embedded text.
        text: String,
    },
    /// A pointer to something that the model may read itself.
    Link {
        /// The URI as the client gave it; unknown schemes are kept and shown as text.
        uri: String,
        /// The name the client shows for it.
        name: String,
    },
    /// A text that is too large for a log: a store keeps its bytes.
    Blob {
        /// The whole content.
        blob: BlobRef,
        /// Its media type.
        mime_type: String,
        /// Its beginning and its end.
        preview: String,
    },
    /// An image; a store keeps its bytes.
    Image {
        /// The image file.
        blob: BlobRef,
        /// Its media type.
        mime_type: String,
    },
}

impl Content {
    /// The blob that the part needs.
    pub fn blob(&self) -> Option<&BlobRef> {
        match self {
            Self::Blob { blob, .. } | Self::Image { blob, .. } => Some(blob),
            Self::Text { .. } | Self::Resource { .. } | Self::Link { .. } => None,
        }
    }

    /// A text part.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text { text: text.into() }
    }

    /// The first text among the parts of a prompt: what a client attaches may stand before it.
    pub fn first_text(parts: &[Self]) -> Option<&str> {
        parts.iter().find_map(|part| match part {
            Self::Text { text } => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Where a user message came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum UserSource {
    /// A person, through a client.
    Human,
    /// Bridle itself added context (AGENTS.md, a changed setting); `name` says which.
    Context {
        /// Which context source, e.g. `AGENTS.md`.
        name: String,
    },
}

/// One block of an assistant message with the times at which it began and ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedBlock {
    /// When the first piece of the block arrived.
    pub started_at: UnixMillis,
    /// When the block was complete.
    pub ended_at: UnixMillis,
    /// The block itself.
    pub block: Block,
    /// The block as its provider wrote it, where `block` keeps only a part of it (citations,
    /// fields that Bridle does not know). It goes back in the place of `block`, to its own provider
    /// only, and is shown to nobody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<Box<OpaqueBlock>>,
}

/// One block of an assistant message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// Text for the person.
    Text {
        /// The text.
        text: String,
    },
    /// Reasoning. An empty text with a signature is legal and must be returned as it is.
    Thinking {
        /// The reasoning as shown, possibly empty.
        text: String,
        /// The provider's signature over it, returned unchanged.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<String>,
    },
    /// Reasoning that the provider encrypted.
    RedactedThinking {
        /// The opaque payload, returned unchanged.
        data: String,
    },
    /// A request to run a tool.
    ToolCall {
        /// The id that its result must carry.
        id: ToolCallId,
        /// The tool's name as the model wrote it.
        name: String,
        /// The argument text as the model wrote it; not necessarily valid JSON.
        arguments: String,
    },
    /// A block that Bridle does not understand; returned to its own provider verbatim, or not at
    /// all where the provider is not known to take it back.
    Opaque {
        /// The block's JSON text.
        raw: Box<OpaqueBlock>,
    },
}

/// The JSON text of a provider's block, kept as a string so that no number in it is re-rendered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OpaqueBlock(String);

impl OpaqueBlock {
    /// Keeps the block's exact JSON text.
    pub fn new(raw: &RawValue) -> Self {
        Self(raw.get().to_owned())
    }

    /// The block's JSON text.
    pub fn json(&self) -> &str {
        &self.0
    }
}
