//! What the server has emitted and may be shown again: signed thinking, tool calls, paused turns.
//!
//! A signature is judged by recomputing it alone; the ledger only words the refusal, and knows
//! what a client has left out.

use std::collections::{HashMap, HashSet};

/// A fingerprint of everything up to a point in a conversation.
pub(crate) type Mark = [u8; 32];

/// The emitted pieces of one server.
#[derive(Default)]
pub(crate) struct Ledger {
    signed: HashMap<String, Signed>,
    calls: HashMap<String, EmittedCall>,
    paused: HashSet<Mark>,
    cached: HashSet<Mark>,
    next: u64,
}

/// A thinking block (its text) or a redacted one.
pub(crate) struct Signed {
    pub(crate) model: String,
    pub(crate) text: Option<String>,
}

/// A tool call, and the thinking that led to it.
pub(crate) struct EmittedCall {
    pub(crate) model: String,
    /// The conversation it answered.
    pub(crate) prefix: Mark,
    /// The signatures (or redacted data) before it in its answer.
    pub(crate) thinking: Vec<String>,
    /// Whether its arguments were a JSON object.
    pub(crate) is_broken: bool,
}

impl Ledger {
    /// The next number for an id.
    pub(crate) fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(crate) fn sign(&mut self, signature: &str, signed: Signed) {
        self.signed.insert(signature.to_owned(), signed);
    }

    pub(crate) fn signed(&self, signature: &str) -> Option<&Signed> {
        self.signed.get(signature)
    }

    pub(crate) fn call(&mut self, id: &str, call: EmittedCall) {
        self.calls.insert(id.to_owned(), call);
    }

    pub(crate) fn emitted_call(&self, id: &str) -> Option<&EmittedCall> {
        self.calls.get(id)
    }

    pub(crate) fn pause(&mut self, end: Mark) {
        self.paused.insert(end);
    }

    pub(crate) fn is_paused(&self, end: &Mark) -> bool {
        self.paused.contains(end)
    }

    pub(crate) fn cache(&mut self, prefixes: Vec<Mark>) {
        self.cached.extend(prefixes);
    }

    pub(crate) fn is_cached(&self, prefix: &Mark) -> bool {
        self.cached.contains(prefix)
    }
}
