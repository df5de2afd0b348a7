//! Top-level parameters: which exist, which a model rejects, and which go together.

use serde_json::{Map, Value};

use super::{Dialect, Refusal, Request, blocks, only_fields, text};
use crate::{ModelSpec, Thinking};

const KNOWN: [&str; 13] = [
    "model",
    "max_tokens",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "stream",
    "thinking",
    "output_config",
    "stop_sequences",
    "metadata",
    "service_tier",
    "cache_control",
];
const SAMPLING: [&str; 3] = ["temperature", "top_p", "top_k"];
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

pub(super) fn model(
    dialect: Dialect,
    body: &Map<String, Value>,
    find: impl Fn(&str) -> Option<ModelSpec>,
) -> Result<ModelSpec, Refusal> {
    let id = body
        .get("model")
        .and_then(Value::as_str)
        .ok_or_else(|| Refusal::invalid("model", "model: Field required"))?;
    find(id).ok_or_else(|| match dialect {
        Dialect::Anthropic => Refusal::status(404, "model", format!("model: {id}")),
        Dialect::DeepSeek => Refusal::invalid("model", "Model Not Exist"),
    })
}

pub(super) fn shows_thinking(body: &Map<String, Value>) -> bool {
    body.get("thinking").and_then(|value| text(value, "display")) == Some("summarized")
}

pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    let body = request.body;
    if let Some(name) = SAMPLING.iter().find(|name| body.contains_key(**name)) {
        let message = format!("{name}: not supported by {}", request.model.id);
        return Err(Refusal::invalid("sampling", message));
    }
    only_fields(body, &KNOWN, "")?;
    max_tokens(request)?;
    if body.get("stream") != Some(&Value::Bool(true)) {
        return Err(Refusal::invalid("stream", "stream: this server only streams"));
    }
    if let Some(system) = body.get("system") {
        blocks::text_content(system, "system")?;
    }
    thinking(request)?;
    output_config(body)?;
    tool_choice(request)?;
    blocks::cache_control(body.get("cache_control"), "")
}

fn max_tokens(request: &Request<'_>) -> Result<(), Refusal> {
    let refuse = |message| Err(Refusal::invalid("max-tokens", message));
    let limit = request.model.max_output;
    match request.body.get("max_tokens").map(Value::as_u64) {
        None => refuse("max_tokens: Field required".to_owned()),
        Some(None | Some(0)) => refuse("max_tokens: must be a positive integer".to_owned()),
        Some(Some(tokens)) if tokens > limit => refuse(format!(
            "max_tokens: {tokens} > {limit}, which is the maximum allowed number of output \
             tokens for {}",
            request.model.id
        )),
        Some(Some(_)) => Ok(()),
    }
}

fn thinking(request: &Request<'_>) -> Result<(), Refusal> {
    let Some(thinking) = request.body.get("thinking") else { return Ok(()) };
    let refuse = |message: &str| Err(Refusal::invalid("thinking", format!("thinking: {message}")));
    let Some(fields) = thinking.as_object() else { return refuse("must be an object") };
    match (request.thinking_type(), request.dialect) {
        (Some("adaptive"), _) => {}
        (Some("disabled"), _) if request.model.thinking == Thinking::Always => {
            return refuse("cannot be disabled for this model");
        }
        (Some("disabled"), _) => {}
        (Some("enabled"), Dialect::DeepSeek) => {}
        (Some("enabled"), _) => {
            return refuse("enabled with budget_tokens is not supported; use adaptive");
        }
        _ => return refuse("type must be adaptive or disabled"),
    }
    only_fields(fields, &["type", "display"], "thinking.")?;
    match fields.get("display").map(Value::as_str) {
        None | Some(Some("summarized" | "omitted")) => Ok(()),
        Some(_) => refuse("display must be summarized or omitted"),
    }
}

fn output_config(body: &Map<String, Value>) -> Result<(), Refusal> {
    let Some(config) = body.get("output_config") else { return Ok(()) };
    let refuse = |message: &str| Err(Refusal::invalid("output-config", message));
    let Some(fields) = config.as_object() else {
        return refuse("output_config: must be an object");
    };
    only_fields(fields, &["effort", "format"], "output_config.")?;
    match fields.get("effort").map(Value::as_str) {
        None => Ok(()),
        Some(Some(effort)) if EFFORTS.contains(&effort) => Ok(()),
        Some(_) => refuse("output_config.effort: must be low, medium, high, xhigh or max"),
    }
}

fn tool_choice(request: &Request<'_>) -> Result<(), Refusal> {
    let Some(choice) = request.body.get("tool_choice") else { return Ok(()) };
    let refuse = |message: String| Err(Refusal::invalid("tool-choice", message));
    match text(choice, "type") {
        Some("auto" | "none") => Ok(()),
        Some(kind @ ("any" | "tool")) if request.is_thinking() => {
            refuse(format!("tool_choice: {kind} is not supported while the model thinks"))
        }
        Some("any" | "tool") => Ok(()),
        _ => refuse("tool_choice: type must be auto, any, tool or none".to_owned()),
    }
}
