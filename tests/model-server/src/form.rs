//! The rules without a server: for many requests in a short time.

use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use serde_json::Value;

use crate::Violation;
use crate::ledger::Ledger;
use crate::strict::{self, Dialect, Rules};

/// Holds a request body against all rules but those about thinking of this server: it is as if
/// every signature were right. `base` is the path of the provider: empty for Anthropic,
/// `/anthropic` for DeepSeek.
///
/// # Errors
/// The broken rule.
pub fn check_form(base: &str, body: &[u8]) -> Result<(), Violation> {
    let dialect = if base.is_empty() { Dialect::Anthropic } else { Dialect::DeepSeek };
    let headers = HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (HeaderName::from_static("x-api-key"), HeaderValue::from_static("k")),
        (HeaderName::from_static("anthropic-version"), HeaderValue::from_static("2023-06-01")),
    ]);
    let rules = Rules {
        models: &[],
        api_key: None,
        mac_key: &[0; 32],
        ledger: &Ledger::default(),
        signatures: false,
    };
    let json = serde_json::from_slice(body).unwrap_or(Value::Null);
    match strict::check(&rules, dialect, &headers, body, &json) {
        Ok(_) => Ok(()),
        Err(refusal) => Err(Violation { request: 0, rule: refusal.rule, message: refusal.message }),
    }
}
