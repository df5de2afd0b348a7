//! The events of a streamed answer, as the provider frames them.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::StopReason;

/// Token counts as an answer reports them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts {
    pub(crate) input: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) output: u64,
}

impl Counts {
    fn json(self, output: u64) -> Value {
        json!({
            "input_tokens": self.input,
            "cache_creation_input_tokens": self.cache_write,
            "cache_read_input_tokens": self.cache_read,
            "output_tokens": output,
        })
    }
}

pub(crate) fn message_start(id: &str, model: &str, counts: Counts) -> Bytes {
    let message = json!({
        "id": id, "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": counts.json(1),
    });
    event("message_start", &json!({ "type": "message_start", "message": message }))
}

pub(crate) fn block_start(index: usize, block: &Value) -> Bytes {
    let data = json!({ "type": "content_block_start", "index": index, "content_block": block });
    event("content_block_start", &data)
}

pub(crate) fn block_delta(index: usize, kind: &str, field: &str, value: &str) -> Bytes {
    let delta = json!({ "type": kind, field: value });
    let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
    event("content_block_delta", &data)
}

pub(crate) fn citation_delta(index: usize, citation: &Value) -> Bytes {
    let delta = json!({ "type": "citations_delta", "citation": citation });
    let data = json!({ "type": "content_block_delta", "index": index, "delta": delta });
    event("content_block_delta", &data)
}

pub(crate) fn block_stop(index: usize) -> Bytes {
    event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }))
}

/// The cumulative usage and the stop reason.
pub(crate) fn message_delta(stop: &StopReason, counts: Counts) -> Bytes {
    let mut delta = json!({ "stop_reason": stop.as_str(), "stop_sequence": null });
    if let (StopReason::Refusal { category, explanation }, Some(fields)) =
        (stop, delta.as_object_mut())
    {
        let details = json!({
            "type": "refusal", "category": category, "explanation": explanation,
        });
        fields.insert("stop_details".to_owned(), details);
    }
    let usage = counts.json(counts.output);
    event("message_delta", &json!({ "type": "message_delta", "delta": delta, "usage": usage }))
}

pub(crate) fn message_stop() -> Bytes {
    event("message_stop", &json!({ "type": "message_stop" }))
}

pub(crate) fn ping() -> Bytes {
    event("ping", &json!({ "type": "ping" }))
}

pub(crate) fn error(body: &Value) -> Bytes {
    event("error", body)
}

/// What stands before and after the text in a `text_delta` event. A burst builds it once, because
/// the server must be faster than whatever it measures.
pub(crate) fn around_text(index: usize) -> (String, String) {
    const FIELD: &str = "\"text\":\"";
    let data = json!({ "type": "text_delta", "text": "" });
    let data = json!({ "type": "content_block_delta", "index": index, "delta": data });
    let frame = format!("event: content_block_delta\ndata: {data}\n\n");
    let (head, tail) = frame.split_once(FIELD).unwrap_or((&frame, ""));
    (format!("{head}{FIELD}"), tail.to_owned())
}

fn event(name: &str, data: &Value) -> Bytes {
    Bytes::from(format!("event: {name}\ndata: {data}\n\n"))
}
