//! Turns what a provider answers instead of a message into a [`ModelFailure`].

use std::time::{Duration, SystemTime};

use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::wire::{ErrorBody, ErrorDetail};
use crate::hint::wait_in;
use crate::http::{CONNECT_TIMEOUT, innermost};
use crate::{FailureCode, ModelFailure, RefusedImages, Secret};

/// The most characters of a provider's message that a person is shown.
const MAX_MESSAGE: usize = 300;

/// What is shorter is a placeholder for a server that wants no key, and may occur in any text.
const SHORTEST_KEY: usize = 8;

/// The longest request id that is kept.
const MAX_REQUEST_ID: usize = 128;

/// Who was asked, as far as an error text names it.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) provider: &'a str,
    pub(super) model: &'a str,
    /// Never shown; known here so that it can be cut out of what a provider echoes.
    pub(super) key: &'a Secret,
}

/// What is known of a response besides its body.
pub(super) struct Head {
    pub(super) status: StatusCode,
    pub(super) request_id: Option<String>,
    retry_after: Option<Duration>,
    should_retry: Option<bool>,
}

impl Head {
    /// Reads status and headers of a response that arrived at `now`.
    pub(super) fn new(status: StatusCode, headers: &HeaderMap, now: SystemTime) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = ["request-id", "x-request-id", "x-ds-trace-id"].into_iter().find_map(text);
        Self {
            status,
            request_id: request_id.map(request_id_text),
            retry_after: text("retry-after-ms")
                .and_then(|value| seconds(value, 1000.0))
                .or_else(|| text("retry-after").and_then(|value| retry_after(value, now))),
            should_retry: match text("x-should-retry") {
                Some("true") => Some(true),
                Some("false") => Some(false),
                _ => None,
            },
        }
    }
}

fn seconds(text: &str, per_second: f64) -> Option<Duration> {
    let number: f64 = text.trim().parse().ok()?;
    Duration::try_from_secs_f64(number / per_second).ok()
}

fn retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    seconds(text, 1.0).or_else(|| {
        let time = httpdate::parse_http_date(text).ok()?;
        Some(time.duration_since(now).unwrap_or(Duration::ZERO))
    })
}

fn request_id_text(text: &str) -> String {
    text.chars().filter(char::is_ascii_graphic).take(MAX_REQUEST_ID).collect()
}

/// The failure that a response without an answer stands for. `body` may be cut short.
pub(super) fn from_response(asked: Asked<'_>, head: &Head, body: &[u8]) -> ModelFailure {
    let parsed: Option<ErrorBody> = serde_json::from_slice(body).ok();
    let (detail, body_request_id) = match parsed {
        Some(ErrorBody { error, request_id }) => (error.unwrap_or_default(), request_id),
        None => (ErrorDetail::default(), None),
    };
    let code = settle(code(Some(head.status), &detail), head.should_retry);
    let said = said(asked, &detail);
    let message = sentence(asked, code, Some(head.status), said.as_deref());
    let retry_after = head.retry_after.or_else(|| hinted(&detail));
    let wait = retry_after.filter(|wait| !wait.is_zero());
    ModelFailure {
        code,
        message: match wait {
            Some(wait) => format!("{message}; it asks to wait {}", spoken(wait)),
            None => message,
        },
        status: Some(head.status.as_u16()),
        retry_after,
        request_id: head
            .request_id
            .clone()
            .or_else(|| body_request_id.as_deref().map(request_id_text)),
        refused_tool: match code {
            FailureCode::InvalidRequest => detail.message.as_deref().and_then(refused_tool),
            _ => None,
        },
        refused_images: match code {
            FailureCode::ContextOverflow if head.status == StatusCode::PAYLOAD_TOO_LARGE => {
                Some(RefusedImages::Bytes)
            }
            code => refused_images(code, &detail),
        },
    }
}

