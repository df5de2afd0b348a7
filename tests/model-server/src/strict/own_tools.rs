//! Blocks of the provider's own tools in an answer: each call has its result behind it, and each
//! result its call before it. Only a paused answer may end in calls that are still running.

use serde_json::Value;

use super::{Dialect, Refusal, Request, blocks_of, kind_of, text};

/// Whether a block of this kind may stand in an answer that is sent back.
pub(super) fn is_block(dialect: Dialect, kind: &str) -> bool {
    dialect == Dialect::Anthropic
        && (is_call(kind) || is_result(kind) || kind == "container_upload")
}

fn is_call(kind: &str) -> bool {
    kind == "server_tool_use"
}

fn is_result(kind: &str) -> bool {
    kind != "tool_result" && kind.ends_with("_tool_result")
}

pub(super) fn check(request: &Request<'_>, paused: &[bool]) -> Result<(), Refusal> {
    for (index, message) in request.messages.iter().enumerate() {
        let is_paused = paused.get(index).copied().unwrap_or(false);
        check_message(message, is_paused, &format!("messages.{index}"))?;
    }
    Ok(())
}

fn check_message(message: &Value, is_paused: bool, at: &str) -> Result<(), Refusal> {
    let mut running: Vec<&str> = Vec::new();
    for block in blocks_of(message) {
        let kind = kind_of(block);
        if is_call(kind) {
            running.push(text(block, "id").unwrap_or_default());
        } else if is_result(kind) {
            let id = text(block, "tool_use_id").unwrap_or_default();
            let Some(call) = running.iter().position(|running| *running == id) else {
                let message = format!("{at}: unexpected `tool_use_id` in a `{kind}` block: {id}");
                return Err(Refusal::invalid("own-tool-unexpected", message));
            };
            running.remove(call);
        }
    }
    match running.first() {
        Some(id) if !is_paused => {
            let message = format!("{at}: `server_tool_use` without its result: {id}");
            Err(Refusal::invalid("own-tool-missing", message))
        }
        _ => Ok(()),
    }
}
