//! What the server is told to answer: a streamed [`Answer`], or another kind of [`Reply`].

use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;

use crate::Gate;
use crate::strict::Cached;

/// The most deltas one part of an answer may have; more are refused in a directive and merged in
/// a builder call.
pub(crate) const MAX_DELTAS: usize = 1_000_000;

/// One answer to one request.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(crate) gate: Option<Gate>,
    pub(crate) kind: Kind,
}

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Stream(Box<Answer>),
    Error { status: u16, message: String, retry_after: Option<Duration> },
    Whole { status: u16, content_type: String, body: Bytes },
}

impl Reply {
    /// The provider's error for an HTTP status (400, 401, 402, 403, 404, 413, 429, 500, 504, 529;
    /// others are an `api_error`).
    pub fn error(status: u16) -> Self {
        let message = format!("scripted error {status}");
        Self::of(Kind::Error { status, message, retry_after: None })
    }

    /// The same error with this message.
    pub fn saying(mut self, text: &str) -> Self {
        if let Kind::Error { message, .. } = &mut self.kind {
            text.clone_into(message);
        }
        self
    }

    /// 429 with a `retry-after` header, rounded up to whole seconds.
    pub fn rate_limited(retry_after: Duration) -> Self {
        let message = "scripted rate limit".to_owned();
        Self::of(Kind::Error { status: 429, message, retry_after: Some(retry_after) })
    }

    /// Any other HTTP response in one piece: a proxy's HTML page, a 200 that is no event stream.
    pub fn whole(status: u16, content_type: &str, body: impl Into<Bytes>) -> Self {
        Self::of(Kind::Whole { status, content_type: content_type.to_owned(), body: body.into() })
    }

    /// Holds the response, its headers included, until the gate is open.
    pub fn held(self, gate: &Gate) -> Self {
        Self { gate: Some(gate.clone()), ..self }
    }

    pub(crate) fn of(kind: Kind) -> Self {
        Self { gate: None, kind }
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::of(Kind::Stream(Box::new(answer)))
    }
}

/// A streamed answer, built part by part in the order it is sent.
///
/// Deltas are counted over the whole answer, from 1: each `text_delta`, `thinking_delta` and
/// non-empty `input_json_delta` is one; signatures are none.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub(crate) parts: Vec<Part>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Usage,
    pub(crate) delay: Option<Duration>,
    pub(crate) holds: Vec<(usize, Gate)>,
    pub(crate) ending: Option<(usize, Ending)>,
    pub(crate) cut_after_bytes: Option<usize>,
    pub(crate) piece: Option<usize>,
}

#[derive(Clone, Debug)]
pub(crate) enum Part {
    Text { text: String, deltas: usize },
    Thinking { text: String, deltas: usize },
    Redacted,
    ToolCall { name: String, arguments: String },
    Cited { text: String, citation: Value },
    Block(Value),
    Burst { deltas: usize, size: usize },
    Ping,
    Raw(Bytes),
}

/// How an answer ends before its time.
#[derive(Clone, Debug)]
pub(crate) enum Ending {
    Stall,
    Cut,
    Close,
    Error { kind: String, message: String },
}

impl Answer {
    /// An answer without blocks, which ends its turn.
    pub fn new() -> Self {
        Self::default()
    }

    /// A text block in one delta.
    pub fn text(self, text: &str) -> Self {
        self.text_in(1, text)
    }

    /// A text block split into up to `deltas` pieces, at character boundaries.
    pub fn text_in(self, deltas: usize, text: &str) -> Self {
        self.part(Part::Text { text: text.to_owned(), deltas })
    }

    /// A signed thinking block in one delta. As with the provider the text is only shown when the
    /// request asks with `"display": "summarized"`; otherwise the block has the empty text.
    pub fn thinking(self, text: &str) -> Self {
        self.thinking_in(1, text)
    }

    /// A signed thinking block split into up to `deltas` pieces.
    pub fn thinking_in(self, deltas: usize, text: &str) -> Self {
        self.part(Part::Thinking { text: text.to_owned(), deltas })
    }

    /// A redacted thinking block; its data is signed like a thinking block.
    pub fn redacted_thinking(self) -> Self {
        self.part(Part::Redacted)
    }

    /// A tool call with a fresh id; the arguments arrive in up to three deltas, `{}` in none.
    pub fn tool_call(self, name: &str, arguments: Value) -> Self {
        self.tool_call_raw(name, &arguments.to_string())
    }

    /// A tool call whose argument text is sent as it is, valid JSON or not.
    pub fn tool_call_raw(self, name: &str, arguments: &str) -> Self {
        let (name, arguments) = (name.to_owned(), arguments.to_owned());
        self.part(Part::ToolCall { name, arguments })
    }

    /// A text block in one delta, with one citation.
    pub fn cited_text(self, text: &str, citation: Value) -> Self {
        self.part(Part::Cited { text: text.to_owned(), citation })
    }

