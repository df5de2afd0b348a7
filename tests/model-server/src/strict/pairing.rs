//! Tool calls and their results: every call is answered in the next message, once, in order,
//! before anything else.

use std::collections::HashSet;

use serde_json::Value;

use super::{Refusal, Request, blocks_of, kind_of, text};

pub(super) fn check(request: &Request<'_>) -> Result<(), Refusal> {
    unique_ids(request.messages)?;
    let mut asked: Vec<&str> = Vec::new();
    for (index, message) in request.messages.iter().enumerate() {
        let results = field_of(message, "tool_result", "tool_use_id");
        answered(&asked, &results, index)?;
        results_first(message, index)?;
        asked = field_of(message, "tool_use", "id");
    }
    answered(&asked, &[], request.messages.len())
}

fn unique_ids(messages: &[Value]) -> Result<(), Refusal> {
    let mut seen = HashSet::new();
    for id in messages.iter().flat_map(|message| field_of(message, "tool_use", "id")) {
        if !seen.insert(id) {
            let message = format!("messages: `tool_use` ids must be unique; {id} is not");
            return Err(Refusal::invalid("tool-id", message));
        }
    }
    Ok(())
}

/// Compares the calls of one message with the results in the message at `index`.
fn answered(asked: &[&str], results: &[&str], index: usize) -> Result<(), Refusal> {
    if asked == results {
        return Ok(());
    }
    let at = format!("messages.{index}");
    if let Some(id) = results.iter().find(|id| !asked.contains(id)) {
        let message = format!(
            "{at}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each \
             `tool_result` block must have a corresponding `tool_use` block in the previous \
             message."
        );
        return Err(Refusal::invalid("tool-result-unexpected", message));
    }
    if let Some(id) = asked.iter().find(|id| !results.contains(id)) {
        let message = format!(
            "{at}: `tool_use` ids were found without `tool_result` blocks immediately after: \
             {id}. Each `tool_use` block must have a corresponding `tool_result` block in the \
             next message."
        );
        return Err(Refusal::invalid("tool-result-missing", message));
    }
    if results.len() > asked.len() {
        let message = format!("{at}: each tool_use must have a single result; found several");
        return Err(Refusal::invalid("tool-result-duplicate", message));
    }
    let message = format!("{at}: `tool_result` blocks must stand in the order of their calls");
    Err(Refusal::invalid("tool-result-order", message))
}

fn results_first(message: &Value, index: usize) -> Result<(), Refusal> {
    let is_result = |block: &Value| kind_of(block) == "tool_result";
    let mut rest = blocks_of(message).iter().skip_while(|block| is_result(block));
    if rest.any(is_result) {
        let message =
            format!("messages.{index}: `tool_result` blocks must come before other content");
        return Err(Refusal::invalid("tool-result-first", message));
    }
    Ok(())
}

fn field_of<'a>(message: &'a Value, kind: &str, field: &str) -> Vec<&'a str> {
    blocks_of(message)
        .iter()
        .filter(|block| kind_of(block) == kind)
        .filter_map(|block| text(block, field))
        .collect()
}
