//! Errors as the provider words them.

use serde_json::{Value, json};

/// The provider's error kind for an HTTP status.
pub(crate) fn kind(status: u16) -> &'static str {
    match status {
        400 => "invalid_request_error",
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        504 => "timeout_error",
        529 => "overloaded_error",
        _ => "api_error",
    }
}

/// The body of an error response and of an `error` event.
pub(crate) fn body(kind: &str, message: &str, request_id: &str) -> Value {
    json!({
        "type": "error",
        "error": { "type": kind, "message": message },
        "request_id": request_id,
    })
}
