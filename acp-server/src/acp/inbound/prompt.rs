//! The content blocks of `session/prompt`: an unknown kind becomes a placeholder that the model
//! reads, so that one new kind of attachment does not cost the person the whole prompt.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::ContentBlock;
use serde_json::{Map, Value, json};

use crate::acp::errors;
use crate::text;

/// The kinds of the protocol, with the members that each must have.
const KINDS: [(&str, &[&str]); 5] = [
    ("text", &["text"]),
    ("image", &["data", "mimeType"]),
    ("audio", &["data", "mimeType"]),
    ("resource_link", &["uri", "name"]),
    ("resource", &["resource"]),
];

/// Puts a text in the place of each block of unknown kind, and drops malformed optional members
/// of known ones. Returns whether the parameters changed.
///
/// # Errors
/// When a block of a known kind lacks what the kind requires.
pub(super) fn repair(params: &mut Map<String, Value>) -> Result<bool, Error> {
    let blocks = match params.get_mut("prompt") {
        // The SDK says that it is missing.
        None => return Ok(false),
        Some(Value::Array(blocks)) => blocks,
        Some(_) => return Err(errors::invalid_params("`prompt` must be a list of content blocks")),
    };
    let mut changed = false;
    for (index, block) in blocks.iter_mut().enumerate() {
        changed |= repair_block(index, block)?;
    }
    Ok(changed)
}

fn repair_block(index: usize, block: &mut Value) -> Result<bool, Error> {
    let Some(kind) = block.get("type").and_then(Value::as_str) else {
        return Err(errors::invalid_params(&format!("prompt[{index}]: `type` is missing")));
    };
    let Some((kind, required)) = KINDS.into_iter().find(|(known, _)| *known == kind) else {
        let kind = text::shorten(&text::visible(kind), 64);
        *block = json!({
            "type": "text",
            "text": format!("[A content block of the unknown type \"{kind}\" was left out here.]"),
        });
        return Ok(true);
    };
    if readable(block) {
        return Ok(false);
    }
    if let Value::Object(members) = block {
        members.retain(|name, _| name == "type" || required.contains(&name.as_str()));
    }
    if readable(block) {
        return Ok(true);
    }
    let required = required.join("`, `");
    Err(errors::invalid_params(&format!(
        "prompt[{index}]: a `{kind}` block needs `{required}` of the right type"
    )))
}

/// Whether the SDK can read the block. Texts, by far the most, are judged without a copy.
fn readable(block: &Value) -> bool {
    let plain = |members: &Map<String, Value>| {
        members.len() == 2 && members.get("text").is_some_and(Value::is_string)
    };
    block.as_object().is_some_and(plain)
        || serde::Deserialize::deserialize(block).is_ok_and(|_: ContentBlock| true)
}
