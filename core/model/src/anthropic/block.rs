//! One block of an answer while it arrives.

use std::borrow::Cow;

use bridle_session::{Block, OpaqueBlock, ToolCallId};
use serde::de::{Deserialize, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::decode::{malformed, unreadable};
use super::wire::{BlockDelta, Kind, StartedBlock};
use crate::{BlockKind, Chunk, ModelFailure};

/// A block that has begun and not ended.
pub(super) enum OpenBlock {
    Text { text: String },
    Thinking { text: String, signature: Option<String> },
    Redacted { data: String },
    ToolCall { id: ToolCallId, name: String, initial: String, arguments: String },
    Opaque { raw: Box<RawValue>, input: String },
}

impl OpenBlock {
    /// Reads a `content_block`. `make_id` names a tool call that came without an id.
    pub(super) fn start(
        raw: &RawValue,
        make_id: impl FnOnce() -> String,
    ) -> Result<Self, ModelFailure> {
        let kind: Kind<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
        if !matches!(&*kind.r#type, "text" | "thinking" | "redacted_thinking" | "tool_use") {
            return Ok(Self::Opaque { raw: raw.to_owned(), input: String::new() });
        }
        let block: StartedBlock<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
        Ok(match &*kind.r#type {
            "text" => Self::Text { text: block.text.unwrap_or_default() },
            "thinking" => Self::Thinking {
                text: block.thinking.unwrap_or_default(),
                signature: block.signature,
            },
            "redacted_thinking" => Self::Redacted { data: block.data.unwrap_or_default() },
            _ => Self::ToolCall {
                id: ToolCallId::new(block.id.filter(|id| !id.is_empty()).unwrap_or_else(make_id)),
                name: block.name.unwrap_or_default(),
                initial: block.input.map_or("{}", RawValue::get).to_owned(),
                arguments: String::new(),
            },
        })
    }

    pub(super) fn kind(&self) -> BlockKind {
        match self {
            Self::Text { .. } => BlockKind::Text,
            Self::Thinking { .. } | Self::Redacted { .. } => BlockKind::Thinking,
            Self::ToolCall { id, name, .. } => {
                BlockKind::ToolCall { id: id.clone(), name: name.clone() }
            }
            Self::Opaque { .. } => BlockKind::Opaque,
        }
    }

    /// What came with the start itself, for those who watch.
    pub(super) fn first_piece(&self, index: u32) -> Option<Chunk> {
        match self {
            Self::Text { text } if !text.is_empty() => {
                Some(Chunk::TextDelta { index, text: text.clone() })
            }
            Self::Thinking { text, .. } if !text.is_empty() => {
                Some(Chunk::ThinkingDelta { index, text: text.clone() })
            }
            _ => None,
        }
    }

    /// Takes one delta. Kinds that are unknown, or that this kind of block has no use for (such as
    /// citations), are ignored; text for a block that has none is a contradiction.
    pub(super) fn delta(
        &mut self,
        index: u32,
        raw: &RawValue,
    ) -> Result<Option<Chunk>, ModelFailure> {
        let delta = match serde_json::from_str::<BlockDelta<'_>>(raw.get()) {
            Ok(delta) => delta,
            Err(error) => return unknown_or(raw, error),
        };
        let piece = match &*delta.r#type {
            "text_delta" => delta.text,
            "thinking_delta" => delta.thinking,
            "input_json_delta" => delta.partial_json,
            "signature_delta" => delta.signature,
            _ => return Ok(None),
        };
        let Some(piece) = piece else {
            return Err(malformed(format_args!("a {} of block {index} is empty", delta.r#type)));
        };
        let chunk = match (self, &*delta.r#type) {
            (Self::Text { text }, "text_delta") => {
                text.push_str(&piece);
                Chunk::TextDelta { index, text: piece }
            }
            (Self::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(&piece);
                Chunk::ThinkingDelta { index, text: piece }
            }
            (Self::ToolCall { arguments, .. }, "input_json_delta") => {
                arguments.push_str(&piece);
                Chunk::ArgumentsDelta { index, json: piece }
            }
            (Self::Thinking { signature, .. }, "signature_delta") => {
                signature.get_or_insert_default().push_str(&piece);
                return Ok(None);
            }
            (Self::Opaque { input, .. }, "input_json_delta") => {
                input.push_str(&piece);
                return Ok(None);
            }
            (Self::Opaque { .. }, _) => return Ok(None),
            (_, kind) => {
                return Err(malformed(format_args!("block {index} cannot take a {kind}")));
            }
        };
        Ok((!is_empty(&chunk)).then_some(chunk))
    }

    /// The block as it is stored.
    pub(super) fn finish(self) -> Result<Block, ModelFailure> {
        Ok(match self {
            Self::Text { text } => Block::Text { text },
            Self::Thinking { text, signature } => Block::Thinking { text, signature },
            Self::Redacted { data } => Block::RedactedThinking { data },
            Self::ToolCall { id, name, initial, arguments } => {
                let arguments = if arguments.is_empty() { initial } else { arguments };
                Block::ToolCall { id, name, arguments }
            }
            Self::Opaque { raw, input } => {
                let raw = if input.is_empty() { raw } else { with_input(&raw, &input)? };
                Block::Opaque { raw: Box::new(OpaqueBlock::new(&raw)) }
            }
        })
    }
}

fn is_empty(chunk: &Chunk) -> bool {
    match chunk {
        Chunk::TextDelta { text, .. } | Chunk::ThinkingDelta { text, .. } => text.is_empty(),
        Chunk::ArgumentsDelta { json, .. } => json.is_empty(),
        _ => false,
    }
}

/// A delta of an unknown kind may use the known fields in its own way.
fn unknown_or(raw: &RawValue, error: serde_json::Error) -> Result<Option<Chunk>, ModelFailure> {
    let kind: Kind<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
    match &*kind.r#type {
        "text_delta" | "thinking_delta" | "input_json_delta" | "signature_delta" => {
            Err(unreadable(error))
        }
        _ => Ok(None),
    }
}

/// An opaque block whose `input` arrived in pieces, with everything else byte for byte as it came.
fn with_input(raw: &RawValue, input: &str) -> Result<Box<RawValue>, ModelFailure> {
    let input: &RawValue = serde_json::from_str(input).map_err(unreadable)?;
    let Fields(fields) = serde_json::from_str(raw.get()).map_err(unreadable)?;
    let mut json = String::from("{");
    for (name, value) in &fields {
        if json.len() > 1 {
            json.push(',');
        }
        let value = if name == "input" { input } else { value };
        json.push_str(&serde_json::to_string(name).map_err(unreadable)?);
        json.push(':');
        json.push_str(value.get());
    }
    json.push('}');
    RawValue::from_string(json).map_err(unreadable)
}

/// The fields of an object in their order.
struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut fields = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    fields.push(entry);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(FieldsVisitor)
    }
}
