//! The body of a request: the parameters that the model takes, and the conversation.
//!
//! It says nothing that a model refuses: the catalogue row decides. Cache breakpoints stand where
//! the last requests ended, because there the provider has written its cache; however much one
//! answer and its results add, the next request finds it. They are put into finished bytes, so that
//! a message is written once. This relies on the provider binding reasoning and cache to what is
//! said and not to the breakpoints, as its documentation has it.

use bridle_session::Seq;

use super::history::{Conversation, History, Settled};
use super::names::ToolTable;
use super::wire;
use crate::catalogue::{CatalogueModel, Dialect, Thinking};
use crate::plant::Plant;
use crate::prefix::hash_of_tools;
use crate::{Effort, FailureCode, ModelFailure, ModelRequest, PrefixHash};

/// The largest request that the provider's front door takes.
const MAX_REQUEST_BYTES: usize = 32 << 20;

/// A breakpoint, as it is put behind the fields of a block.
const BREAKPOINT: &[u8] = br#","cache_control":{"type":"ephemeral"}"#;

/// Reasoning that a person can read.
const ADAPTIVE: wire::ThinkingConfig =
    wire::ThinkingConfig { r#type: "adaptive", display: Some("summarized") };

/// What the requests of one series on one route have in common.
#[derive(Debug)]
pub(super) struct Series {
    provider: String,
    model: String,
    since: Seq,
    tools_hash: PrefixHash,
    tools: ToolTable,
    settled: Settled,
}

impl Series {
    fn new(model: &CatalogueModel, request: &ModelRequest) -> Result<Self, ModelFailure> {
        Ok(Self {
            provider: model.provider.clone(),
            model: model.id.clone(),
            since: request.reasoning_since(),
            tools_hash: hash_of_tools(request.tools()),
            tools: ToolTable::new(request.tools())?,
            settled: Settled::default(),
        })
    }

    fn goes_on_with(&self, model: &CatalogueModel, request: &ModelRequest) -> bool {
        self.provider == model.provider
            && self.model == model.id
            && self.since == request.reasoning_since()
            && self.tools_hash == hash_of_tools(request.tools())
            && (Plant::StaleStart.is_in()
                || self.settled.is_start_of(request.projection().entries().map(|(seq, _)| seq)))
    }

    /// The tools of the series.
    pub(super) fn tools(&self) -> &ToolTable {
        &self.tools
    }

    /// The body of the next request.
    pub(super) fn body(
        &mut self,
        model: &CatalogueModel,
        request: &ModelRequest,
    ) -> Result<Vec<u8>, ModelFailure> {
        let known = self.settled.len();
        let mut conversation =
            Conversation::new(model, &self.tools, request.images(), self.since, &mut self.settled);
        for (seq, message) in request.projection().entries().skip(known) {
            conversation.push(seq, message);
        }
        let history = conversation.finish()?;
        let head = head(model, request, &self.tools, &history)?;
        within_size(assemble(head, &history, model.dialect == Dialect::Anthropic))
    }
}

/// Takes up the series that `request` goes on with, or begins one.
pub(super) fn series(
    kept: Option<Series>,
    model: &CatalogueModel,
    request: &ModelRequest,
) -> Result<Series, ModelFailure> {
    match kept {
        Some(series) if series.goes_on_with(model, request) => Ok(series),
        _ => Series::new(model, request),
    }
}

fn head(
    model: &CatalogueModel,
    request: &ModelRequest,
    tools: &ToolTable,
    history: &History<'_>,
) -> Result<Vec<u8>, ModelFailure> {
    let level = model.level(request.effort());
    let caches = model.dialect == Dialect::Anthropic;
    let cache_control = || caches.then_some(wire::CacheControl { r#type: "ephemeral" });
    let head = wire::Head {
        model: &model.id,
        max_tokens: model.max_output,
        stream: true,
        thinking: match level {
            Some(Effort::Off) => Some(wire::ThinkingConfig { r#type: "disabled", display: None }),
            _ => (model.thinking == Thinking::Adaptive).then_some(ADAPTIVE),
        },
        output_config: level
            .filter(|level| *level != Effort::Off)
            .map(|level| wire::OutputConfig { effort: level.id() }),
        // The last block of every request.
        cache_control: cache_control(),
        system: history.system.as_deref().map(|text| {
            [wire::SystemText { r#type: "text", text, cache_control: cache_control() }]
        }),
        tools: tools.json(history.has_calls),
    };
    serde_json::to_vec(&head).map_err(|error| {
        let message = format!("the request cannot be written as JSON: {error}");
        ModelFailure::new(FailureCode::InvalidRequest, message)
    })
}

/// Puts the messages behind the head, with breakpoints where the last requests ended.
fn assemble(mut body: Vec<u8>, history: &History<'_>, caches: bool) -> Vec<u8> {
    let room = history.settled.len() + history.tail.len() + 4 * BREAKPOINT.len() + 32;
    body.reserve_exact(room);
    body.pop();
    body.extend_from_slice(br#","messages":["#);
    let mut rest = history.settled;
    let mut done = 0;
    for end in history.ends.iter().filter(|_| caches) {
        let (before, behind) = rest.split_at_checked(end - done).unwrap_or((rest, &[]));
        body.extend_from_slice(before);
        body.extend_from_slice(BREAKPOINT);
        (rest, done) = (behind, *end);
    }
    body.extend_from_slice(rest);
    if !rest.is_empty() && !history.tail.is_empty() {
        body.push(b',');
    }
    body.extend_from_slice(&history.tail);
    body.extend_from_slice(b"]}");
    body
}

fn within_size(body: Vec<u8>) -> Result<Vec<u8>, ModelFailure> {
    if body.len() <= MAX_REQUEST_BYTES {
        return Ok(body);
    }
    Err(ModelFailure::new(
        FailureCode::ContextOverflow,
        format!("the conversation has {} bytes; the most is {MAX_REQUEST_BYTES}", body.len()),
    ))
}

#[cfg(test)]
mod tests;