/// What a refusal that speaks of images is about. As providers and servers like them say that there are
/// too many: `Too much media: 0 document pages + 103 images > 100`, `too many images and documents:
/// 120 + 0 > 100`, `At most 5 image(s) may be provided in one request.`, `Too many images in request. Max
/// is 10.`; and that each of so many would have to be smaller: `max allowed size for many-image requests`.
fn refused_images(code: FailureCode, detail: &ErrorDetail) -> Option<RefusedImages> {
    let text = detail.message.as_deref()?.to_lowercase();
    let speaks_of_them = text.contains("image") || text.contains("media");
    if code != FailureCode::InvalidRequest || !speaks_of_them {
        return None;
    }
    let signs = ["too many", "too much", "many-image", "at most", "number of images"];
    if !signs.into_iter().any(|sign| text.contains(sign)) {
        return Some(RefusedImages::One);
    }
    let most =
        ["> ", "at most ", "max is ", "maximum is ", "limit is ", "maximum of ", "limit of "];
    let said = most.into_iter().find_map(|before| {
        let (_, number) = text.rsplit_once(before)?;
        let end = number.find(|it: char| !it.is_ascii_digit()).unwrap_or(number.len());
        number.get(..end)?.parse().ok()
    });
    Some(RefusedImages::Many { most: said })
}

/// The place of the tool that a refusal is about: `tools.3.custom.input_schema: …`, as the provider says
/// it, or `tools[3]`, as those like it do.
fn refused_tool(message: &str) -> Option<usize> {
    let (_, place) = message.split_once("tools.").or_else(|| message.split_once("tools["))?;
    let digits = place.find(|it: char| !it.is_ascii_digit()).unwrap_or(place.len());
    place.get(..digits)?.parse().ok()
}

/// A wait in the unit that a person would use, rounded up.
fn spoken(wait: Duration) -> String {
    let seconds = wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0));
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h", seconds.div_ceil(3600)),
    }
}

/// The failure that an `error` event in the stream stands for.
pub(super) fn from_event(asked: Asked<'_>, detail: &ErrorDetail) -> ModelFailure {
    let code = code(None, detail);
    let message = sentence(asked, code, None, said(asked, detail).as_deref());
    let (retry_after, refused_images) = (hinted(detail), refused_images(code, detail));
    ModelFailure { retry_after, refused_images, ..ModelFailure::new(code, message) }
}

/// The wait that the words of an error ask for.
fn hinted(detail: &ErrorDetail) -> Option<Duration> {
    wait_in(detail.message.as_deref()?)
}

/// The failure of a connection to `host`.
pub(super) fn from_transport(asked: Asked<'_>, host: &str, error: &reqwest::Error) -> ModelFailure {
    let message = if error.is_connect() && error.is_timeout() {
        format!("{host} could not be reached within {} s", CONNECT_TIMEOUT.as_secs())
    } else if error.is_connect() {
        format!("{host} could not be reached: {}", shown(asked.key, &innermost(error)))
    } else {
        format!("the connection to {host} was cut: {}", shown(asked.key, &innermost(error)))
    };
    ModelFailure::new(FailureCode::Transport, message)
}

fn code(status: Option<StatusCode>, detail: &ErrorDetail) -> FailureCode {
    let kind = detail.r#type.as_deref().unwrap_or_default();
    let message = detail.message.as_deref().unwrap_or_default().to_lowercase();
    let status = status.map_or(0, |status| status.as_u16());
    let refused = || match message.as_str() {
        text if is_overflow(text) => FailureCode::ContextOverflow,
        text if text.contains("credit balance") => FailureCode::Billing,
        text if text.contains("model not exist") => FailureCode::UnknownModel,
        _ => FailureCode::InvalidRequest,
    };
    let code = match (status, kind) {
        (400, "") | (400 | 0 | 200, "invalid_request_error") => refused(),
        (402, _) | (_, "billing_error" | "insufficient_quota") => FailureCode::Billing,
        (401 | 403, _) | (_, "authentication_error" | "permission_error") => FailureCode::Auth,
        (404, _) | (_, "not_found_error") => FailureCode::UnknownModel,
        (413, _) | (_, "request_too_large") => FailureCode::ContextOverflow,
        (429, _) | (_, "rate_limit_error") => FailureCode::RateLimited,
        (503 | 529, _) | (_, "overloaded_error") => FailureCode::Overloaded,
        (408 | 409 | 500.., _) | (_, "api_error" | "timeout_error") => FailureCode::Server,
        // An error event of a kind that is not known yet: the provider had begun to answer, so
        // the request itself was fine.
        (0, _) => FailureCode::Server,
        (200, _) => FailureCode::MalformedResponse,
        _ => FailureCode::InvalidRequest,
    };
    // The same request would be refused again, whatever the body calls it.
    let is_refusal = matches!(status, 400..500) && !matches!(status, 408 | 409 | 425 | 429);
    if is_refusal && code.is_retryable() { refused() } else { code }
}

