//! Turns an answer into the steps in which it is sent, and enters into the ledger what it emits.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use serde_json::{Value, json};

use crate::ledger::{EmittedCall, Ledger, Mark, Signed};
use crate::reply::{Ending, MAX_DELTAS, Part};
use crate::sse::{self, Counts};
use crate::strict::{Accepted, Chain, Dialect, count, signature};
use crate::{Answer, Gate, StopReason, error};

/// Deltas of a burst are joined up to about this many bytes.
const CHUNK: usize = 64 * 1024;
/// Into how many deltas the arguments of a tool call are split.
const ARGUMENT_DELTAS: usize = 3;

/// One step of sending.
#[derive(Debug)]
pub(crate) enum Step {
    /// Hands these bytes over, which hold that many deltas.
    Send { bytes: Bytes, deltas: usize },
    /// Waits.
    Wait(Duration),
    /// Stands at a gate.
    Hold(Gate),
    /// Sends nothing more and keeps the connection.
    Stall,
    /// Aborts the connection.
    Cut,
}

/// The steps of `answer` to an accepted request.
pub(crate) fn plan(answer: &Answer, accepted: &Accepted, ledger: &mut Ledger) -> Vec<Step> {
    let mut writer = Writer {
        answer,
        accepted,
        prefix: accepted.chain.mark(),
        chain: accepted.chain.clone(),
        ledger,
        steps: Vec::new(),
        deltas: 0,
        output_bytes: 0,
        index: 0,
        thinking: Vec::new(),
        has_calls: false,
        is_over: false,
    };
    writer.write();
    let mut steps = writer.steps;
    if let Some(bytes) = answer.cut_after_bytes {
        steps = cut(steps, bytes);
    }
    if let Some(piece) = answer.piece {
        steps = steps.into_iter().flat_map(|step| pieces(step, piece)).collect();
    }
    steps
}

struct Writer<'a> {
    answer: &'a Answer,
    accepted: &'a Accepted,
    ledger: &'a mut Ledger,
    steps: Vec<Step>,
    /// The conversation before the answer.
    prefix: Mark,
    /// The conversation with the answer so far.
    chain: Chain,
    thinking: Vec<String>,
    deltas: usize,
    output_bytes: usize,
    index: usize,
    has_calls: bool,
    /// Whether the scripted ending has come; what follows is not sent.
    is_over: bool,
}

