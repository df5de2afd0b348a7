//! The JSON of Anthropic Messages, as far as Bridle writes and reads it. Shapes only.
//!
//! Field order in the types of a request is the order on the wire; changing it would change the
//! bytes that a model's reasoning is bound to.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::Image;

/// A request without its messages, which come last, so that all of one request but its end is the
/// start of the next one.
#[derive(Serialize)]
pub(super) struct Head<'a> {
    pub(super) model: &'a str,
    pub(super) max_tokens: u64,
    pub(super) stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) thinking: Option<ThinkingConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) system: Option<[SystemText<'a>; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tools: Option<&'a RawValue>,
}

/// The system prompt.
#[derive(Serialize)]
pub(super) struct SystemText<'a> {
    pub(super) r#type: &'static str,
    pub(super) text: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheControl>,
}

#[derive(Serialize)]
pub(super) struct ThinkingConfig {
    pub(super) r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) display: Option<&'static str>,
}

#[derive(Serialize)]
pub(super) struct OutputConfig {
    pub(super) effort: &'static str,
}

#[derive(Serialize)]
pub(super) struct CacheControl {
    pub(super) r#type: &'static str,
}

#[derive(Serialize)]
pub(super) struct Tool<'a> {
    pub(super) name: &'a str,
    pub(super) description: &'a str,
    pub(super) input_schema: Cow<'a, RawValue>,
}

#[derive(Serialize)]
pub(super) struct Message<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Part<'a>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Role {
    User,
    Assistant,
    System,
}

/// One block of a message.
#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Part<'a> {
    Text {
        text: Cow<'a, str>,
    },
    Image {
        source: ImageSource<'a>,
    },
    Thinking {
        thinking: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        signature: Option<&'a str>,
    },
    RedactedThinking {
        data: &'a str,
    },
    ToolUse {
        id: Cow<'a, str>,
        name: Cow<'a, str>,
        input: Cow<'a, RawValue>,
    },
    ToolResult {
        tool_use_id: Cow<'a, str>,
        content: Vec<Part<'a>>,
        #[serde(skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
    /// A block as the provider wrote it.
    #[serde(untagged)]
    Verbatim(&'a RawValue),
}

/// The file of an image.
#[derive(Serialize)]
pub(super) struct ImageSource<'a> {
    r#type: &'static str,
    media_type: &'static str,
    data: &'a RawValue,
}

impl<'a> ImageSource<'a> {
    pub(super) fn of(image: &'a Image) -> Self {
        Self { r#type: "base64", media_type: image.format.media_type(), data: &image.data }
    }
}

/// What a block of the provider's own says of its place among others.
#[derive(Deserialize)]
pub(super) struct BlockHead<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) tool_use_id: Option<Cow<'a, str>>,
}

/// Any event of the stream. One flat shape whose parts stay unread until the type says which of
/// them matter, so that neither unknown events nor the hot path build a tree.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) r#type: Cow<'a, str>,
    pub(super) index: Option<u32>,
    #[serde(borrow)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) content_block: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) delta: Option<&'a RawValue>,
    pub(super) usage: Option<Usage>,
    #[serde(borrow)]
    pub(super) error: Option<&'a RawValue>,
}

/// The `message` of `message_start`.
#[derive(Deserialize)]
pub(super) struct StartedMessage {
    #[serde(default)]
    pub(super) id: String,
    pub(super) usage: Option<Usage>,
}

/// The kind of a block or delta.
#[derive(Deserialize)]
pub(super) struct Kind<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
}

/// A `content_block` of a type that is known; the fields of all such types together.
#[derive(Deserialize)]
pub(super) struct StartedBlock<'a> {
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) signature: Option<String>,
    pub(super) data: Option<String>,
    pub(super) id: Option<String>,
    pub(super) name: Option<String>,
    #[serde(borrow)]
    pub(super) input: Option<&'a RawValue>,
}

/// A `delta` of `content_block_delta`; the fields of all known types together.
#[derive(Deserialize)]
pub(super) struct BlockDelta<'a> {
    #[serde(borrow)]
    pub(super) r#type: Cow<'a, str>,
    pub(super) text: Option<String>,
    pub(super) thinking: Option<String>,
    pub(super) partial_json: Option<String>,
    pub(super) signature: Option<String>,
    #[serde(borrow)]
    pub(super) citation: Option<&'a RawValue>,
}

/// The `delta` of `message_delta`.
#[derive(Deserialize)]
pub(super) struct MessageDelta<'a> {
    pub(super) stop_reason: Option<String>,
    #[serde(borrow)]
    pub(super) stop_details: Option<&'a RawValue>,
}

/// Why a model refused.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct StopDetails {
    pub(super) category: Option<String>,
    pub(super) explanation: Option<String>,
}

/// Token counts; every one may be missing.
#[derive(Clone, Copy, Default, Deserialize)]
pub(super) struct Usage {
    pub(super) input_tokens: Option<u64>,
    pub(super) output_tokens: Option<u64>,
    pub(super) cache_read_input_tokens: Option<u64>,
    pub(super) cache_creation_input_tokens: Option<u64>,
}

/// The body of an error response.
#[derive(Deserialize)]
pub(super) struct ErrorBody {
    pub(super) error: Option<ErrorDetail>,
    pub(super) request_id: Option<String>,
}

/// The error itself, in a body or in an `error` event.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorDetail {
    pub(super) r#type: Option<String>,
    pub(super) message: Option<String>,
}
