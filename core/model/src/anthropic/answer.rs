//! A stored answer as it goes back to a provider: byte for byte what the same model wrote, and of
//! another model's only what it said and did.
//!
//! Reasoning is bound to all that stands before it, also within its answer. So it goes back as it
//! came or not at all, and not at all behind a block that cannot go back.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use bridle_session::{AssistantMessage, Block, OpaqueBlock, TimedBlock};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::history::text_part;
use super::names::{ToolTable, is_legal};
use super::wire::{BlockHead, Kind, Part, StartedBlock};
use crate::StopReason;
use crate::catalogue::{CatalogueModel, Dialect};
use crate::plant::Plant;

/// How deep the arguments of a call may be nested; a provider's reader has a limit too, for the
/// whole request.
const MAX_DEPTH: usize = 100;

/// Who reads answers, and how.
pub(super) struct Reader<'s> {
    pub(super) model: &'s CatalogueModel,
    pub(super) tools: &'s ToolTable,
    /// Whether the answer belongs to the current series.
    pub(super) in_series: bool,
}

/// What of an answer goes back.
pub(super) struct Read<'a> {
    /// Empty when there is nothing.
    pub(super) content: Vec<Part<'a>>,
    /// The provider paused in it, and it is whole.
    pub(super) is_paused: bool,
}

impl Reader<'_> {
    /// `claim_id` gives each call the id that it has on the wire.
    pub(super) fn read<'a>(
        &self,
        answer: &'a AssistantMessage,
        mut claim_id: impl FnMut(&str) -> String,
    ) -> Read<'a> {
        let is_of_model =
            *answer.route.provider == *self.model.provider && *answer.route.model == *self.model.id;
        let is_own = (is_of_model && self.in_series) || Plant::ForeignReasoning.is_in();
        let is_paused = answer.stop == StopReason::Pause.as_str() && !answer.interrupted;
        let whole = if is_own { self.whole(&answer.blocks, is_paused) } else { 0 };
        let mut content = Vec::with_capacity(answer.blocks.len());
        for (index, timed) in answer.blocks.iter().enumerate() {
            let returned = match &timed.block {
                Block::Text { text } => self.text(timed, text, is_own),
                Block::ToolCall { id, name, arguments } => {
                    let wire_id = claim_id(id.as_str());
                    let own_form = own_form(timed).filter(|_| is_own && wire_id == id.as_str());
                    Some(own_form.map_or_else(
                        || Part::ToolUse {
                            id: wire_id.into(),
                            name: self.tools.wire_name(name).into_owned().into(),
                            input: input(arguments),
                        },
                        Part::Verbatim,
                    ))
                }
                _ if index < whole => self.bound(timed),
                _ => None,
            };
            content.extend(returned);
        }
        let ends_well = !content.last().is_some_and(is_reasoning);
        self.finish(&mut content);
        let is_whole = is_own && whole == answer.blocks.len();
        Read { is_paused: is_paused && is_whole && ends_well, content }
    }

    /// How many blocks stand before the first one that cannot go back. What does not stand there
    /// cannot be the partner of what does.
    fn whole(&self, blocks: &[TimedBlock], is_paused: bool) -> usize {
        let mut whole = blocks.len();
        loop {
            let before = blocks.get(..whole).unwrap_or_default();
            let is_open = is_paused && whole == blocks.len();
            let alone = unpaired(before, is_open);
            let is_lost = |(index, timed): (usize, &TimedBlock)| {
                alone.contains(&index) || (is_bound(&timed.block) && self.bound(timed).is_none())
            };
            match before.iter().enumerate().position(is_lost) {
                Some(lost) => whole = lost,
                None => return whole,
            }
        }
    }

    /// A blank text may not go back, and nothing depends on it.
    fn text<'a>(&self, timed: &'a TimedBlock, text: &'a str, is_own: bool) -> Option<Part<'a>> {
        match own_form(timed).filter(|_| is_own && !text.trim().is_empty()) {
            Some(raw) => Some(Part::Verbatim(raw)),
            None => text_part(Cow::Borrowed(text)),
        }
    }

    /// A block that only its own model can read, behind the prefix that it was made for.
    fn bound<'a>(&self, timed: &'a TimedBlock) -> Option<Part<'a>> {
        match &timed.block {
            Block::Thinking { text, signature } => {
                let signature = signature.as_deref();
                let is_signed = signature.is_some_and(|signature| !signature.is_empty());
                let is_lost = text.is_empty() && Plant::NoEmptyReasoning.is_in();
                let may_return = (is_signed || self.model.dialect == Dialect::DeepSeek) && !is_lost;
                let neutral = Part::Thinking { thinking: text, signature };
                may_return.then(|| own_form(timed).map_or(neutral, Part::Verbatim))
            }
            Block::RedactedThinking { data } => {
                let neutral = Part::RedactedThinking { data };
                Some(own_form(timed).map_or(neutral, Part::Verbatim))
            }
            Block::Opaque { raw } if self.model.dialect == Dialect::Anthropic => {
                returnable(raw).map(Part::Verbatim)
            }
            Block::Opaque { .. } | Block::Text { .. } | Block::ToolCall { .. } => None,
        }
    }

    /// What a provider demands of an answer as a whole.
    fn finish(&self, content: &mut Vec<Part<'_>>) {
        // Providers refuse an answer that ends in reasoning; without what it led to it says
        // nothing.
        while content.last().is_some_and(is_reasoning) {
            content.pop();
        }
        let wants_reasoning = self.model.dialect == Dialect::DeepSeek && !content.is_empty();
        if wants_reasoning && !content.iter().any(|part| matches!(part, Part::Thinking { .. })) {
            // DeepSeek refuses a conversation with tools in which an answer lacks the field, even
            // where there was no reasoning.
            content.insert(0, Part::Thinking { thinking: "", signature: None });
        }
    }
}