impl Writer<'_> {
    fn write(&mut self) {
        let id = format!("msg_{:08}", self.ledger.number());
        let start = sse::message_start(&id, &self.accepted.model, self.counts());
        self.send(start);
        self.after_deltas();
        if self.needs_empty_thinking() {
            self.thinking("", 1);
        }
        let answer = self.answer;
        for part in &answer.parts {
            self.part(part);
        }
        let implied = if self.has_calls { StopReason::ToolUse } else { StopReason::EndTurn };
        let stop = self.answer.stop.clone().unwrap_or(implied);
        if stop == StopReason::PauseTurn {
            self.ledger.pause(self.chain.mark());
        }
        let end = sse::message_delta(&stop, self.counts());
        self.send(end);
        self.send(sse::message_stop());
    }

    /// DeepSeek thinks in every answer, sometimes without a word.
    fn needs_empty_thinking(&self) -> bool {
        let parts = &self.answer.parts;
        self.accepted.dialect == Dialect::DeepSeek
            && self.accepted.is_thinking
            && !parts.is_empty()
            && !parts.iter().any(|part| matches!(part, Part::Thinking { .. }))
    }

    fn part(&mut self, part: &Part) {
        match part {
            Part::Text { text, deltas } => self.text(text, *deltas),
            Part::Thinking { text, deltas } if self.accepted.is_thinking => {
                self.thinking(text, *deltas);
            }
            Part::Redacted if self.accepted.is_thinking => self.redacted(),
            Part::Thinking { .. } | Part::Redacted => {}
            Part::ToolCall { name, arguments } => self.tool_call(name, arguments),
            Part::Cited { text, citation } => self.cited(text, citation),
            Part::Block(block) => {
                self.start(block);
                self.stop(block);
            }
            Part::Burst { deltas, size } => self.burst((*deltas).min(MAX_DELTAS), *size),
            Part::Ping => self.send(sse::ping()),
            Part::Raw(bytes) => self.send(bytes.clone()),
        }
    }

    fn text(&mut self, text: &str, deltas: usize) {
        self.start(&json!({ "type": "text", "text": "" }));
        self.split_deltas("text_delta", "text", text, deltas);
        self.stop(&json!({ "type": "text", "text": text }));
    }

    fn cited(&mut self, text: &str, citation: &Value) {
        self.start(&json!({ "type": "text", "text": "", "citations": [] }));
        self.split_deltas("text_delta", "text", text, 1);
        let frame = sse::citation_delta(self.index, citation);
        self.send(frame);
        self.stop(&json!({ "type": "text", "text": text, "citations": [citation] }));
    }

    fn thinking(&mut self, text: &str, deltas: usize) {
        let text = if self.accepted.shows_thinking { text } else { "" };
        self.start(&json!({ "type": "thinking", "thinking": "", "signature": "" }));
        self.split_deltas("thinking_delta", "thinking", text, deltas);
        let signature = self.sign(Some(text));
        if self.accepted.dialect == Dialect::Anthropic {
            let frame = sse::block_delta(self.index, "signature_delta", "signature", &signature);
            self.send(frame);
        }
        self.stop(&json!({ "type": "thinking", "thinking": text, "signature": signature }));
    }

    fn redacted(&mut self) {
        let data = self.sign(None);
        let block = json!({ "type": "redacted_thinking", "data": data });
        self.start(&block);
        self.stop(&block);
    }

    fn tool_call(&mut self, name: &str, arguments: &str) {
        self.has_calls = true;
        let id = format!("toolu_{:08}", self.ledger.number());
        self.start(&json!({ "type": "tool_use", "id": id, "name": name, "input": {} }));
        if arguments != "{}" {
            let empty = sse::block_delta(self.index, "input_json_delta", "partial_json", "");
            self.send(empty);
            self.split_deltas("input_json_delta", "partial_json", arguments, ARGUMENT_DELTAS);
        }
        let input = serde_json::from_str(arguments).ok().filter(Value::is_object);
        let call = EmittedCall {
            model: self.accepted.model.clone(),
            prefix: self.prefix,
            thinking: self.thinking.clone(),
            is_broken: input.is_none(),
        };
        self.ledger.call(&id, call);
        self.stop(&json!({ "type": "tool_use", "id": id, "name": name, "input": input }));
    }

    fn burst(&mut self, deltas: usize, size: usize) {
        self.start(&json!({ "type": "text", "text": "" }));
        let (head, tail) = sse::around_text(self.index);
        let mut text = String::new();
        let mut joined = BytesMut::new();
        let mut pending = 0;
        for number in 0..deltas {
            let piece = burst_piece(number, size);
            for part in [&head, &piece, &tail] {
                joined.extend_from_slice(part.as_bytes());
            }
            text.push_str(&piece);
            pending += 1;
            if joined.len() >= CHUNK || self.stops_at(self.deltas + pending) {
                self.send_deltas(joined.split().freeze(), pending);
                pending = 0;
            }
        }
        self.send_deltas(joined.freeze(), pending);
        self.output_bytes += text.len();
        self.stop(&json!({ "type": "text", "text": text }));
    }

    /// Signs thinking at this point; DeepSeek does not.
    fn sign(&mut self, text: Option<&str>) -> String {
        if self.accepted.dialect == Dialect::DeepSeek {
            return String::new();
        }
        let model = &self.accepted.model;
        let signature = signature(&self.chain, model, text);
        let signed = Signed { model: model.clone(), text: text.map(str::to_owned) };
        self.ledger.sign(&signature, signed);
        self.thinking.push(signature.clone());
        signature
    }

    fn split_deltas(&mut self, kind: &str, field: &str, text: &str, deltas: usize) {
        for piece in split(text, deltas) {
            self.output_bytes += piece.len();
            let frame = sse::block_delta(self.index, kind, field, &piece);
            self.send_deltas(frame, 1);
        }
    }

    fn start(&mut self, block: &Value) {
        let frame = sse::block_start(self.index, block);
        self.send(frame);
    }

    /// Ends a block; `block` is the whole of it.
    fn stop(&mut self, block: &Value) {
        let frame = sse::block_stop(self.index);
        self.send(frame);
        self.index += 1;
        self.chain.absorb_block(block, self.ledger);
    }

    fn send(&mut self, bytes: Bytes) {
        self.push(Step::Send { bytes, deltas: 0 });
    }

    fn send_deltas(&mut self, bytes: Bytes, deltas: usize) {
        if deltas == 0 {
            return;
        }
        if let Some(delay) = self.answer.delay {
            self.push(Step::Wait(delay));
        }
        self.push(Step::Send { bytes, deltas });
        self.deltas += deltas;
        self.after_deltas();
    }

    /// Whether something is scripted to happen after that many deltas.
    fn stops_at(&self, deltas: usize) -> bool {
        let ending = self.answer.ending.as_ref().map(|(at, _)| *at);
        ending == Some(deltas) || self.answer.holds.iter().any(|(at, _)| *at == deltas)
    }

    fn after_deltas(&mut self) {
        let (answer, now) = (self.answer, self.deltas);
        for (_, gate) in answer.holds.iter().filter(|(at, _)| *at == now) {
            self.push(Step::Hold(gate.clone()));
        }
        let Some((_, ending)) = answer.ending.as_ref().filter(|(at, _)| *at == now) else {
            return;
        };
        match ending {
            Ending::Stall => self.push(Step::Stall),
            Ending::Cut => self.push(Step::Cut),
            Ending::Close => {}
            Ending::Error { kind, message } => {
                let frame = sse::error(&error::body(kind, message, "req_in_stream"));
                self.send(frame);
            }
        }
        self.is_over = true;
    }

    fn push(&mut self, step: Step) {
        if !self.is_over {
            self.steps.push(step);
        }
    }

    /// The usage so far: input as counted, output from the bytes written.
    fn counts(&self) -> Counts {
        let usage = self.answer.usage;
        Counts {
            input: usage.input.unwrap_or(self.accepted.tokens),
            cache_read: usage.cache_read.unwrap_or(0),
            cache_write: usage.cache_write.unwrap_or(0),
            output: usage.output.unwrap_or_else(|| count(self.output_bytes).max(1)),
        }
    }
}

