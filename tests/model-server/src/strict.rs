//! The provider's rules. Each file holds one group; the first broken rule refuses the request.

mod binding;
mod blocks;
mod cache;
mod headers;
mod images;
mod messages;
mod own_tools;
mod pairing;
mod parameters;
mod prefix;
mod schema;
mod size;
mod thinking;
mod tools;

use hyper::HeaderMap;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub(crate) use binding::{Chain, signature};
pub(crate) use cache::Cached;
pub(crate) use prefix::Key;
pub(crate) use size::count;

use crate::ledger::{Ledger, Mark};
use crate::{ModelSpec, model};

/// Which provider's rules hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Anthropic,
    DeepSeek,
}

/// A broken rule and the answer to it.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) status: u16,
    pub(crate) rule: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    /// The answer to most broken rules: 400.
    fn invalid(rule: &'static str, message: impl Into<String>) -> Self {
        Self::status(400, rule, message)
    }

    pub(crate) fn status(status: u16, rule: &'static str, message: impl Into<String>) -> Self {
        Self { status, rule, message: message.into() }
    }
}

/// The parts of a request whose exact bytes count.
#[derive(Deserialize)]
struct RawRequest<'a> {
    #[serde(borrow)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Option<Vec<&'a RawValue>>,
}

/// A request that can be read as one.
struct Request<'a> {
    dialect: Dialect,
    body: &'a Map<String, Value>,
    messages: &'a [Value],
    raw: RawRequest<'a>,
    model: ModelSpec,
}

impl Request<'_> {
    fn thinking_type(&self) -> Option<&str> {
        self.body.get("thinking")?.get("type")?.as_str()
    }

    fn is_thinking(&self) -> bool {
        self.thinking_type() != Some("disabled")
    }
}

/// What an accepted request says about its answer.
pub(crate) struct Accepted {
    pub(crate) dialect: Dialect,
    pub(crate) model: String,
    /// The size of the input by the server's count.
    pub(crate) tokens: u64,
    /// Everything the answer stands after.
    pub(crate) chain: Chain,
    /// Whether the client asked to see thinking.
    pub(crate) shows_thinking: bool,
    /// Whether the model thinks.
    pub(crate) is_thinking: bool,
    /// What the provider's cache would have of it, and the prefixes that it caches.
    pub(crate) cache: (Cached, Vec<Mark>),
}

/// What the rules need to know of the server.
pub(crate) struct Rules<'a> {
    pub(crate) models: &'a [ModelSpec],
    pub(crate) api_key: Option<&'a str>,
    pub(crate) mac_key: &'a Key,
    pub(crate) ledger: &'a Ledger,
    /// Whether thinking must be of this server. What is checked outside of a conversation has
    /// thinking of nobody.
    pub(crate) signatures: bool,
}

/// Holds a request against all rules. `body` is `bytes` parsed, `Null` when that failed.
pub(crate) fn check(
    rules: &Rules<'_>,
    dialect: Dialect,
    headers: &HeaderMap,
    bytes: &[u8],
    body: &Value,
) -> Result<Accepted, Refusal> {
    headers::check(headers, rules.api_key)?;
    let body = body
        .as_object()
        .ok_or_else(|| Refusal::invalid("body", "the request body is not a JSON object"))?;
    let model = parameters::model(dialect, body, |id| find_model(rules.models, dialect, id))?;
    let raw: RawRequest<'_> = serde_json::from_slice(bytes)
        .map_err(|error| Refusal::invalid("body", format!("the request body: {error}")))?;
    let messages = body.get("messages").and_then(Value::as_array).map(Vec::as_slice);
    let request = Request { dialect, body, messages: messages.unwrap_or_default(), raw, model };

    parameters::check(&request)?;
    tools::check(&request)?;
    messages::check(&request)?;
    pairing::check(&request)?;
    blocks::breakpoints(&request)?;
    images::check(&request)?;
    let tokens = size::check(&request)?;
    let walk = binding::walk(&request, rules)?;
    messages::check_turns(&request, &walk.paused)?;
    own_tools::check(&request, &walk.paused)?;
    thinking::check(&request)?;
    Ok(Accepted {
        dialect,
        tokens,
        chain: walk.chain,
        shows_thinking: dialect == Dialect::DeepSeek || parameters::shows_thinking(body),
        is_thinking: request.is_thinking(),
        cache: cache::look_up(&request, rules.mac_key, rules.ledger),
        model: request.model.id,
    })
}

/// The script's models come before the known ones. DeepSeek maps Claude's names to its own.
fn find_model(own: &[ModelSpec], dialect: Dialect, id: &str) -> Option<ModelSpec> {
    if let Some(found) = own.iter().rev().find(|model| model.id == id) {
        return Some(found.clone());
    }
    let target = match dialect {
        Dialect::DeepSeek if id.starts_with("claude-opus") => "deepseek-v4-pro",
        Dialect::DeepSeek if id.starts_with("claude-") => "deepseek-flash",
        _ => id,
    };
    let found = model::known(dialect).into_iter().find(|model| model.id == target)?;
    Some(ModelSpec { id: id.to_owned(), ..found })
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn blocks_of(message: &Value) -> &[Value] {
    message.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn kind_of(block: &Value) -> &str {
    text(block, "type").unwrap_or_default()
}

/// Refuses fields that the provider does not know, the way a leak of our own fields is found.
fn only_fields(object: &Map<String, Value>, known: &[&str], at: &str) -> Result<(), Refusal> {
    match object.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(Refusal::invalid(
            "unknown-field",
            format!("{at}{key}: Extra inputs are not permitted"),
        )),
        None => Ok(()),
    }
}
