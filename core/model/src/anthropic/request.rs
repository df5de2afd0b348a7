//! Builds a request from a projection, and on the way makes it one that the provider accepts.
//!
//! Whatever is stored (broken arguments, missing or stray results, ids and names that are illegal,
//! another model's reasoning) must never make every later request fail, so it is repaired here,
//! always in the same way: a message yields the same bytes in every request of a route, and each
//! request is the one before it with more at the end. It refuses only what the caller must mend.

use std::borrow::Cow;
use std::collections::HashSet;

use bridle_session::{AssistantMessage, Block, Content, Message, Seq, ToolResult};
use serde_json::Value;
use serde_json::value::RawValue;

use super::wire::{self, Part, Role};
use crate::catalogue::{CatalogueModel, Dialect, Thinking};
use crate::content::{text_of, text_of_developer};
use crate::{Effort, FailureCode, ModelFailure, ModelRequest, StopReason, ToolSpec};

/// The largest request that the provider's front door takes.
const MAX_REQUEST_BYTES: usize = 32 << 20;

/// The longest name of a tool and the longest id of a call.
const MAX_NAME: usize = 64;

/// The body of `request` for `model`.
pub(super) fn body(
    model: &CatalogueModel,
    request: &ModelRequest,
) -> Result<Vec<u8>, ModelFailure> {
    let tools = request.tools().iter().map(tool).collect::<Result<Vec<_>, _>>()?;
    let mut conversation = Conversation::new(model, request.reasoning_since());
    for (seq, message) in request.projection().entries() {
        conversation.push(seq, message);
    }
    let (system, messages) = conversation.finish()?;
    let body = wire::Request {
        model: &model.id,
        max_tokens: model.max_output,
        stream: true,
        thinking: (model.thinking == Thinking::Adaptive)
            .then_some(wire::ThinkingConfig { r#type: "adaptive", display: "summarized" }),
        output_config: request
            .effort()
            .filter(|_| model.effort)
            .map(|effort| wire::OutputConfig { effort: effort_word(effort) }),
        cache_control: (model.dialect == Dialect::Anthropic)
            .then_some(wire::CacheControl { r#type: "ephemeral" }),
        system,
        tools,
        messages,
    };
    let body = serde_json::to_vec(&body)
        .map_err(|error| invalid(format!("the request cannot be written as JSON: {error}")))?;
    within_size(body)
}

fn within_size(body: Vec<u8>) -> Result<Vec<u8>, ModelFailure> {
    if body.len() <= MAX_REQUEST_BYTES {
        return Ok(body);
    }
    Err(ModelFailure::new(
        FailureCode::ContextOverflow,
        format!("the conversation has {} bytes; the most is {MAX_REQUEST_BYTES}", body.len()),
    ))
}

fn effort_word(effort: Effort) -> &'static str {
    match effort {
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High => "high",
    }
}

fn invalid(message: impl Into<String>) -> ModelFailure {
    ModelFailure::new(FailureCode::InvalidRequest, message)
}

/// Tools are the caller's own, so a bad one is an error and not something to repair.
fn tool(spec: &ToolSpec) -> Result<wire::Tool<'_>, ModelFailure> {
    if !is_legal_name(&spec.name) {
        return Err(invalid(format!("the tool name {:?} is not legal", spec.name)));
    }
    let is_object = serde_json::from_str::<wire::Kind<'_>>(spec.input_schema.get())
        .is_ok_and(|schema| schema.r#type == "object");
    if !is_object {
        return Err(invalid(format!("the schema of tool {} is not an object's", spec.name)));
    }
    Ok(wire::Tool {
        name: &spec.name,
        description: &spec.description,
        input_schema: &spec.input_schema,
    })
}

fn is_legal_name(name: &str) -> bool {
    (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_legal_letter)
}

fn is_legal_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-')
}

/// The conversation so far, always ready for the next message.
struct Conversation<'a, 'm> {
    model: &'m CatalogueModel,
    /// Reasoning from before this event was made for another prefix.
    reasoning_since: Seq,
    system: Vec<Part<'a>>,
    messages: Vec<wire::Message<'a>>,
    /// The calls of the last answer, in its order, with what has come of them.
    calls: Vec<Call<'a>>,
    /// What was said since the last answer.
    said: Vec<Part<'a>>,
    /// Every call id on the wire; providers refuse one that occurs twice.
    ids: HashSet<Cow<'a, str>>,
    last_stop: &'a str,
}

struct Call<'a> {
    stored_id: &'a str,
    wire_id: Cow<'a, str>,
    result: Option<&'a ToolResult>,
}

impl<'a, 'm> Conversation<'a, 'm> {
    fn new(model: &'m CatalogueModel, reasoning_since: Seq) -> Self {
        Self {
            model,
            reasoning_since,
            system: Vec::new(),
            messages: Vec::new(),
            calls: Vec::new(),
            said: Vec::new(),
            ids: HashSet::new(),
            last_stop: "",
        }
    }

    fn push(&mut self, seq: Seq, message: Message<'a>) {
        match message {
            // Only the first one can be the head: a later one there would change every byte
            // behind it.
            Message::System(system) if self.system.is_empty() && self.messages.is_empty() => {
                self.system.extend(text_part(Cow::Borrowed(&system.text)));
            }
            Message::System(system) => self.said.extend(text_part(Cow::Borrowed(&system.text))),
            Message::User(user) => self.said.extend(text_parts(&user.content)),
            Message::Developer(message) => {
                self.said.extend(text_part(Cow::Owned(text_of_developer(message))));
            }
            Message::Assistant(answer) => self.answer(seq, answer),
            Message::ToolResult(result) => self.result(result),
        }
    }

    fn finish(mut self) -> Result<(Vec<Part<'a>>, Vec<wire::Message<'a>>), ModelFailure> {
        self.close_user_message();
        let paused = self.last_stop == StopReason::Pause.as_str();
        match self.messages.last() {
            Some(last) if last.role == Role::User || paused => Ok((self.system, self.messages)),
            _ => Err(invalid("there is nothing to answer: the conversation has no new input")),
        }
    }

    fn result(&mut self, result: &'a ToolResult) {
        let id = result.id.as_str();
        let waiting = |call: &&mut Call<'_>| call.stored_id == id && call.result.is_none();
        match self.calls.iter_mut().find(waiting) {
            Some(call) => call.result = Some(result),
            None => tracing::warn!(id, "a tool result without a call is left out of the request"),
        }
    }

    fn answer(&mut self, seq: Seq, answer: &'a AssistantMessage) {
        self.close_user_message();
        let (content, calls) = self.answer_parts(answer, seq >= self.reasoning_since);
        if content.is_empty() {
            return;
        }
        if self.messages.is_empty() {
            // A conversation must begin with the user, also when its beginning is gone.
            self.said.push(Part::Text { text: "(The conversation continues.)".into() });
            self.close_user_message();
        }
        self.messages.push(wire::Message { role: Role::Assistant, content });
        self.calls = calls;
        self.last_stop = &answer.stop;
    }

    fn answer_parts(
        &mut self,
        answer: &'a AssistantMessage,
        in_series: bool,
    ) -> (Vec<Part<'a>>, Vec<Call<'a>>) {
        let own =
            *answer.route.provider == *self.model.provider && *answer.route.model == *self.model.id;
        let mut content = Vec::with_capacity(answer.blocks.len());
        let mut calls = Vec::new();
        for timed in &answer.blocks {
            match &timed.block {
                Block::Text { text } => content.extend(text_part(Cow::Borrowed(text))),
                Block::ToolCall { .. } if answer.interrupted => {}
                Block::ToolCall { id, name, arguments } => {
                    let wire_id = self.unique_id(id.as_str());
                    content.push(Part::ToolUse {
                        id: wire_id.clone(),
                        name: legal_name(name),
                        input: input(arguments),
                    });
                    calls.push(Call { stored_id: id.as_str(), wire_id, result: None });
                }
                block if own && in_series => content.extend(self.returned(block)),
                // Of use only to the model that made it, behind the prefix that it was made for.
                _ => {}
            }
        }
        // Providers refuse an answer that ends in reasoning; without what it led to it says nothing.
        while content.last().is_some_and(is_reasoning) {
            content.pop();
        }
        let wants_reasoning = self.model.dialect == Dialect::DeepSeek && !content.is_empty();
        if wants_reasoning && !content.iter().any(is_reasoning) {
            // DeepSeek refuses a conversation with tools in which an answer lacks the field, even
            // where there was no reasoning.
            content.insert(0, Part::Thinking { thinking: "", signature: None });
        }
        (content, calls)
    }

    /// A block that only its own model can read: byte for byte, or not at all.
    fn returned(&self, block: &'a Block) -> Option<Part<'a>> {
        match block {
            Block::Thinking { text, signature } => {
                let signature = signature.as_deref();
                let signed = signature.is_some_and(|signature| !signature.is_empty());
                (signed || self.model.dialect == Dialect::DeepSeek)
                    .then_some(Part::Thinking { thinking: text, signature })
            }
            Block::RedactedThinking { data } => Some(Part::RedactedThinking { data }),
            Block::Opaque { raw } => serde_json::from_str(raw.json()).ok().map(Part::Opaque),
            Block::Text { .. } | Block::ToolCall { .. } => None,
        }
    }

    fn unique_id(&mut self, stored: &'a str) -> Cow<'a, str> {
        let mut id = Cow::Borrowed(stored);
        let mut number = self.ids.len();
        while !is_legal_name(&id) || self.ids.contains(&id) {
            id = Cow::Owned(format!("call_{number}"));
            number = number.saturating_add(1);
        }
        self.ids.insert(id.clone());
        id
    }

    /// Everything since the last answer becomes one message: first the results of its calls, in
    /// the model's order and without a gap, then what was said.
    fn close_user_message(&mut self) {
        let mut content: Vec<_> = self.calls.drain(..).map(result_part).collect();
        content.append(&mut self.said);
        if content.is_empty() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == Role::User => last.content.append(&mut content),
            _ => self.messages.push(wire::Message { role: Role::User, content }),
        }
    }
}

fn is_reasoning(part: &Part<'_>) -> bool {
    matches!(part, Part::Thinking { .. } | Part::RedactedThinking { .. })
}

fn text_parts(content: &[Content]) -> impl Iterator<Item = Part<'_>> {
    content.iter().filter_map(|content| text_part(text_of(content)))
}

/// Providers refuse a text without a visible character.
fn text_part(text: Cow<'_, str>) -> Option<Part<'_>> {
    (!text.trim().is_empty()).then_some(Part::Text { text })
}

fn result_part(call: Call<'_>) -> Part<'_> {
    let (mut content, is_error) = match call.result {
        Some(result) => (text_parts(&result.content).collect(), result.error.is_some()),
        None => (vec![Part::Text { text: "No result of this call was recorded.".into() }], true),
    };
    if content.is_empty() {
        content.push(Part::Text { text: "(no output)".into() });
    }
    Part::ToolResult { tool_use_id: call.wire_id, content, is_error }
}

/// The name as the model wrote it, or the nearest legal one.
fn legal_name(name: &str) -> Cow<'_, str> {
    if is_legal_name(name) {
        return Cow::Borrowed(name);
    }
    let legal = |letter| if is_legal_letter(letter) { letter } else { '_' };
    let repaired: String = name.chars().take(MAX_NAME).map(legal).collect();
    Cow::Owned(if repaired.is_empty() { "unnamed".to_owned() } else { repaired })
}

/// The arguments exactly as the model wrote them when they are a JSON object; otherwise an object
/// that shows the model what it wrote.
fn input(arguments: &str) -> Cow<'_, RawValue> {
    let text = arguments.trim();
    // Reading the whole value also refuses what a skim lets pass, such as a lone surrogate.
    if serde_json::from_str::<serde_json::Map<String, Value>>(text).is_ok()
        && let Ok(raw) = serde_json::from_str(text)
    {
        return Cow::Borrowed(raw);
    }
    let substitute = match text {
        "" => serde_json::value::to_raw_value(&serde_json::Map::new()),
        _ => serde_json::value::to_raw_value(&serde_json::json!({ "_invalid": arguments })),
    };
    substitute.map_or_else(|_| Cow::Borrowed(RawValue::NULL), Cow::Owned)
}

#[cfg(test)]
mod tests;
