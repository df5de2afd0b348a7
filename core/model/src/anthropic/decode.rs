//! Turns the bytes of an answer's stream into chunks. Pure: bytes in, chunks or a failure out.
//!
//! Unknown events, deltas and blocks are tolerated, as the provider asks of its readers; a stream
//! that contradicts itself is refused. Nothing of a block is trusted before its end.

use std::collections::{HashMap, VecDeque};

use bridle_session::{Block, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::block::{EndedBlock, OpenBlock};
use super::failure::{self, Asked};
use super::wire;
use crate::sse::{EventTooLarge, MAX_EVENT_BYTES, SseEvent, SseParser};
use crate::{Chunk, FailureCode, ModelFailure, Refusal, StopReason};

/// The most bytes that one answer's stream may have; the longest real answer is far below.
const MAX_STREAM_BYTES: usize = 256 << 20;

/// The most blocks that one answer may have.
const MAX_BLOCKS: usize = 10_000;

/// The decoder of one answer.
pub(super) struct Decoder {
    sse: SseParser,
    received: usize,
    answer: Answer,
}

impl Decoder {
    /// `max_output` is what the request allowed, in tokens; `own_names` are the names of tools
    /// that have another one on the wire.
    pub(super) fn new(max_output: u64, own_names: HashMap<String, String>) -> Self {
        Self {
            sse: SseParser::new(),
            received: 0,
            answer: Answer {
                max_output,
                own_names,
                message_id: None,
                usage: Usage::default(),
                open: Vec::new(),
                begun: 0,
                last_call: None,
                stop_reason: None,
                is_complete: false,
            },
        }
    }

    /// Takes the next bytes and appends the chunks that they complete to `out`. After an error
    /// the decoder is of no further use; what is in `out` by then was still sound.
    pub(super) fn push(
        &mut self,
        asked: Asked<'_>,
        bytes: &[u8],
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        self.received = self.received.saturating_add(bytes.len());
        if self.received > MAX_STREAM_BYTES {
            return Err(malformed(format!("the answer is larger than {MAX_STREAM_BYTES} bytes")));
        }
        self.sse.push(bytes, |event| self.answer.event(asked, event, out))
    }
}

impl From<EventTooLarge> for ModelFailure {
    fn from(_: EventTooLarge) -> Self {
        malformed(format!("an event is larger than {MAX_EVENT_BYTES} bytes"))
    }
}

pub(super) fn malformed(detail: impl std::fmt::Display) -> ModelFailure {
    ModelFailure::new(
        FailureCode::MalformedResponse,
        format!("the answer cannot be understood: {detail}"),
    )
}

/// JSON that is broken or has another shape. Says where, but never what: serde's own text quotes
/// the data.
pub(super) fn unreadable(error: serde_json::Error) -> ModelFailure {
    let what = if error.is_data() { "an unexpected shape" } else { "broken JSON" };
    malformed(format_args!("{what} at column {}", error.column()))
}

/// A part of an event that its type promises.
fn part<'a, T: Deserialize<'a>>(
    what: &'static str,
    raw: Option<&'a RawValue>,
) -> Result<T, ModelFailure> {
    let raw = raw.ok_or_else(|| malformed(format_args!("an event lacks its {what}")))?;
    serde_json::from_str(raw.get()).map_err(unreadable)
}

struct Answer {
    max_output: u64,
    own_names: HashMap<String, String>,
    /// Set by `message_start`.
    message_id: Option<String>,
    usage: Usage,
    open: Vec<(u32, OpenBlock)>,
    begun: usize,
    last_call: Option<LastCall>,
    stop_reason: Option<String>,
    is_complete: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LastCall {
    Whole,
    /// Its arguments are not JSON, as when the answer was cut in the middle of them.
    Broken,
}

impl Answer {
    fn event(
        &mut self,
        asked: Asked<'_>,
        event: SseEvent<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        if self.is_complete || event.data.trim_ascii().is_empty() {
            return Ok(());
        }
        let body: wire::Event<'_> = serde_json::from_str(event.data).map_err(unreadable)?;
        let kind = if body.r#type.is_empty() { event.name } else { &body.r#type };
        match kind {
            "content_block_delta" => self.delta(&body, out),
            "content_block_start" => self.start_block(&body, out),
            "content_block_stop" => self.end_block(&body, out),
            "message_start" => self.start(&body, out),
            "message_delta" => self.message_delta(&body, out),
            "message_stop" => self.stop(out),
            "error" => {
                let detail: wire::ErrorDetail = part("error", body.error)?;
                Err(failure::from_event(asked, &detail))
            }
            _ => Ok(()),
        }
    }

    fn start(
        &mut self,
        body: &wire::Event<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        let message: wire::StartedMessage = part("message", body.message)?;
        self.count(message.usage);
        self.message_id = Some(message.id);
        out.push_back(Chunk::Start { usage: self.usage });
        Ok(())
    }

    fn start_block(
        &mut self,
        body: &wire::Event<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        let index = self.index(body)?;
        if self.open.iter().any(|(open, _)| *open == index) {
            return Err(malformed(format_args!("block {index} began twice")));
        }
        self.begun = self.begun.saturating_add(1);
        if self.begun > MAX_BLOCKS {
            return Err(malformed(format_args!("the answer has more than {MAX_BLOCKS} blocks")));
        }
        let raw: &RawValue = part("content_block", body.content_block)?;
        let message_id = self.message_id.as_deref().unwrap_or_default();
        let block = OpenBlock::start(raw, || format!("{message_id}_{index}"), &self.own_names)?;
        out.push_back(Chunk::BlockStart { index, kind: block.kind() });
        out.extend(block.first_piece(index));
        self.open.push((index, block));
        Ok(())
    }

    fn delta(
        &mut self,
        body: &wire::Event<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        let index = self.index(body)?;
        let raw = body.delta.ok_or_else(|| malformed("an event lacks its delta"))?;
        let Some((_, block)) = self.open.iter_mut().find(|(open, _)| *open == index) else {
            return Err(malformed(format_args!("block {index} goes on without having begun")));
        };
        out.extend(block.delta(index, raw)?);
        Ok(())
    }

    fn end_block(
        &mut self,
        body: &wire::Event<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        let index = self.index(body)?;
        let Some(at) = self.open.iter().position(|(open, _)| *open == index) else {
            return Err(malformed(format_args!("block {index} ended without having begun")));
        };
        let (_, block) = self.open.swap_remove(at);
        let EndedBlock { block, own_form } = block.finish()?;
        if let Block::ToolCall { arguments, .. } = &block {
            let whole = serde_json::from_str::<serde_json::Map<String, Value>>(arguments).is_ok();
            self.last_call = Some(if whole { LastCall::Whole } else { LastCall::Broken });
        }
        out.extend(own_form.map(|raw| Chunk::OwnForm { index, raw }));
        out.push_back(Chunk::BlockEnd { index, block });
        Ok(())
    }

    fn message_delta(
        &mut self,
        body: &wire::Event<'_>,
        out: &mut VecDeque<Chunk>,
    ) -> Result<(), ModelFailure> {
        let delta: wire::MessageDelta<'_> = part("delta", body.delta)?;
        if delta.stop_reason.is_some() {
            self.stop_reason = delta.stop_reason;
        }
        // A reason in an unknown shape is still a refusal.
        let details = delta.stop_details.map(|raw| serde_json::from_str(raw.get()));
        if let Some(Ok(wire::StopDetails { category, explanation })) = details {
            out.push_back(Chunk::Refusal(Refusal { category, explanation }));
        }
        self.count(body.usage);
        out.push_back(Chunk::Usage(self.usage));
        Ok(())
    }

    fn stop(&mut self, out: &mut VecDeque<Chunk>) -> Result<(), ModelFailure> {
        if self.message_id.is_none() {
            return Err(malformed("it ended without having begun"));
        }
        if let Some((index, _)) = self.open.first() {
            return Err(malformed(format_args!("it ended before its block {index} did")));
        }
        self.is_complete = true;
        out.push_back(Chunk::Stop(self.reason()));
        Ok(())
    }

    /// The reason as the data shows it; the provider's word decides where both agree. Servers have
    /// called a cut-off answer a tool call, and an answer with tool calls finished.
    fn reason(&self) -> StopReason {
        let by_calls = match self.last_call {
            Some(LastCall::Broken) if self.usage.output >= self.max_output => StopReason::MaxTokens,
            Some(_) => StopReason::ToolUse,
            None => StopReason::EndTurn,
        };
        match self.stop_reason.as_deref() {
            Some("max_tokens") => StopReason::MaxTokens,
            Some("model_context_window_exceeded") => StopReason::ContextFull,
            Some("pause_turn") => StopReason::Pause,
            Some("refusal") => StopReason::Refusal,
            Some("end_turn" | "stop_sequence" | "tool_use") | None => by_calls,
            Some(other) => {
                tracing::warn!(other, "unknown stop reason");
                by_calls
            }
        }
    }

    /// Counts are cumulative, and each event gives only some of them.
    fn count(&mut self, usage: Option<wire::Usage>) {
        let Some(counts) = usage else { return };
        let usage = &mut self.usage;
        for (known, count) in [
            (&mut usage.input, counts.input_tokens),
            (&mut usage.output, counts.output_tokens),
            (&mut usage.cache_read, counts.cache_read_input_tokens),
            (&mut usage.cache_write, counts.cache_creation_input_tokens),
        ] {
            *known = count.unwrap_or(*known);
        }
    }

    fn index(&self, body: &wire::Event<'_>) -> Result<u32, ModelFailure> {
        body.index.ok_or_else(|| malformed("a block has no index"))
    }
}

#[cfg(test)]
mod tests;
