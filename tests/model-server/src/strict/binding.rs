//! Thinking bound to its prefix: signing, and the check of what a client returns.
//!
//! Between the messages of a request exact bytes count. Within the answer that holds a block,
//! the client's bytes do not exist yet when it is signed; there the earlier blocks count by what
//! they say (text, the call's id, name and input, signatures), and blank texts, which may not be
//! returned, count nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac_sha256::HMAC;
use serde_json::Value;

use super::prefix::{Key, without_markers};
use super::{Dialect, Refusal, Request, Rules, blocks_of, kind_of, text};
use crate::ledger::{Ledger, Mark};

/// A MAC over a growing conversation.
#[derive(Clone)]
pub(crate) struct Chain(HMAC);

impl Chain {
    pub(super) fn new(key: &Key) -> Self {
        Self(HMAC::new(key))
    }

    /// Adds a labelled part; lengths keep neighbouring parts apart.
    pub(super) fn absorb(&mut self, label: &str, bytes: &[u8]) {
        self.0.update(label.as_bytes());
        self.0.update((bytes.len() as u64).to_le_bytes());
        self.0.update(bytes);
    }

    /// The value of the MAC at this point.
    pub(crate) fn mark(&self) -> Mark {
        self.0.clone().finalize()
    }

    /// Adds a block of the answer that is being written or returned.
    pub(crate) fn absorb_block(&mut self, block: &Value, ledger: &Ledger) {
        let field = |name| text(block, name).unwrap_or_default();
        match kind_of(block) {
            "text" if field("text").trim().is_empty() => {}
            "text" => {
                self.absorb("text", field("text").as_bytes());
                if let Some(citations) = block.get("citations") {
                    self.absorb("citations", canonical(citations).as_bytes());
                }
            }
            "thinking" => self.absorb("signed", field("signature").as_bytes()),
            "redacted_thinking" => self.absorb("signed", field("data").as_bytes()),
            "tool_use" => {
                self.absorb("tool_use", field("id").as_bytes());
                self.absorb("name", field("name").as_bytes());
                // Broken arguments have no form in which they could be returned.
                if !ledger.emitted_call(field("id")).is_some_and(|call| call.is_broken) {
                    let input = canonical(block.get("input").unwrap_or(&Value::Null));
                    self.absorb("input", input.as_bytes());
                }
            }
            _ => self.absorb("block", canonical(block).as_bytes()),
        }
    }
}

/// The signature of a thinking block (its text) or the data of a redacted one (`None`) that
/// `model` writes at this point of a conversation.
pub(crate) fn signature(chain: &Chain, model: &str, thinking: Option<&str>) -> String {
    let mut chain = chain.clone();
    match thinking {
        Some(text) => chain.absorb("thinking", text.as_bytes()),
        None => chain.absorb("redacted", b""),
    }
    chain.absorb("model", model.as_bytes());
    STANDARD.encode(chain.mark())
}

/// The conversation of a request, walked once.
pub(super) struct Walk {
    pub(super) chain: Chain,
    /// For each message, whether it is an answer that the server paused.
    pub(super) paused: Vec<bool>,
}

pub(super) fn walk(request: &Request<'_>, rules: &Rules<'_>) -> Result<Walk, Refusal> {
    let ledger = rules.ledger;
    let raw = &request.raw;
    let mut chain = Chain::new(rules.mac_key);
    for (label, part) in [("system", raw.system), ("tools", raw.tools)] {
        chain.absorb(label, &without_markers(part.map(|part| part.get()).unwrap_or_default()));
    }
    let mut paused = Vec::new();
    let running_turn = request.messages.iter().rposition(is_prompt).unwrap_or(0);
    for (index, (message, raw)) in
        request.messages.iter().zip(raw.messages.iter().flatten()).enumerate()
    {
        let is_assistant = text(message, "role") == Some("assistant");
        if is_assistant && rules.signatures && request.dialect == Dialect::Anthropic {
            check_signed(request, &chain, message, index, ledger)?;
            if index >= running_turn {
                check_complete(request, &chain, message, index, ledger)?;
            }
        }
        paused.push(is_assistant && ledger.is_paused(&end_of(&chain, message, ledger)));
        chain.absorb("message", &without_markers(raw.get()));
    }
    Ok(Walk { chain, paused })
}

