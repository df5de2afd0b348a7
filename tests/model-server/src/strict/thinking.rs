//! DeepSeek's rule about thinking: in a conversation with tool calls every assistant message
//! carries its thinking, also when it is empty. Signatures are Anthropic's; see `binding`.

use serde_json::Value;

use super::{Dialect, Refusal, Request, blocks_of, kind_of, text};

pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    if request.dialect != Dialect::DeepSeek || !request.is_thinking() {
        return Ok(());
    }
    let holds = |message: &Value, kind| blocks_of(message).iter().any(|b| kind_of(b) == kind);
    if !request.messages.iter().any(|message| holds(message, "tool_use")) {
        return Ok(());
    }
    for (index, message) in request.messages.iter().enumerate() {
        if text(message, "role") == Some("assistant") && !holds(message, "thinking") {
            let message = format!(
                "messages.{index}: The `content[].thinking` in the thinking mode must be passed \
                 back to the API."
            );
            return Err(Refusal::invalid("thinking-passed-back", message));
        }
    }
    Ok(())
}
