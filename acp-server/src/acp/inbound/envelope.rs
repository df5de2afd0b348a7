//! What kind of JSON-RPC message a line is, and the error for a line that is none.

use agent_client_protocol::Error;
use serde_json::{Map, Value, json};

use super::head::{Head, is_legal_id};
use crate::acp::errors;

/// One line, judged.
pub(super) enum Message {
    /// A request.
    Request(Request),
    /// A notification, as it came.
    Notification(String),
    /// An answer to one of our requests, in a form that the SDK can read.
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
    let line = match String::from_utf8(bytes) {
        Ok(line) => line,
        Err(error) => {
            return unreadable(error.as_bytes(), errors::not_json("the line is not UTF-8"));
        }
    };
    // Also bounds the nesting: the parser gives up at 128 levels.
    let (line, parsed) = match serde_json::from_str::<Value>(&line) {
        // Languages whose strings are UTF-16 write half a character that was cut in two like this.
        Err(error) => match without_lone_surrogates(&line) {
            Some(whole) => {
                let parsed = serde_json::from_str(&whole);
                (whole, parsed)
            }
            None => (line, Err(error)),
        },
        parsed => (line, parsed),
    };
    let object = match parsed {
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
            let column = error.column();
            let reason = match error.to_string().starts_with("recursion limit") {
                true => format!("nested too deeply at column {column}"),
                false => format!("invalid JSON at column {column}"),
            };
            return unreadable(line.as_bytes(), errors::not_json(&reason));
        }
    };
    message(line, object)
}

/// A line that cannot be read as a whole: what it answers has failed, and what it asks for is
/// answered under its own id if that can be made out.
pub(super) fn unreadable(line: &[u8], error: Error) -> Message {
    match Head::of(line) {
        Head { id: Some(id), answers: true, .. } => not_understood(&id),
        Head { id: Some(id), asks: true, .. } => Message::Malformed(id, error),
        _ => Message::Malformed(Value::Null, error),
    }
}

/// The line with U+FFFD in the place of each escaped half of a character without its other half;
/// `None` when there is none.
fn without_lone_surrogates(line: &str) -> Option<String> {
    let escape = |at: usize| {
        let digits = line.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(digits, 16).ok()
    };
    let mut whole = String::with_capacity(line.len());
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = line.get(at..).and_then(|rest| rest.find('\\')) {
        at += found;
        let (lone, width) = match (escape(at), escape(at + 6)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (false, 12),
            (Some(0xd800..=0xdfff), _) => (true, 6),
            // Past the escaped character, which may be a backslash itself.
            _ => (false, 2),
        };
        if lone {
            whole.push_str(line.get(copied..at)?);
            whole.push_str("\\ufffd");
            copied = at + width;
        }
        at += width;
    }
    whole.push_str(line.get(copied..)?);
    (copied > 0).then_some(whole)
}

fn message(line: String, mut object: Map<String, Value>) -> Message {
    let is_answer = object.contains_key("result") || object.contains_key("error");
    if !object.contains_key("method") && is_answer {
        return answer(object);
    }
    let (id, has_id) = match object.remove("id") {
        None => (Value::Null, false),
        Some(id) if is_legal_id(&id) => (id, true),
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

/// An answer for the SDK, which must be able to read it: what it cannot read it drops, and a
/// question would stay open for ever. `null` counts as absent beside the other of `result` and
/// `error`, as JSON-RPC 1.0 writes them.
fn answer(mut object: Map<String, Value>) -> Message {
    let Some(id) = object.remove("id").filter(is_legal_id) else {
        tracing::warn!("dropped an answer without an id");
        return Message::Dropped;
    };
    if object.get("jsonrpc") != Some(&Value::from("2.0")) {
        return not_understood(&id);
    }
    let error = object.remove("error").filter(|error| !error.is_null());
    let line = match (object.remove("result"), error) {
        (Some(result), None) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
        (None | Some(Value::Null), Some(error)) if is_error(&error) => {
            json!({ "jsonrpc": "2.0", "id": id, "error": error })
        }
        _ => return not_understood(&id),
    };
    Message::Response(line.to_string())
}

fn is_error(error: &Value) -> bool {
    let code = error.get("code").and_then(Value::as_i64);
    code.is_some_and(|code| i32::try_from(code).is_ok())
        && error.get("message").is_some_and(Value::is_string)
}

/// In place of an answer that cannot be understood: the request has failed. One that is not open
/// is not known to the SDK, which then drops this.
pub(super) fn not_understood(id: &Value) -> Message {
    tracing::warn!("an answer of the client could not be understood");
    let error = errors::invalid_request("the answer is no JSON-RPC 2.0 response");
    Message::Response(json!({ "jsonrpc": "2.0", "id": id, "error": error }).to_string())
}