/// Recomputes the signature of every thinking block of a returned answer.
fn check_signed(
    request: &Request<'_>,
    prefix: &Chain,
    message: &Value,
    index: usize,
    ledger: &Ledger,
) -> Result<(), Refusal> {
    let mut chain = prefix.clone();
    for (position, block) in blocks_of(message).iter().enumerate() {
        let signed = signed_parts(block);
        if let Some((given, thinking)) = signed
            && signature(&chain, &request.model.id, thinking) != given
        {
            let at = format!("messages.{index}.content.{position}");
            return Err(explain(request, given, thinking, &at, ledger));
        }
        chain.absorb_block(block, ledger);
    }
    Ok(())
}

/// In the running turn, thinking that is readable must come back with the tool call it led to.
///
/// After a changed prefix or under another model it is not readable, and leaving it out is right.
/// In earlier turns the provider lets a client leave it out as well; that changes the prefix of
/// whatever was thought later, which [`check_signed`] finds.
fn check_complete(
    request: &Request<'_>,
    prefix: &Chain,
    message: &Value,
    index: usize,
    ledger: &Ledger,
) -> Result<(), Refusal> {
    let returned: Vec<&str> =
        blocks_of(message).iter().filter_map(signed_parts).map(|(given, _)| given).collect();
    for block in blocks_of(message).iter().filter(|block| kind_of(block) == "tool_use") {
        let id = text(block, "id").unwrap_or_default();
        let Some(call) = ledger.emitted_call(id) else { continue };
        let is_readable = call.model == request.model.id && call.prefix == prefix.mark();
        let is_complete = call.thinking.iter().all(|given| returned.contains(&given.as_str()));
        if is_readable && !is_complete {
            let message = format!(
                "messages.{index}: Expected `thinking` or `redacted_thinking` before `tool_use` \
                 {id}: reasoning must be returned with the tool calls it led to"
            );
            return Err(Refusal::invalid("thinking-dropped", message));
        }
    }
    Ok(())
}

/// Whether a message begins a turn: the user's, and no answer to tool calls.
fn is_prompt(message: &Value) -> bool {
    text(message, "role") == Some("user")
        && !blocks_of(message).iter().any(|block| kind_of(block) == "tool_result")
}

fn end_of(prefix: &Chain, message: &Value, ledger: &Ledger) -> Mark {
    let mut chain = prefix.clone();
    for block in blocks_of(message) {
        chain.absorb_block(block, ledger);
    }
    chain.mark()
}

/// What vouches for a thinking block, and its text (`None` when it is redacted).
fn signed_parts(block: &Value) -> Option<(&str, Option<&str>)> {
    let field = |name| text(block, name).unwrap_or_default();
    match kind_of(block) {
        "thinking" => Some((field("signature"), Some(field("thinking")))),
        "redacted_thinking" => Some((field("data"), None)),
        _ => None,
    }
}

/// Words the refusal of a signature that does not fit.
fn explain(
    request: &Request<'_>,
    given: &str,
    thinking: Option<&str>,
    at: &str,
    ledger: &Ledger,
) -> Refusal {
    let (rule, message) = match ledger.signed(given) {
        None => ("thinking-signature", format!("{at}: Invalid `signature` in thinking block")),
        Some(signed) if signed.text.as_deref() != thinking => (
            "thinking-altered",
            format!("{at}: thinking blocks cannot be modified; they must remain as they were"),
        ),
        Some(signed) if signed.model != request.model.id => (
            "thinking-model",
            format!("{at}: the thinking block was written by {} and is bound to it", signed.model),
        ),
        Some(_) => (
            "thinking-prefix",
            format!("{at}: the thinking block is bound to a different conversation"),
        ),
    };
    Refusal::invalid(rule, message)
}

/// JSON with sorted keys and no spaces, whatever order the parser keeps.
pub(super) fn canonical(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let mut members: Vec<String> = fields
                .iter()
                .map(|(key, value)| format!("{}:{}", Value::from(key.as_str()), canonical(value)))
                .collect();
            members.sort();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(","))
        }
        scalar => scalar.to_string(),
    }
}
