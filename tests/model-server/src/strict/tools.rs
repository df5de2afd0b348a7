//! The offered tools.

use std::collections::HashSet;

use serde_json::Value;

use super::{Refusal, Request, blocks, blocks_of, kind_of, only_fields, schema, text};

const FIELDS: [&str; 8] = [
    "type",
    "name",
    "description",
    "input_schema",
    "cache_control",
    "strict",
    "eager_input_streaming",
    "input_examples",
];

pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    let Some(tools) = request.body.get("tools") else { return without_tools(request) };
    let Some(tools) = tools.as_array() else {
        return Err(Refusal::invalid("tools", "tools: must be an array"));
    };
    let mut names = HashSet::new();
    for (index, tool) in tools.iter().enumerate() {
        let at = format!("tools.{index}");
        let name = check_tool(tool, &at)?;
        if !names.insert(name) {
            let message = format!("tools: Tool names must be unique; {name} is not");
            return Err(Refusal::invalid("tool-name", message));
        }
    }
    if tools.is_empty() { without_tools(request) } else { Ok(()) }
}

/// Whether a name can be that of a tool: `[a-zA-Z0-9_-]{1,64}`.
pub(super) fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

fn check_tool<'a>(tool: &'a Value, at: &str) -> Result<&'a str, Refusal> {
    let invalid = |rule, message: &str| Refusal::invalid(rule, format!("{at}{message}"));
    let fields = tool.as_object().ok_or_else(|| invalid("tools", ": must be an object"))?;
    only_fields(fields, &FIELDS, &format!("{at}."))?;
    if !matches!(text(tool, "type"), None | Some("custom")) {
        return Err(invalid("tools", ".type: this server offers no tools of its own"));
    }
    let name = text(tool, "name").unwrap_or_default();
    if !is_name(name) {
        let message = ".name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'";
        return Err(invalid("tool-name", message));
    }
    if text(tool, "description").is_none() {
        return Err(invalid("tool-description", ".description: must be a string"));
    }
    let schema = fields
        .get("input_schema")
        .ok_or_else(|| invalid("tool-schema", ".input_schema: Field required"))?;
    schema::check(schema, &format!("{at}.input_schema"))?;
    blocks::cache_control(fields.get("cache_control"), &format!("{at}."))?;
    Ok(name)
}

fn without_tools(request: &Request<'_>) -> Result<(), Refusal> {
    let mut blocks = request.messages.iter().flat_map(blocks_of);
    if blocks.any(|block| matches!(kind_of(block), "tool_use" | "tool_result")) {
        let message = "Requests which include `tool_use` or `tool_result` blocks must define tools";
        return Err(Refusal::invalid("tools-missing", message));
    }
    Ok(())
}