/// The text of one delta of a burst: its number, filled up to `size` bytes.
fn burst_piece(number: usize, size: usize) -> String {
    let mut piece = format!("{number:07} ");
    piece.extend(std::iter::repeat_n('x', size.saturating_sub(piece.len())));
    piece.truncate(size);
    piece
}

/// Splits a text into up to `pieces` parts of about equal length, none empty.
fn split(text: &str, pieces: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let pieces = pieces.clamp(1, MAX_DELTAS);
    chars.chunks(chars.len().div_ceil(pieces).max(1)).map(|piece| piece.iter().collect()).collect()
}

/// Keeps the first `limit` bytes and cuts the connection there.
fn cut(steps: Vec<Step>, limit: usize) -> Vec<Step> {
    let mut left = limit;
    let mut kept = Vec::new();
    for step in steps {
        match step {
            Step::Send { mut bytes, .. } if bytes.len() > left => {
                bytes.truncate(left);
                kept.push(Step::Send { bytes, deltas: 0 });
                kept.push(Step::Cut);
                return kept;
            }
            Step::Send { bytes, deltas } => {
                left -= bytes.len();
                kept.push(Step::Send { bytes, deltas });
            }
            other => kept.push(other),
        }
    }
    kept.push(Step::Cut);
    kept
}

/// Splits what a step sends; the last piece carries its deltas.
fn pieces(step: Step, size: usize) -> Vec<Step> {
    let Step::Send { mut bytes, deltas } = step else { return vec![step] };
    let mut pieces = Vec::new();
    while bytes.len() > size {
        pieces.push(Step::Send { bytes: bytes.split_to(size), deltas: 0 });
    }
    pieces.push(Step::Send { bytes, deltas });
    pieces
}
