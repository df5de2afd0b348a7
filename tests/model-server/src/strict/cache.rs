//! What a provider would read from and write to its prompt cache, for scripts that ask for it.
//!
//! A prefix is cached where a breakpoint stood, and found from a breakpoint that stands at most
//! [`LOOKBACK`] blocks behind it. There is no smallest size and no expiry.

use serde_json::Value;

use super::binding::canonical;
use super::{Chain, Key, Request, count};
use crate::ledger::{Ledger, Mark};

/// How many blocks before a breakpoint, itself included, the provider looks for a cached prefix.
const LOOKBACK: usize = 20;

/// The input of a request, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cached {
    pub(crate) read: u64,
    pub(crate) written: u64,
    pub(crate) fresh: u64,
}

/// A block's end.
struct Place {
    mark: Mark,
    tokens: u64,
    is_breakpoint: bool,
}

/// Looks up a request, and gives the prefixes that answering it caches.
pub(super) fn look_up(request: &Request<'_>, key: &Key, ledger: &Ledger) -> (Cached, Vec<Mark>) {
    let places = places(request, key);
    let mut read = 0;
    let mut until = 0;
    let mut written = Vec::new();
    for (at, place) in places.iter().enumerate().filter(|(_, place)| place.is_breakpoint) {
        let from = (at + 1).saturating_sub(LOOKBACK);
        let near = places.get(from..=at).unwrap_or_default();
        let found = near.iter().rev().find(|place| ledger.is_cached(&place.mark));
        read = found.map_or(read, |place| place.tokens.max(read));
        until = place.tokens;
        written.push(place.mark);
    }
    let all = places.last().map_or(0, |place| place.tokens);
    (Cached { read, written: until - read, fresh: all - until }, written)
}

fn places(request: &Request<'_>, key: &Key) -> Vec<Place> {
    let body = request.body;
    let mut blocks: Vec<(String, &Value)> = Vec::new();
    for field in ["tools", "system"] {
        blocks.extend(parts(body.get(field)).map(|block| (field.to_owned(), block)));
    }
    for (index, message) in request.messages.iter().enumerate() {
        let role = format!("{index} {}", super::text(message, "role").unwrap_or_default());
        blocks.extend(parts(message.get("content")).map(|block| (role.clone(), block)));
    }
    let last = blocks.len().saturating_sub(1);
    let is_automatic = body.contains_key("cache_control");
    let mut chain = Chain::new(key);
    let mut bytes = 0;
    let place = |(at, (label, block)): (usize, (String, &Value))| {
        let is_marked = block.get("cache_control").is_some();
        let text = canonical(&without_marker(block));
        chain.absorb(&label, text.as_bytes());
        bytes += text.len();
        Place {
            mark: chain.mark(),
            tokens: count(bytes),
            is_breakpoint: is_marked || (is_automatic && at == last),
        }
    };
    blocks.into_iter().enumerate().map(place).collect()
}

/// Blocks, or the one text that stands for them.
fn parts(content: Option<&Value>) -> impl Iterator<Item = &Value> {
    let blocks = content.and_then(Value::as_array).map(Vec::as_slice);
    let one = if blocks.is_none() { content } else { None };
    blocks.unwrap_or_default().iter().chain(one)
}

fn without_marker(block: &Value) -> Value {
    let mut block = block.clone();
    if let Some(fields) = block.as_object_mut() {
        fields.remove("cache_control");
    }
    block
}
