//! Required headers.

use hyper::HeaderMap;

use super::Refusal;

const VERSION: &str = "2023-06-01";

pub(super) fn check(headers: &HeaderMap, expected_key: Option<&str>) -> Result<(), Refusal> {
    let value = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let key = value("x-api-key").unwrap_or_default();
    if key.is_empty() {
        return Err(Refusal::status(401, "api-key", "x-api-key header is required"));
    }
    if expected_key.is_some_and(|expected| expected != key) {
        return Err(Refusal::status(401, "api-key", "invalid x-api-key"));
    }
    if value("anthropic-version") != Some(VERSION) {
        let message = format!("anthropic-version: header is required and must be {VERSION}");
        return Err(Refusal::invalid("version", message));
    }
    let content_type = value("content-type").unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    if !essence.eq_ignore_ascii_case("application/json") {
        let message = "content-type: must be application/json";
        return Err(Refusal::invalid("content-type", message));
    }
    Ok(())
}
