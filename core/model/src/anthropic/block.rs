//! One block of an answer while it arrives.

use std::borrow::Cow;
use std::collections::HashMap;

use bridle_session::{Block, OpaqueBlock, ToolCallId};
use serde::de::{Deserialize, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::decode::{malformed, unreadable};
use super::wire::{BlockDelta, Kind, StartedBlock};
use crate::{BlockKind, Chunk, ModelFailure};

/// A block that has begun and not ended.
pub(super) struct OpenBlock {
    /// The start as it came.
    start: Box<RawValue>,
    content: Open,
    citations: Vec<Box<RawValue>>,
}

enum Open {
    Text { text: String },
    Thinking { text: String, signature: Option<String> },
    Redacted { data: String },
    ToolCall { id: ToolCallId, name: String, initial: String, arguments: String },
    Opaque { input: String },
}

/// A block that has ended.
pub(super) struct EndedBlock {
    pub(super) block: Block,
    /// The provider's own form, where the block keeps only a part of it.
    pub(super) own_form: Option<OpaqueBlock>,
}

impl OpenBlock {
    /// Reads a `content_block`. `make_id` names a tool call that came without an id; `own_names`
    /// are the names of tools that have another one on the wire.
    pub(super) fn start(
        raw: &RawValue,
        make_id: impl FnOnce() -> String,
        own_names: &HashMap<String, String>,
    ) -> Result<Self, ModelFailure> {
        let kind: Kind<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
        let content = match &*kind.r#type {
            "text" | "thinking" | "redacted_thinking" | "tool_use" => {
                Open::known(&kind.r#type, raw, make_id, own_names)?
            }
            _ => Open::Opaque { input: String::new() },
        };
        Ok(Self { start: raw.to_owned(), content, citations: Vec::new() })
    }

    pub(super) fn kind(&self) -> BlockKind {
        match &self.content {
            Open::Text { .. } => BlockKind::Text,
            Open::Thinking { .. } | Open::Redacted { .. } => BlockKind::Thinking,
            Open::ToolCall { id, name, .. } => {
                BlockKind::ToolCall { id: id.clone(), name: name.clone() }
            }
            Open::Opaque { .. } => BlockKind::Opaque,
        }
    }

    /// What came with the start itself, for those who watch.
    pub(super) fn first_piece(&self, index: u32) -> Option<Chunk> {
        match &self.content {
            Open::Text { text } if !text.is_empty() => {
                Some(Chunk::TextDelta { index, text: text.clone() })
            }
            Open::Thinking { text, .. } if !text.is_empty() => {
                Some(Chunk::ThinkingDelta { index, text: text.clone() })
            }
            _ => None,
        }
    }

    /// Takes one delta. Kinds that are unknown are ignored; text for a block that has none is a
    /// contradiction.
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
            "citations_delta" => {
                self.citations.extend(delta.citation.map(ToOwned::to_owned));
                return Ok(None);
            }
            _ => return Ok(None),
        };
        let Some(piece) = piece else {
            return Err(malformed(format_args!("a {} of block {index} is empty", delta.r#type)));
        };
        let chunk = match (&mut self.content, &*delta.r#type) {
            (Open::Text { text }, "text_delta") => {
                text.push_str(&piece);
                Chunk::TextDelta { index, text: piece }
            }
            (Open::Thinking { text, .. }, "thinking_delta") => {
                text.push_str(&piece);
                Chunk::ThinkingDelta { index, text: piece }
            }
            (Open::ToolCall { arguments, .. }, "input_json_delta") => {
                arguments.push_str(&piece);
                Chunk::ArgumentsDelta { index, json: piece }
            }
            (Open::Thinking { signature, .. }, "signature_delta") => {
                signature.get_or_insert_default().push_str(&piece);
                return Ok(None);
            }
            (Open::Opaque { input, .. }, "input_json_delta") => {
                input.push_str(&piece);
                return Ok(None);
            }
            (Open::Opaque { .. }, _) => return Ok(None),
            (_, kind) => {
                return Err(malformed(format_args!("block {index} cannot take a {kind}")));
            }
        };
        Ok((!is_empty(&chunk)).then_some(chunk))
    }

    /// The block as it is stored.
    pub(super) fn finish(self) -> Result<EndedBlock, ModelFailure> {
        let Self { start, content, citations } = self;
        let Fields(fields) = serde_json::from_str(start.get()).map_err(unreadable)?;
        let is_lossy = !citations.is_empty() || content.keeps_only_a_part_of(&fields);
        let own_form = match content.arrived() {
            Ok(mut arrived) if is_lossy => {
                if !citations.is_empty() {
                    let all = serde_json::value::to_raw_value(&citations).map_err(unreadable)?;
                    arrived.push(("citations", all));
                }
                Some(own_form(&fields, &arrived)?)
            }
            // A call whose arguments are no JSON has no form of its own.
            Err(error) if matches!(content, Open::Opaque { .. }) => return Err(unreadable(error)),
            _ => None,
        };
        Ok(match content {
            Open::Text { text } => EndedBlock { block: Block::Text { text }, own_form },
            Open::Thinking { text, signature } => {
                EndedBlock { block: Block::Thinking { text, signature }, own_form }
            }
            Open::Redacted { data } => {
                EndedBlock { block: Block::RedactedThinking { data }, own_form }
            }
            Open::ToolCall { id, name, initial, arguments } => {
                let arguments = if arguments.is_empty() { initial } else { arguments };
                EndedBlock { block: Block::ToolCall { id, name, arguments }, own_form }
            }
            Open::Opaque { .. } => {
                let raw = Box::new(own_form.unwrap_or_else(|| OpaqueBlock::new(&start)));
                EndedBlock { block: Block::Opaque { raw }, own_form: None }
            }
        })
    }
}

impl Open {
    /// Whether the start has more than its type, what is kept of it, and nothings.
    fn keeps_only_a_part_of(&self, start: &[(Cow<'_, str>, &RawValue)]) -> bool {
        let kept: &[&str] = match self {
            Self::Text { .. } => &["type", "text"],
            Self::Thinking { .. } => &["type", "thinking", "signature"],
            Self::Redacted { .. } => &["type", "data"],
            Self::ToolCall { .. } => &["type", "id", "name", "input"],
            Self::Opaque { input } => return !input.is_empty(),
        };
        start
            .iter()
            .any(|(name, value)| !kept.contains(&&**name) && !matches!(value.get(), "null" | "[]"))
    }

    /// The fields that arrived in pieces.
    fn arrived(&self) -> serde_json::Result<Vec<(&'static str, Box<RawValue>)>> {
        use serde_json::value::to_raw_value;
        Ok(match self {
            Self::Text { text } => vec![("text", to_raw_value(text)?)],
            Self::Thinking { text, signature: None } => vec![("thinking", to_raw_value(text)?)],
            Self::Thinking { text, signature: Some(signature) } => {
                vec![("thinking", to_raw_value(text)?), ("signature", to_raw_value(signature)?)]
            }
            Self::ToolCall { arguments: input, .. } | Self::Opaque { input }
                if !input.is_empty() =>
            {
                vec![("input", RawValue::from_string(input.clone())?)]
            }
            Self::Redacted { .. } | Self::ToolCall { .. } | Self::Opaque { .. } => Vec::new(),
        })
    }

    fn known(
        kind: &str,
        raw: &RawValue,
        make_id: impl FnOnce() -> String,
        own_names: &HashMap<String, String>,
    ) -> Result<Self, ModelFailure> {
        let block: StartedBlock<'_> = serde_json::from_str(raw.get()).map_err(unreadable)?;
        Ok(match kind {
            "text" => Self::Text { text: block.text.unwrap_or_default() },
            "thinking" => Self::Thinking {
                text: block.thinking.unwrap_or_default(),
                signature: block.signature,
            },
            "redacted_thinking" => Self::Redacted { data: block.data.unwrap_or_default() },
            _ => {
                let name = block.name.unwrap_or_default();
                Self::ToolCall {
                    id: ToolCallId::new(
                        block.id.filter(|id| !id.is_empty()).unwrap_or_else(make_id),
                    ),
                    name: own_names.get(&name).cloned().unwrap_or(name),
                    initial: block.input.map_or("{}", RawValue::get).to_owned(),
                    arguments: String::new(),
                }
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

/// A block in the provider's form: everything as it came, but for what arrived in pieces.
fn own_form(
    start: &[(Cow<'_, str>, &RawValue)],
    arrived: &[(&str, Box<RawValue>)],
) -> Result<OpaqueBlock, ModelFailure> {
    let piece = |name: &str| arrived.iter().find(|(arrived, _)| *arrived == name);
    let started = start
        .iter()
        .map(|(name, value)| (&**name, piece(name).map_or(*value, |(_, arrived)| &**arrived)));
    let is_new = |name: &str| !start.iter().any(|(started, _)| started == name);
    let added = arrived.iter().filter(|(name, _)| is_new(name));
    let mut json = String::from("{");
    for (name, value) in started.chain(added.map(|(name, value)| (*name, &**value))) {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&serde_json::to_string(name).map_err(unreadable)?);
        json.push(':');
        json.push_str(value.get());
    }
    json.push('}');
    let raw = RawValue::from_string(json).map_err(unreadable)?;
    Ok(OpaqueBlock::new(&raw))
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