fn is_reasoning(part: &Part<'_>) -> bool {
    match part {
        Part::Thinking { .. } | Part::RedactedThinking { .. } => true,
        Part::Verbatim(raw) => serde_json::from_str::<BlockHead<'_>>(raw.get())
            .is_ok_and(|head| matches!(&*head.r#type, "thinking" | "redacted_thinking")),
        _ => false,
    }
}

/// The provider's own form of a block, where there is one that says what the block says.
fn own_form(timed: &TimedBlock) -> Option<&RawValue> {
    let raw = object(timed.raw.as_deref()?)?;
    let form: StartedBlock<'_> = serde_json::from_str(raw.get()).ok()?;
    let kind: Kind<'_> = serde_json::from_str(raw.get()).ok()?;
    let says_the_same = match (&timed.block, &*kind.r#type) {
        (Block::Text { text }, "text") => form.text.as_ref() == Some(text),
        (Block::Thinking { text, signature }, "thinking") => {
            form.thinking.as_ref() == Some(text) && form.signature == *signature
        }
        (Block::RedactedThinking { data }, "redacted_thinking") => form.data.as_ref() == Some(data),
        (Block::ToolCall { id, .. }, "tool_use") => {
            form.id.as_deref() == Some(id.as_str())
                && form.name.is_some_and(|name| is_legal(&name))
                && form.input.is_some_and(|input| input.get().starts_with('{'))
        }
        _ => false,
    };
    says_the_same.then_some(raw)
}

/// What a provider sent that can be sent back: an object without a breakpoint, which is ours to set.
fn object(raw: &OpaqueBlock) -> Option<&RawValue> {
    if !is_shallow(raw.json()) {
        return None;
    }
    let members: Map<String, Value> = serde_json::from_str(raw.json()).ok()?;
    let is_marked = members.contains_key("cache_control");
    (!is_marked).then(|| serde_json::from_str(raw.json()).ok()).flatten()
}

/// Whether a block goes back as it came or not at all.
fn is_bound(block: &Block) -> bool {
    !matches!(block, Block::Text { .. } | Block::ToolCall { .. })
}

/// Where the blocks of the provider's own tools stand alone: each call needs a result behind it, and
/// each result its call before it. Where the provider paused, a call at the end may be `is_open`.
fn unpaired(blocks: &[TimedBlock], is_open: bool) -> HashSet<usize> {
    let (mut alone, mut calls) = (HashSet::new(), HashMap::new());
    for (index, timed) in blocks.iter().enumerate() {
        let Block::Opaque { raw } = &timed.block else { continue };
        let Ok(head) = serde_json::from_str::<BlockHead<'_>>(raw.json()) else { continue };
        if is_server_call(&head.r#type) {
            // Of two calls with one name, neither is known to be meant by a result.
            alone.extend(head.id.and_then(|id| calls.insert(id, index)));
        } else if is_server_result(&head.r#type) {
            let call = head.tool_use_id.and_then(|id| calls.remove(&id));
            alone.extend(call.is_none().then_some(index));
        }
    }
    if !is_open {
        alone.extend(calls.into_values());
    }
    alone
}

/// Kinds that the provider is known to take back; one that is unknown could make it refuse every
/// later request.
fn returnable(raw: &OpaqueBlock) -> Option<&RawValue> {
    let head: BlockHead<'_> = serde_json::from_str(raw.json()).ok()?;
    let kind = &*head.r#type;
    let fits = match kind {
        _ if is_server_call(kind) => head.id.is_some_and(|id| is_legal(&id)),
        _ if is_server_result(kind) => head.tool_use_id.is_some(),
        _ => kind == "container_upload",
    };
    if !fits {
        tracing::warn!(kind, "a block of the provider is left out of the request");
    }
    fits.then(|| object(raw)).flatten()
}

fn is_server_call(kind: &str) -> bool {
    matches!(kind, "server_tool_use" | "mcp_tool_use")
}

fn is_server_result(kind: &str) -> bool {
    kind != "tool_result" && kind.ends_with("_tool_result")
}

/// The arguments exactly as the model wrote them when they are a JSON object; otherwise an object
/// that shows the model what it wrote.
pub(super) fn input(arguments: &str) -> Cow<'_, RawValue> {
    let text = arguments.trim();
    // Reading the whole value also refuses what a skim lets pass, such as a lone surrogate.
    if is_shallow(text)
        && serde_json::from_str::<Map<String, Value>>(text).is_ok()
        && let Ok(raw) = serde_json::from_str(text)
    {
        return Cow::Borrowed(raw);
    }
    let substitute = match text {
        "" => serde_json::value::to_raw_value(&Map::new()),
        _ => serde_json::value::to_raw_value(&serde_json::json!({ "_invalid": arguments })),
    };
    substitute.map_or_else(|_| Cow::Borrowed(RawValue::NULL), Cow::Owned)
}

/// Whether a JSON text nests no deeper than [`MAX_DEPTH`].
fn is_shallow(json: &str) -> bool {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    json.bytes().all(|byte| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => depth = depth.saturating_add(1),
            b'}' | b']' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth <= MAX_DEPTH
    })
}
