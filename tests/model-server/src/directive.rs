//! The directive `[[mock {...}]]` in a prompt, with which a person or a driver steers the server
//! from the client's side. Unknown keys and bad values are refused with a sentence.

use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use crate::reply::{Kind, MAX_DELTAS};
use crate::script::DEFAULT_TEXT;
use crate::{Answer, Reply, StopReason, Usage};

/// How a directive begins.
pub(crate) const OPENING: &str = "[[mock ";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Directive {
    text: Option<String>,
    deltas: Option<usize>,
    delay_ms: Option<u64>,
    thinking: Option<String>,
    tool_calls: Vec<Call>,
    error: Option<Failure>,
    stop_reason: Option<String>,
    stall_after: Option<usize>,
    disconnect_after: Option<usize>,
    big: Option<usize>,
    size: Option<usize>,
    usage: Option<Counts>,
    steps: Vec<Directive>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    name: String,
    args: Option<Value>,
    raw_args: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    status: u16,
    retry_after: Option<u64>,
    message: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Counts {
    input: Option<u64>,
    output: Option<u64>,
}

/// The steps of the last directive in `text`, or `None` when there is none.
///
/// # Errors
/// A sentence that says what is wrong with it.
pub(crate) fn parse(text: &str) -> Result<Option<Vec<Reply>>, String> {
    let Some((_, rest)) = text.rsplit_once(OPENING) else { return Ok(None) };
    let mut values = serde_json::Deserializer::from_str(rest).into_iter::<Directive>();
    let directive = match values.next() {
        Some(Ok(directive)) => directive,
        Some(Err(error)) => return Err(format!("the [[mock ...]] directive is wrong: {error}")),
        None => return Err("the [[mock ...]] directive is empty".to_owned()),
    };
    let steps = if directive.steps.is_empty() { vec![directive] } else { flat(directive.steps)? };
    steps.into_iter().map(reply).collect::<Result<_, _>>().map(Some)
}

fn flat(steps: Vec<Directive>) -> Result<Vec<Directive>, String> {
    if steps.iter().any(|step| !step.steps.is_empty()) {
        return Err("the [[mock ...]] directive has steps inside of steps".to_owned());
    }
    Ok(steps)
}

fn reply(directive: Directive) -> Result<Reply, String> {
    if let Some(Failure { status, retry_after, message }) = directive.error {
        if !(400..=599).contains(&status) {
            return Err(format!("{status} is no error status (400 to 599)"));
        }
        let message = message.unwrap_or_else(|| format!("scripted error {status}"));
        let retry_after = retry_after.map(Duration::from_secs);
        return Ok(Reply::of(Kind::Error { status, message, retry_after }));
    }
    let mut answer = content(&directive)?;
    if let Some(delay) = directive.delay_ms {
        answer = answer.delay(Duration::from_millis(delay));
    }
    if let Some(counts) = directive.usage {
        let Counts { input, output } = counts;
        answer = answer.usage(Usage { input, output, ..Usage::default() });
    }
    if let Some(word) = &directive.stop_reason {
        answer = answer.stop_reason(stop_reason(word)?);
    }
    if let Some(deltas) = directive.stall_after {
        answer = answer.stall_after(deltas);
    }
    if let Some(deltas) = directive.disconnect_after {
        answer = answer.cut_after(deltas);
    }
    Ok(answer.into())
}

fn content(directive: &Directive) -> Result<Answer, String> {
    let deltas = directive.deltas.unwrap_or(1);
    if deltas.max(directive.big.unwrap_or(0)) > MAX_DELTAS {
        return Err(format!("more than {MAX_DELTAS} deltas"));
    }
    let mut answer = Answer::new();
    if let Some(thinking) = &directive.thinking {
        answer = answer.thinking(thinking);
    }
    let is_plain = directive.tool_calls.is_empty() && directive.big.is_none();
    match (&directive.text, directive.big) {
        (_, Some(deltas)) => answer = answer.burst(deltas, directive.size.unwrap_or(16)),
        (Some(text), None) if !text.is_empty() => answer = answer.text_in(deltas, text),
        (None, None) if is_plain => answer = answer.text_in(deltas, DEFAULT_TEXT),
        _ => {}
    }
    for call in &directive.tool_calls {
        answer = match (&call.raw_args, &call.args) {
            (Some(raw), _) => answer.tool_call_raw(&call.name, raw),
            (None, Some(args)) => answer.tool_call(&call.name, args.clone()),
            (None, None) => answer.tool_call_raw(&call.name, "{}"),
        };
    }
    Ok(answer)
}

fn stop_reason(word: &str) -> Result<StopReason, String> {
    let refusal = || StopReason::Refusal {
        category: "general_harms".to_owned(),
        explanation: "scripted refusal".to_owned(),
    };
    Ok(match word {
        "end_turn" => StopReason::EndTurn,
        "tool_use" => StopReason::ToolUse,
        "max_tokens" => StopReason::MaxTokens,
        "stop_sequence" => StopReason::StopSequence,
        "pause_turn" => StopReason::PauseTurn,
        "refusal" => refusal(),
        "model_context_window_exceeded" => StopReason::ContextWindowExceeded,
        _ => return Err(format!("{word:?} is no stop reason")),
    })
}
