//! The one table from our failures to JSON-RPC errors, and the filter for errors that the SDK
//! makes itself.
//!
//! A message is one line for the person who must act; `data.kind` is the stable word a program
//! branches on. Nothing here ever repeats parameters: they hold tokens of MCP servers.

use std::path::Path;

use crate::config::{CredentialsError, Places};
use crate::text;
use agent_client_protocol::{Error, ErrorCode};
use bridle_agent::{AgentGone, Mode};
use bridle_compose::EffectFailure;
use bridle_session::Failure;
use bridle_store::StoreError;
use serde_json::{Map, Value, json};

/// The longest message a client is sent, in characters.
const MESSAGE_LIMIT: usize = 1_000;

/// The member of `data` that marks an error as one of this table.
const KIND: &str = "kind";

fn error(code: ErrorCode, kind: &str, message: &str) -> Error {
    let message = text::shorten(&text::visible(message), MESSAGE_LIMIT);
    Error::new(code, message).data(json!({ KIND: kind }))
}

fn with_data(mut error: Error, key: &str, value: impl Into<Value>) -> Error {
    if let Some(Value::Object(data)) = &mut error.data {
        data.insert(key.to_owned(), value.into());
    }
    error
}

/// The line is not JSON.
pub(super) fn not_json(reason: &str) -> Error {
    error(ErrorCode::PARSE_ERROR, "parse", &format!("Parse error: {reason}"))
}

/// The line is JSON, but no JSON-RPC message that is accepted here.
pub(super) fn invalid_request(reason: &str) -> Error {
    error(ErrorCode::INVALID_REQUEST, "invalid-request", &format!("Invalid request: {reason}"))
}

/// The line is longer than the limit.
pub(super) fn line_too_long(limit: usize) -> Error {
    let mib = limit / (1024 * 1024);
    let message = format!("Invalid request: the line is longer than the limit of {mib} MiB");
    with_data(error(ErrorCode::INVALID_REQUEST, "too-long", &message), "limit", limit)
}

/// Something other than `initialize` came first.
pub(super) fn not_initialized(method: &str) -> Error {
    let message = format!("Send `initialize` first and wait for its answer before `{method}`");
    error(ErrorCode::INVALID_REQUEST, "not-initialized", &message)
}

/// The client has more unanswered requests than are kept.
pub(super) fn too_many_requests(limit: usize) -> Error {
    let message = format!("There are already {limit} unanswered requests; wait for some answers");
    with_data(error(ErrorCode::INTERNAL_ERROR, "busy", &message), "limit", limit)
}

/// Parameters that cannot be used; the reason names the field and never its value.
pub(super) fn invalid_params(reason: &str) -> Error {
    error(ErrorCode::INVALID_PARAMS, "invalid-params", reason)
}

/// A permission mode above the one that a session may have.
pub(super) fn above_ceiling(ceiling: Mode) -> Error {
    let message = format!(
        "This session was created with `{}` as its highest permission mode; nothing can raise it",
        ceiling.id()
    );
    let refused = error(ErrorCode::INVALID_PARAMS, "above-ceiling", &message);
    with_data(refused, "ceiling", ceiling.id())
}

/// A session that is open, wanted with other folders, instructions or limits.
pub(super) fn open_otherwise() -> Error {
    let message = "This session is open with other folders, instructions or limits than these; \
                   close it first to open it with them";
    error(ErrorCode::INVALID_PARAMS, "open-otherwise", message)
}

/// The session is not open here, whether or not it is stored.
pub(super) fn session_not_open(id: &str) -> Error {
    let message = "This session is not open; create one with session/new or open it with \
                   session/load";
    session_not_found(id, message)
}

/// No session with this id is stored.
pub(super) fn no_such_session(id: &str) -> Error {
    session_not_found(id, "There is no session with this id; session/list shows those that exist")
}

fn session_not_found(id: &str, message: &str) -> Error {
    let id = text::shorten(id, 100);
    with_data(error(ErrorCode::RESOURCE_NOT_FOUND, "session-not-found", message), "sessionId", id)
}

/// No provider could answer, or one refused the key.
pub(super) fn auth_required(reason: &str) -> Error {
    let message = format!("Authentication required: {reason}");
    with_details(error(ErrorCode::AUTH_REQUIRED, "auth", &message))
}

