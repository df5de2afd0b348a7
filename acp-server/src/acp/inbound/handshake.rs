//! The version of an `initialize` request, made readable for the SDK.

use agent_client_protocol::Error;
use serde_json::{Map, Value};

use crate::acp::errors;

/// Accepts any whole number as the client's version and asks the SDK for version 1, the only one
/// spoken here; so a newer client's answer is 1 too, and its capabilities are read as it sent
/// them. Returns whether the parameters changed.
///
/// # Errors
/// When the version is absent or no whole number.
pub(super) fn repair(params: &mut Map<String, Value>) -> Result<bool, Error> {
    let problem = match params.get("protocolVersion") {
        Some(version) if version.is_u64() => {
            let changed = version.as_u64() != Some(1);
            params.insert("protocolVersion".to_owned(), Value::from(1));
            return Ok(changed);
        }
        None => "is missing",
        Some(Value::String(_)) => "is a string",
        Some(_) => "is not a whole number",
    };
    Err(errors::invalid_params(&format!(
        "initialize: `protocolVersion` {problem}; send the integer 1"
    )))
}