    /// A block that is sent whole in its start, e.g. of a tool of the provider's own. Thinking
    /// behind it is bound to it.
    pub fn block(self, block: Value) -> Self {
        self.part(Part::Block(block))
    }

    /// A text block of `deltas` deltas of `size` bytes each, sent as fast as the socket takes
    /// them. Each starts with its seven-digit number, from 0, as far as `size` allows.
    pub fn burst(self, deltas: usize, size: usize) -> Self {
        self.part(Part::Burst { deltas, size })
    }

    /// A `ping` event between two blocks.
    pub fn ping(self) -> Self {
        self.part(Part::Ping)
    }

    /// Bytes sent between two blocks as they are: garbage, comments, unknown events.
    pub fn raw(self, bytes: impl Into<Bytes>) -> Self {
        self.part(Part::Raw(bytes.into()))
    }

    /// The stop reason, where it is not to follow from the blocks (`tool_use` with tool calls,
    /// else `end_turn`).
    pub fn stop_reason(self, stop: StopReason) -> Self {
        Self { stop: Some(stop), ..self }
    }

    /// The usage to report; what is not set follows from the sizes.
    pub fn usage(self, usage: Usage) -> Self {
        Self { usage, ..self }
    }

    /// Waits before each delta.
    pub fn delay(self, delay: Duration) -> Self {
        Self { delay: Some(delay), ..self }
    }

    /// Stands still after that many deltas until the gate is open; 0 is after `message_start`.
    pub fn hold_after(mut self, deltas: usize, gate: &Gate) -> Self {
        self.holds.push((deltas, gate.clone()));
        self
    }

    /// After that many deltas sends nothing more and keeps the connection until the client goes.
    pub fn stall_after(self, deltas: usize) -> Self {
        self.end_after(deltas, Ending::Stall)
    }

    /// After that many deltas aborts the connection, without the end of the HTTP body.
    pub fn cut_after(self, deltas: usize) -> Self {
        self.end_after(deltas, Ending::Cut)
    }

    /// Aborts the connection after that many bytes of the event stream.
    pub fn cut_after_bytes(self, bytes: usize) -> Self {
        Self { cut_after_bytes: Some(bytes), ..self }
    }

    /// After that many deltas ends the HTTP body properly, without `message_stop`.
    pub fn close_after(self, deltas: usize) -> Self {
        self.end_after(deltas, Ending::Close)
    }

    /// After that many deltas sends an `error` event, e.g. of kind `overloaded_error`, and ends.
    pub fn error_after(self, deltas: usize, kind: &str, message: &str) -> Self {
        let (kind, message) = (kind.to_owned(), message.to_owned());
        self.end_after(deltas, Ending::Error { kind, message })
    }

    /// Sends the event stream in pieces of that many bytes, so that events and characters are
    /// split.
    pub fn in_pieces_of(self, bytes: usize) -> Self {
        Self { piece: Some(bytes.max(1)), ..self }
    }

    fn end_after(self, deltas: usize, ending: Ending) -> Self {
        Self { ending: Some((deltas, ending)), ..self }
    }

    fn part(mut self, part: Part) -> Self {
        self.parts.push(part);
        self
    }
}

/// Why an answer stopped, as the wire says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// The model waits for tool results.
    ToolUse,
    /// `max_tokens` was reached.
    MaxTokens,
    /// A stop sequence was met.
    StopSequence,
    /// A long turn was paused; sending the answer back continues it.
    PauseTurn,
    /// The model refused, for a category such as `cyber`.
    Refusal {
        /// The category.
        category: String,
        /// The explanation.
        explanation: String,
    },
    /// The context window was reached.
    ContextWindowExceeded,
}

impl StopReason {
    /// The word on the wire.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::EndTurn => "end_turn",
            Self::ToolUse => "tool_use",
            Self::MaxTokens => "max_tokens",
            Self::StopSequence => "stop_sequence",
            Self::PauseTurn => "pause_turn",
            Self::Refusal { .. } => "refusal",
            Self::ContextWindowExceeded => "model_context_window_exceeded",
        }
    }
}

/// The usage an answer reports, in tokens. What is `None` is counted by the server; cache counts
/// are then 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Input that was neither read from nor written to the cache.
    pub input: Option<u64>,
    /// Input read from the cache.
    pub cache_read: Option<u64>,
    /// Input written to the cache.
    pub cache_write: Option<u64>,
    /// Output.
    pub output: Option<u64>,
}

impl Usage {
    /// What is not set, as a cache would have it.
    pub(crate) fn or(self, cached: Cached) -> Self {
        Self {
            input: self.input.or(Some(cached.fresh)),
            cache_read: self.cache_read.or(Some(cached.read)),
            cache_write: self.cache_write.or(Some(cached.written)),
            output: self.output,
        }
    }
}