/// The keys that are kept could not be removed.
pub(super) fn not_logged_out(failure: &CredentialsError) -> Error {
    let message = format!(
        "No key is used until you authenticate again, but the kept ones were not removed: {failure}"
    );
    with_details(error(ErrorCode::INTERNAL_ERROR, "logout", &message))
}

/// Something of ours went wrong; the log has the details.
pub(super) fn internal(reason: &str) -> Error {
    error(ErrorCode::INTERNAL_ERROR, "internal", &format!("Internal error: {reason}"))
}

/// The session is closed, and something failed on the way that its user should know.
pub(super) fn not_closed_in_order(failures: &[EffectFailure]) -> Error {
    let reasons: Vec<_> = failures.iter().map(|failure| failure.reason.as_str()).collect();
    let message = format!("The session is closed, but not in order: {}", reasons.join("; "));
    error(ErrorCode::INTERNAL_ERROR, "closing", &message)
}

/// The agent did not take a call.
pub(super) fn agent_gone(gone: AgentGone) -> Error {
    let kind = match gone {
        AgentGone::Closed => "closed",
        AgentGone::QueueFull => "busy",
    };
    error(ErrorCode::INTERNAL_ERROR, kind, &gone.to_string())
}

/// A turn that failed.
pub(super) fn turn_failed(failure: &Failure) -> Error {
    if failure.code == "auth" {
        return auth_required(&failure.message);
    }
    let mut failed = error(ErrorCode::INTERNAL_ERROR, &failure.code, &failure.message);
    if let Some(status) = failure.status {
        failed = with_data(failed, "status", status);
    }
    if let Some(request) = &failure.request_id {
        failed = with_data(failed, "requestId", text::shorten(request, 200));
    }
    with_details(failed)
}

/// A message for a running turn that was cancelled before the model read it.
pub(super) fn steering_cancelled() -> Error {
    let message = "Cancelled before the model read this message; nothing was done with it";
    error(ErrorCode::REQUEST_CANCELLED, "cancelled", message)
}

/// A request that the client took back before it was carried out; nothing is left of it.
pub(super) fn request_cancelled() -> Error {
    error(ErrorCode::REQUEST_CANCELLED, "cancelled", "The request was cancelled")
}

/// A session that cannot be stored or opened.
pub(super) fn store(failure: &StoreError) -> Error {
    let kind = match failure {
        StoreError::NotFound(id) => return no_such_session(id.as_str()),
        StoreError::Locked { .. } => "locked",
        StoreError::Newer { .. } => "newer-format",
        StoreError::Unreadable { .. } => "unreadable",
        StoreError::NoBlob(_) | StoreError::DamagedBlob { .. } => "unreadable",
        StoreError::Io(_) | StoreError::Lost(_) => "storage",
    };
    let hint = match failure {
        StoreError::Locked { .. } => "; close it there first",
        StoreError::Newer { .. } => "; update bridle to open it",
        _ => "",
    };
    let refused = error(ErrorCode::INTERNAL_ERROR, kind, &format!("{failure}{hint}"));
    match failure {
        StoreError::Locked { pid: Some(pid), .. } => with_data(refused, "pid", *pid),
        _ => refused,
    }
}

/// A session that another session has delegated work to; that one speaks for it.
pub(super) fn of_a_subagent() -> Error {
    let message = "This is the session of a subagent; open the session that it works for";
    error(ErrorCode::INVALID_PARAMS, "subagent", message)
}

/// A session that belongs to the folder `home`, wanted in another one.
pub(super) fn other_folder(asked: &Path, home: &Path) -> Error {
    let (asked, home) = (asked.to_string_lossy(), home.to_string_lossy());
    let message = format!("cwd is {asked}, but this session belongs to {home}; send that as cwd");
    let refused = error(ErrorCode::INVALID_PARAMS, "other-folder", &message);
    with_data(with_data(refused, "cwd", &*asked), "sessionCwd", &*home)
}

/// Nothing says where sessions are kept.
pub(super) fn no_state() -> Error {
    error(ErrorCode::INTERNAL_ERROR, "storage", &format!("Cannot begin: {}", Places::no_state()))
}

