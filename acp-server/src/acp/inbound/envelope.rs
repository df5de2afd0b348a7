//! What kind of JSON-RPC message a line is, and the error for a line that is none.

use agent_client_protocol::Error;
use serde_json::{Map, Value, json};

use crate::acp::errors;

/// One line, judged.
pub(super) enum Message {
    /// A request.
    Request(Request),
    /// A notification, as it came.
    Notification(String),
    /// An answer to one of our requests, as it came.
    Response(String),
    /// To be answered with this error under this id.
    Malformed(Value, Error),
    /// A message that is never answered and cannot be used.
    Dropped,
}

/// A request whose parameters may still be repaired.
pub(super) struct Request {
    line: String,
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Map<String, Value>,
}

impl Request {
    /// The line for the SDK: the client's own, unless the parameters were changed.
    pub(super) fn into_line(self, changed: bool) -> String {
        if !changed {
            return self.line;
        }
        json!({
            "jsonrpc": "2.0", "id": self.id, "method": self.method, "params": self.params,
        })
        .to_string()
    }
}

/// Judges one line. Whatever is not a JSON-RPC 2.0 message gets an error that says what is wrong
/// without repeating any of it; the id is the message's own where it has a legal one.
pub(super) fn classify(bytes: Vec<u8>) -> Message {
    let malformed = |id: Value, error: Error| Message::Malformed(id, error);
    let Ok(line) = String::from_utf8(bytes) else {
        return malformed(Value::Null, errors::not_json("the line is not UTF-8"));
    };
    // Also bounds the nesting: the parser gives up at 128 levels.
    let object = match serde_json::from_str::<Value>(&line) {
        Ok(Value::Object(object)) => object,
        Ok(Value::Array(_)) => {
            let error = errors::invalid_request("batches are not part of this protocol");
            return malformed(Value::Null, error);
        }
        Ok(_) => {
            let error = errors::invalid_request("a message is a JSON object");
            return malformed(Value::Null, error);
        }
        Err(error) => {
            let reason = format!("invalid JSON at column {}", error.column());
            return malformed(Value::Null, errors::not_json(&reason));
        }
    };
    message(line, object)
}

fn message(line: String, mut object: Map<String, Value>) -> Message {
    let is_answer = object.contains_key("result") || object.contains_key("error");
    if !object.contains_key("method") && is_answer {
        return answer(line, &object);
    }
    let legal = |id: &Value| id.is_null() || id.is_string() || id.is_i64();
    let (id, has_id) = match object.remove("id") {
        None => (Value::Null, false),
        Some(id) if legal(&id) => (id, true),
        Some(_) => {
            let reason = "an id is a string or a 64-bit integer";
            return Message::Malformed(Value::Null, errors::invalid_request(reason));
        }
    };
    let malformed = |error: Error| Message::Malformed(id.clone(), error);
    if object.get("jsonrpc") != Some(&Value::from("2.0")) {
        return malformed(errors::invalid_request("`jsonrpc` must be \"2.0\""));
    }
    let Some(Value::String(method)) = object.remove("method") else {
        return malformed(errors::invalid_request("`method` must be a string"));
    };
    if is_answer {
        return malformed(errors::invalid_request("a request has no `result` or `error`"));
    }
    let params = match object.remove("params") {
        None | Some(Value::Null) => None,
        Some(Value::Object(params)) => Some(params),
        Some(_) if has_id => {
            return malformed(errors::invalid_params("`params` must be an object"));
        }
        Some(_) => return Message::Dropped,
    };
    match (has_id, params) {
        (false, Some(_)) => Message::Notification(line),
        // The SDK refuses `params: null`, and no notification of ACP does without parameters.
        (false, None) => Message::Dropped,
        (true, params) => {
            // An absent object is an empty one, which each method can judge.
            let line = if params.is_some() { line } else { empty_params(&id, &method) };
            Message::Request(Request { line, id, method, params: params.unwrap_or_default() })
        }
    }
}

fn empty_params(id: &Value, method: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": {} }).to_string()
}

fn answer(line: String, object: &Map<String, Value>) -> Message {
    let one_outcome = object.contains_key("result") != object.contains_key("error");
    let versioned = object.get("jsonrpc") == Some(&Value::from("2.0"));
    if one_outcome && versioned && object.contains_key("id") {
        Message::Response(line)
    } else {
        tracing::warn!("dropped an answer that is not a JSON-RPC 2.0 response");
        Message::Dropped
    }
}
