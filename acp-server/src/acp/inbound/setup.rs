//! The tolerable parts of `session/new`, `session/load` and `session/resume`: MCP servers and
//! optional fields that the SDK would refuse the whole request for.

use agent_client_protocol::Error;
use agent_client_protocol::v1::schema::{McpServer, Meta, SystemPrompt};
use serde_json::{Map, Value, json};

use crate::acp::errors;
use crate::text;

/// The key of `_meta` under which the notes travel to the handler.
const NOTES: &str = "bridle.dev/notes";

/// How many notes one request may cause; the rest is summed up.
const MAX_NOTES: usize = 16;

/// Takes out what cannot be used and leaves a note about each, which the session shows to the
/// person. Returns whether the parameters changed.
///
/// # Errors
/// When `mcpServers` is there and is no list, and when `systemPrompt` cannot be read: instructions
/// must not be passed over.
pub(super) fn repair(params: &mut Map<String, Value>) -> Result<bool, Error> {
    let mut notes = Vec::new();
    repair_servers(params, &mut notes)?;
    repair_directories(params, &mut notes);
    if let Some(prompt) = params.get("systemPrompt")
        && serde_json::from_value::<Option<SystemPrompt>>(prompt.clone()).is_err()
    {
        return Err(errors::invalid_params(
            "`systemPrompt` must hold a `mode` and a list `content`",
        ));
    }
    if notes.is_empty() {
        // A client cannot put words into our mouth.
        return Ok(without_notes(params));
    }
    if notes.len() > MAX_NOTES {
        let more = notes.len() - MAX_NOTES;
        notes.truncate(MAX_NOTES);
        notes.push(format!("{more} more entries were left out"));
    }
    let meta = params.entry("_meta").or_insert(Value::Null);
    match meta {
        Value::Object(meta) => {
            meta.insert(NOTES.to_owned(), json!(notes));
        }
        other => *other = json!({ NOTES: notes }),
    }
    Ok(true)
}

fn without_notes(params: &mut Map<String, Value>) -> bool {
    let meta = params.get_mut("_meta").and_then(Value::as_object_mut);
    meta.is_some_and(|meta| meta.remove(NOTES).is_some())
}

fn repair_servers(params: &mut Map<String, Value>, notes: &mut Vec<String>) -> Result<(), Error> {
    let servers = match params.get_mut("mcpServers") {
        // Absent: the SDK says so where the method requires it. Null: an empty list.
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Array(servers)) => servers,
        Some(_) => return Err(errors::invalid_params("`mcpServers` must be a list")),
    };
    let mut number = 0_usize;
    servers.retain(|server| {
        number += 1;
        let problem = match server.get("type").map(Value::as_str) {
            None | Some(Some("stdio" | "http" | "sse")) => {
                match serde_json::from_value::<McpServer>(server.clone()) {
                    Ok(_) => return true,
                    Err(_) => "it lacks a required field or has one of the wrong type".to_owned(),
                }
            }
            Some(Some(unknown)) => format!("unknown type \"{}\"", short(unknown)),
            Some(None) => "its type is not a string".to_owned(),
        };
        let name = server
            .get("name")
            .and_then(Value::as_str)
            .map_or_else(|| format!("number {number}"), |name| format!("\"{}\"", short(name)));
        notes.push(format!("MCP server {name} was left out: {problem}"));
        false
    });
    Ok(())
}

fn repair_directories(params: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let readable = match params.get("additionalDirectories") {
        None | Some(Value::Null) => return,
        Some(Value::Array(list)) => list.iter().all(Value::is_string),
        Some(_) => false,
    };
    if !readable {
        params.remove("additionalDirectories");
        notes.push("`additionalDirectories` was left out: it is not a list of paths".to_owned());
    }
}

fn short(text: &str) -> String {
    text::shorten(&text::visible(text), 64)
}

/// The notes that [`repair`] left in a request.
pub(in crate::acp) fn notes_in(meta: Option<&Meta>) -> Vec<String> {
    let notes = meta.and_then(|meta| meta.get(NOTES)).and_then(Value::as_array);
    notes.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}