/// A new session that cannot be stored under the folder `state`.
pub(super) fn not_created(state: &Path, failure: &StoreError) -> Error {
    let message = format!(
        "Sessions cannot be kept under {}: {failure}; free or repair it, or set BRIDLE_HOME to a \
         folder that Bridle may use",
        state.display()
    );
    error(ErrorCode::INTERNAL_ERROR, "storage", &message)
}

/// Some clients show `data.details` and nothing else.
fn with_details(error: Error) -> Error {
    let message = error.message.clone();
    with_data(error, "details", message)
}

/// What is sent in place of an error object that is about to leave. An error of this table stays
/// as it is; any other was made by the SDK, whose `data` repeats what the client sent, and is
/// replaced by a text that names the method only.
pub(super) fn outgoing(method: Option<&str>, object: &Map<String, Value>) -> Error {
    let code = object.get("code").and_then(Value::as_i64).and_then(|code| i32::try_from(code).ok());
    let data = object.get("data");
    if let (Some(code), Some(message), Some(data)) =
        (code, object.get("message").and_then(Value::as_str), data)
        && data.get(KIND).is_some_and(Value::is_string)
    {
        return Error::new(code, message).data(data.clone());
    }
    let method = text::shorten(&text::visible(method.unwrap_or("this message")), 100);
    match code.map(ErrorCode::new) {
        Some(ErrorCode::PARSE_ERROR) => not_json("the line is not valid JSON"),
        Some(ErrorCode::INVALID_REQUEST) => invalid_request("not a JSON-RPC 2.0 message"),
        Some(ErrorCode::METHOD_NOT_FOUND) => error(
            ErrorCode::METHOD_NOT_FOUND,
            "method-not-found",
            &format!("Method not found: {method}"),
        ),
        Some(ErrorCode::INVALID_PARAMS) => invalid_params(&format!(
            "The parameters of {method} are not what the protocol says{}",
            missing_field(data).map(|field| format!(": `{field}` is missing")).unwrap_or_default()
        )),
        Some(ErrorCode::REQUEST_CANCELLED) => request_cancelled(),
        _ => internal(&format!("{method} could not be answered")),
    }
}

/// The field that the SDK's decoder missed. Only names of the schema have this form, so nothing
/// that the client wrote gets through.
fn missing_field(data: Option<&Value>) -> Option<&str> {
    let reason = data?.get("error")?.as_str()?;
    let name = reason.strip_prefix("missing field `")?.split_once('`')?.0;
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_').then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn an_error_of_the_sdk_loses_everything_the_client_sent() {
        let sdk = object(json!({
            "code": -32602, "message": "Invalid params",
            "data": {"error": "missing field `cwd`", "json": {"env": [{"value": "SECRET"}]}},
        }));
        let sent = outgoing(Some("session/new"), &sdk);
        assert_eq!(
            sent.message,
            "The parameters of session/new are not what the protocol says: `cwd` is missing"
        );
        assert!(!serde_json::to_string(&sent).unwrap().contains("SECRET"));
    }

    #[test]
    fn a_value_quoted_by_the_decoder_does_not_pass_as_a_field_name() {
        let sdk = object(json!({
            "code": -32602, "message": "Invalid params",
            "data": {"error": "invalid type: string \"SECRET\", expected u16"},
        }));
        let sent = serde_json::to_string(&outgoing(Some("initialize"), &sdk)).unwrap();
        assert!(!sent.contains("SECRET"), "{sent}");
    }

    #[test]
    fn an_error_of_the_table_leaves_unchanged() {
        let ours = session_not_open("abc");
        let sent = outgoing(None, &object(serde_json::to_value(&ours).unwrap()));
        assert_eq!(sent, ours);
        assert_eq!(sent.data.unwrap()["sessionId"], "abc");
    }

    #[test]
    fn messages_are_one_bounded_line() {
        let sent = invalid_params(&format!("a\nb\u{1b}[31m{}", "x".repeat(5_000)));
        assert!(sent.message.starts_with(r"a\nb\u{1b}[31m"), "{}", sent.message);
        assert!(sent.message.chars().count() <= MESSAGE_LIMIT);
    }
}
