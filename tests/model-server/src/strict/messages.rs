//! The shape of the conversation: roles, their order, and content that is never empty.

use serde_json::Value;

use super::{Dialect, Refusal, Request, blocks, blocks_of, kind_of, only_fields, text};

pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    if request.messages.is_empty() {
        return Err(Refusal::invalid("messages", "messages: at least one message is required"));
    }
    for (index, message) in request.messages.iter().enumerate() {
        check_message(request, message, index)?;
    }
    Ok(())
}

/// The order of roles, which depends on which assistant messages were `paused` by the server.
pub(super) fn check_turns(request: &Request<'_>, paused: &[bool]) -> Result<(), Refusal> {
    let roles: Vec<&str> =
        request.messages.iter().map(|m| text(m, "role").unwrap_or_default()).collect();
    for (index, pair) in roles.windows(2).enumerate() {
        let is_paused = paused.get(index).copied().unwrap_or(false);
        if pair == ["assistant", "assistant"] && !is_paused {
            let message = format!("messages.{}: roles must alternate", index + 1);
            return Err(Refusal::invalid("alternation", message));
        }
    }
    placed_system(&roles)?;
    let is_paused = paused.last().copied().unwrap_or(false);
    if roles.last() == Some(&"assistant") && !is_paused {
        let message = "This model does not support assistant message prefill. The conversation \
                       must end with a user message.";
        return Err(Refusal::invalid("prefill", message));
    }
    Ok(())
}

/// A system message follows a user message, and only an answer follows it.
fn placed_system(roles: &[&str]) -> Result<(), Refusal> {
    for (index, pair) in roles.windows(2).enumerate() {
        let is_placed = match pair {
            [before, "system"] => *before == "user",
            ["system", after] => *after == "assistant",
            _ => true,
        };
        if !is_placed {
            let at = index + usize::from(pair.last() == Some(&"system"));
            let message = format!(
                "messages.{at}: a system message must follow a user message, and be the last one \
                 or followed by an assistant message"
            );
            return Err(Refusal::invalid("system-placement", message));
        }
    }
    Ok(())
}

fn check_message(request: &Request<'_>, message: &Value, index: usize) -> Result<(), Refusal> {
    let at = format!("messages.{index}");
    let fields = message
        .as_object()
        .ok_or_else(|| Refusal::invalid("messages", format!("{at}: must be an object")))?;
    only_fields(fields, &["role", "content"], &format!("{at}."))?;
    let role = text(message, "role").unwrap_or_default();
    match role {
        "user" => {}
        _ if index == 0 => {
            let message = "messages: first message must use the \"user\" role";
            return Err(Refusal::invalid("first-message", message));
        }
        "assistant" => {}
        "system" if request.model.system_messages => {}
        _ => {
            let message = format!("{at}.role: {role:?} is not allowed here");
            return Err(Refusal::invalid("role", message));
        }
    }
    let content = fields.get("content").unwrap_or(&Value::Null);
    if role == "system" {
        return blocks::text_content(content, &at);
    }
    blocks::content(request, content, role, &at)?;
    if role == "assistant" && request.dialect == Dialect::Anthropic {
        check_last_block(message, &at)?;
    }
    Ok(())
}

fn check_last_block(message: &Value, at: &str) -> Result<(), Refusal> {
    match blocks_of(message).last().map(kind_of) {
        Some(kind @ ("thinking" | "redacted_thinking")) => {
            let message =
                format!("{at}: The final block in an assistant message cannot be `{kind}`.");
            Err(Refusal::invalid("thinking-last", message))
        }
        _ => Ok(()),
    }
}