fn is_overflow(message: &str) -> bool {
    [
        "prompt is too long",
        "context window",
        "context length",
        "context limit",
        "context size",
        "maximum context",
        "too many tokens",
    ]
    .into_iter()
    .any(|sign| message.contains(sign))
}

/// A provider's explicit word on retrying beats what the status suggests.
fn settle(code: FailureCode, should_retry: Option<bool>) -> FailureCode {
    match (should_retry, code) {
        // A limit that waiting does not lift is a quota.
        (Some(false), FailureCode::RateLimited) => FailureCode::Billing,
        (Some(false), code) if code.is_retryable() => FailureCode::InvalidRequest,
        (Some(true), code) if !code.is_retryable() => FailureCode::Server,
        _ => code,
    }
}

/// What the provider said, fit for one line of a person's screen.
fn said(asked: Asked<'_>, detail: &ErrorDetail) -> Option<String> {
    let text = shown(asked.key, detail.message.as_deref()?);
    (!text.is_empty()).then_some(text)
}

fn shown(key: &Secret, text: &str) -> String {
    let text = match key.expose() {
        key if key.len() < SHORTEST_KEY => text.to_owned(),
        key => text.replace(key, "[key]"),
    };
    let is_hidden = |letter: char| {
        letter.is_control()
            || matches!(letter, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}'
            | '\u{2060}'..='\u{2069}' | '\u{FEFF}')
    };
    let line = text.replace(is_hidden, " ");
    let words: Vec<_> = line.split_whitespace().collect();
    let line = words.join(" ");
    match line.char_indices().nth(MAX_MESSAGE) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

fn sentence(
    asked: Asked<'_>,
    code: FailureCode,
    status: Option<StatusCode>,
    said: Option<&str>,
) -> String {
    let Asked { provider, model, .. } = asked;
    let what = match code {
        FailureCode::Auth => format!("{provider} refuses the key; set a valid one"),
        FailureCode::Billing => {
            format!("{provider} refuses for billing or quota; check the account")
        }
        FailureCode::UnknownModel => {
            format!("{provider} does not know the model {model}, or the base URL is wrong")
        }
        FailureCode::ContextOverflow => {
            format!("the conversation is larger than {model} can read")
        }
        FailureCode::RateLimited => format!("{provider} limits the rate of requests"),
        FailureCode::Overloaded => format!("{provider} is overloaded"),
        FailureCode::Server => format!("{provider} failed"),
        FailureCode::InvalidRequest if status.is_some_and(|status| status.is_redirection()) => {
            format!("{provider} redirects elsewhere; check the base URL")
        }
        FailureCode::InvalidRequest => format!("{provider} refuses the request"),
        FailureCode::MalformedResponse => format!("{provider} sent no event stream"),
        FailureCode::ContentRefused => format!("{model} refuses"),
        FailureCode::Transport | FailureCode::Silent | FailureCode::Cancelled => {
            code.as_str().to_owned()
        }
    };
    let status = status.map(|status| format!(" (HTTP {})", status.as_u16())).unwrap_or_default();
    let said = said.map(|said| format!(": {said}")).unwrap_or_default();
    format!("{what}{status}{said}")
}
