//! Content blocks: which kinds stand where, their fields, and that none is empty.

use serde_json::Value;

use super::{Dialect, Refusal, Request, images, kind_of, only_fields, own_tools, text, tools};

const MAX_BREAKPOINTS: usize = 4;

/// The content of a user or assistant message.
pub(super) fn content(
    request: &Request<'_>,
    content: &Value,
    role: &str,
    at: &str,
) -> Result<(), Refusal> {
    let Value::Array(blocks) = content else { return text_content(content, at) };
    not_empty(blocks.is_empty(), at)?;
    for (index, block) in blocks.iter().enumerate() {
        let at = format!("{at}.content.{index}");
        match (kind_of(block), role) {
            ("text", _) => text_block(block, &at)?,
            ("image", "user") => image(request, block, &at)?,
            ("tool_result", "user") => tool_result(request, block, &at)?,
            ("tool_use", "assistant") => tool_use(block, &at)?,
            ("thinking", "assistant") => thinking(block, &at)?,
            ("redacted_thinking", "assistant") => redacted(block, &at)?,
            (kind, "assistant") if own_tools::is_block(request.dialect, kind) => {}
            (kind, _) => return Err(unknown(kind, role, &at)),
        }
    }
    Ok(())
}

/// Content that is a string or an array of text blocks: `system`, and system messages.
pub(super) fn text_content(content: &Value, at: &str) -> Result<(), Refusal> {
    match content {
        Value::String(text) => not_empty(text.trim().is_empty(), at),
        Value::Array(blocks) => {
            not_empty(blocks.is_empty(), at)?;
            blocks.iter().enumerate().try_for_each(|(index, block)| {
                let at = format!("{at}.{index}");
                if kind_of(block) == "text" {
                    text_block(block, &at)
                } else {
                    Err(unknown(kind_of(block), "system", &at))
                }
            })
        }
        _ => Err(Refusal::invalid("content", format!("{at}: must be a string or an array"))),
    }
}

/// At most four breakpoints in a request. DeepSeek ignores them.
pub(super) fn breakpoints(request: &Request<'_>) -> Result<(), Refusal> {
    let parts = request.body.iter().filter(|(key, _)| *key != "cache_control");
    let automatic = usize::from(request.body.contains_key("cache_control"));
    let found = automatic + parts.map(|(_, part)| count_breakpoints(part)).sum::<usize>();
    if found <= MAX_BREAKPOINTS || request.dialect == Dialect::DeepSeek {
        return Ok(());
    }
    let message = format!(
        "A maximum of {MAX_BREAKPOINTS} blocks with cache_control may be provided. Found {found}."
    );
    Err(Refusal::invalid("cache-control", message))
}

/// A tool's inputs and schemas are its own and are not searched.
fn count_breakpoints(value: &Value) -> usize {
    match value {
        Value::Object(fields) => fields
            .iter()
            .map(|(key, value)| match key.as_str() {
                "cache_control" => 1,
                "input" | "input_schema" | "input_examples" => 0,
                _ => count_breakpoints(value),
            })
            .sum(),
        Value::Array(items) => items.iter().map(count_breakpoints).sum(),
        _ => 0,
    }
}

/// The one legal form of a cache breakpoint.
pub(super) fn cache_control(marker: Option<&Value>, at: &str) -> Result<(), Refusal> {
    let Some(marker) = marker else { return Ok(()) };
    let is_known = text(marker, "type") == Some("ephemeral")
        && matches!(marker.get("ttl").map(Value::as_str), None | Some(Some("5m" | "1h")));
    if is_known {
        return Ok(());
    }
    Err(Refusal::invalid("cache-control", format!("{at}cache_control: {marker} is not valid")))
}

fn text_block(block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["text", "citations", "cache_control"], at)?;
    match text(block, "text") {
        Some(text) if !text.trim().is_empty() => Ok(()),
        Some(_) => Err(Refusal::invalid(
            "empty-text",
            format!("{at}: text content blocks must contain non-whitespace text"),
        )),
        None => Err(Refusal::invalid("content", format!("{at}.text: must be a string"))),
    }
}

fn image(request: &Request<'_>, block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["source", "cache_control"], at)?;
    images::block(request, block, at)
}

fn tool_use(block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["id", "name", "input", "caller", "cache_control"], at)?;
    let id = text(block, "id").unwrap_or_default();
    let is_id_byte = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if id.is_empty() || !id.bytes().all(is_id_byte) {
        let message = format!("{at}.id: String should match pattern '^[a-zA-Z0-9_-]+$'");
        return Err(Refusal::invalid("tool-id", message));
    }
    if !text(block, "name").is_some_and(tools::is_name) {
        let message = format!("{at}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'");
        return Err(Refusal::invalid("tool-name", message));
    }
    if block.get("input").is_some_and(Value::is_object) {
        return Ok(());
    }
    let message = format!("{at}.input: Input should be an object");
    Err(Refusal::invalid("tool-input", message))
}

fn tool_result(request: &Request<'_>, block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["tool_use_id", "content", "is_error", "cache_control"], at)?;
    let invalid = |message: &str| Refusal::invalid("tool-result", format!("{at}.{message}"));
    if text(block, "tool_use_id").is_none() {
        return Err(invalid("tool_use_id: must be a string"));
    }
    let is_error = match block.get("is_error") {
        None => false,
        Some(Value::Bool(is_error)) => *is_error,
        Some(_) => return Err(invalid("is_error: must be a boolean")),
    };
    match block.get("content") {
        Some(Value::String(text)) if text.is_empty() => Err(invalid("content: is empty")),
        Some(Value::String(_)) => Ok(()),
        Some(Value::Array(blocks)) if !blocks.is_empty() => {
            blocks.iter().enumerate().try_for_each(|(index, block)| {
                let at = format!("{at}.content.{index}");
                match kind_of(block) {
                    "text" => text_block(block, &at),
                    "image" if !is_error => image(request, block, &at),
                    kind => Err(unknown(kind, "tool_result", &at)),
                }
            })
        }
        _ => Err(invalid("content: must be a string or a non-empty array")),
    }
}

fn thinking(block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["thinking", "signature"], at)?;
    if text(block, "thinking").is_none() {
        return Err(Refusal::invalid("content", format!("{at}.thinking: must be a string")));
    }
    Ok(())
}

fn redacted(block: &Value, at: &str) -> Result<(), Refusal> {
    fields(block, &["data"], at)?;
    if text(block, "data").is_none() {
        return Err(Refusal::invalid("content", format!("{at}.data: must be a string")));
    }
    Ok(())
}

fn fields(block: &Value, known: &[&str], at: &str) -> Result<(), Refusal> {
    let Some(object) = block.as_object() else {
        return Err(Refusal::invalid("content", format!("{at}: must be an object")));
    };
    let known: Vec<&str> = known.iter().copied().chain(["type"]).collect();
    only_fields(object, &known, &format!("{at}."))?;
    cache_control(object.get("cache_control"), &format!("{at}."))
}

fn not_empty(is_empty: bool, at: &str) -> Result<(), Refusal> {
    if is_empty {
        return Err(Refusal::invalid("empty-content", format!("{at}: content must not be empty")));
    }
    Ok(())
}

fn unknown(kind: &str, place: &str, at: &str) -> Refusal {
    Refusal::invalid("block-type", format!("{at}: {kind:?} is not allowed in {place} content"))
}
