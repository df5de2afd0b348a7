//! One request: recorded, held against the rules, answered from the script.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use hyper::{Method, Request, Response, StatusCode};
use serde_json::json;
use tokio::time::Instant;

use crate::ledger::Ledger;
use crate::plan::{Step, plan};
use crate::record::{Record, Tracker};
use crate::reply::Kind;
use crate::strict::{self, Accepted, Dialect, Key, Refusal, Rules};
use crate::{Delivery, Recorded, Reply, Script, Violation, error, model};

/// The script cut the connection.
#[derive(Debug, thiserror::Error)]
#[error("the script cut the connection")]
pub(crate) struct CutShort;

type Body = UnsyncBoxBody<Bytes, CutShort>;

/// What all connections of a server share.
pub(crate) struct Shared {
    pub(crate) record: Arc<Record>,
    mac_key: Key,
    inner: Mutex<Inner>,
}

struct Inner {
    script: Script,
    ledger: Ledger,
}

impl Shared {
    pub(crate) fn new(script: Script) -> Self {
        Self {
            record: Arc::new(Record::new()),
            mac_key: fresh_key(),
            inner: Mutex::new(Inner { script, ledger: Ledger::default() }),
        }
    }

    pub(crate) fn push(&self, reply: Reply) {
        self.inner().script.queue.push_back(reply);
    }

    /// Whether answers count what the provider's cache would have.
    fn caches(&self) -> bool {
        self.inner().script.caches
    }

    fn largest_body(&self) -> usize {
        self.inner().script.largest_body
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(&self, request: &Recorded) -> Result<Accepted, Refusal> {
        let dialect = endpoint(&request.method, &request.path)?;
        let inner = self.inner();
        let rules = Rules {
            models: &inner.script.models,
            api_key: inner.script.key.as_deref(),
            mac_key: &self.mac_key,
            ledger: &inner.ledger,
            signatures: true,
        };
        strict::check(&rules, dialect, request.headers(), &request.bytes, &request.body)
    }

    /// The models of Anthropic's dialect, for whoever asks with a key that is accepted.
    fn list(&self, request: &Recorded) -> Option<serde_json::Value> {
        let is_list = request.method == Method::GET.as_str()
            && request.path.split('?').next() == Some("/v1/models");
        let key = request.header("x-api-key").filter(|key| !key.is_empty())?;
        let inner = self.inner();
        let accepted = inner.script.key.as_deref().is_none_or(|only| only == key);
        let known = model::known(Dialect::Anthropic);
        let models = known.iter().chain(&inner.script.models).map(|model| {
            json!({
                "type": "model",
                "id": model.id,
                "display_name": format!("Listed {}", model.id),
                "max_input_tokens": model.window,
                "max_tokens": model.max_output,
            })
        });
        (is_list && accepted)
            .then(|| json!({"data": models.collect::<Vec<_>>(), "has_more": false}))
    }

    fn pick(&self, request: &Recorded) -> Result<Reply, Refusal> {
        let messages = request.body.get("messages").and_then(serde_json::Value::as_array);
        let messages = messages.map(Vec::as_slice).unwrap_or_default();
        let picked = self.inner().script.pick(messages);
        picked.map_err(|message| Refusal::status(400, "directive", message))
    }
}

/// Answers one request; it never fails, because every fault is an answer.
pub(crate) async fn answer(
    shared: Arc<Shared>,
    request: Request<Incoming>,
) -> Result<Response<Body>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let collected = Limited::new(body, shared.largest_body()).collect().await;
    let is_too_large = collected.is_err();
    let bytes = collected.map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let recorded = Recorded::new(head.method.as_str(), &path, head.headers, bytes);
    let Some(tracker) = shared.record.arrived(recorded.clone()) else {
        return Ok(failure(500, "the record of requests is full", None, "req_none"));
    };
    if let Some(list) = shared.list(&recorded) {
        return Ok(listed(list, tracker));
    }
    let outcome = if is_too_large {
        let message = "Request exceeds the maximum size or could not be read";
        Err(Refusal::status(413, "body-size", message))
    } else {
        shared.check(&recorded)
    };
    let outcome = outcome.and_then(|accepted| Ok((accepted, shared.pick(&recorded)?)));
    Ok(match outcome {
        Ok((accepted, reply)) => respond(&shared, &accepted, reply, tracker).await,
        Err(refusal) => refuse(&shared, refusal, tracker),
    })
}

fn endpoint(method: &str, path: &str) -> Result<Dialect, Refusal> {
    let dialect = match path {
        "/v1/messages" => Dialect::Anthropic,
        "/anthropic/v1/messages" => Dialect::DeepSeek,
        _ => return Err(Refusal::status(404, "path", format!("{path} is not served"))),
    };
    if method != Method::POST.as_str() {
        return Err(Refusal::status(405, "method", format!("{method} is not allowed")));
    }
    Ok(dialect)
}

fn listed(list: serde_json::Value, mut tracker: Tracker) -> Response<Body> {
    let id = request_id(tracker.number());
    tracker.settle(Delivery::Complete);
    response(200, "application/json", whole(list.to_string().into()), &id)
}

fn refuse(shared: &Shared, refusal: Refusal, mut tracker: Tracker) -> Response<Body> {
    let Refusal { status, rule, message } = refusal;
    let number = tracker.number();
    let response = failure(status, &message, None, &request_id(number));
    shared.record.refused(Violation { request: number, rule, message });
    tracker.settle(Delivery::Complete);
    response
}

async fn respond(
    shared: &Shared,
    accepted: &Accepted,
    reply: Reply,
    mut tracker: Tracker,
) -> Response<Body> {
    if let Some(gate) = &reply.gate {
        gate.pass().await;
    }
    let id = request_id(tracker.number());
    match reply.kind {
        Kind::Stream(mut answer) => {
            if shared.caches() {
                let (cached, prefixes) = &accepted.cache;
                answer.usage = answer.usage.or(*cached);
                shared.inner().ledger.cache(prefixes.clone());
            }
            let steps = plan(&answer, accepted, &mut shared.inner().ledger);
            let body = StreamBody::new(send(steps, tracker)).boxed_unsync();
            response(200, "text/event-stream; charset=utf-8", body, &id)
        }
        Kind::Error { status, message, retry_after } => {
            tracker.settle(Delivery::Complete);
            failure(status, &message, retry_after, &id)
        }
        Kind::Whole { status, content_type, body } => {
            tracker.settle(Delivery::Complete);
            response(status, &content_type, whole(body), &id)
        }
    }
}

/// Sends the steps of an answer, and notes how far it got.
fn send(
    steps: Vec<Step>,
    tracker: Tracker,
) -> impl Stream<Item = Result<Frame<Bytes>, CutShort>> + Send {
    stream::unfold((VecDeque::from(steps), tracker), |(mut steps, mut tracker)| async move {
        loop {
            match steps.pop_front() {
                Some(Step::Send { bytes, deltas }) => {
                    tracker.sent(deltas);
                    return Some((Ok(Frame::data(bytes)), (steps, tracker)));
                }
                // The server plays the other side, so it keeps its own time.
                Some(Step::Wait(delay)) => tokio::time::sleep_until(Instant::now() + delay).await,
                Some(Step::Hold(gate)) => gate.pass().await,
                Some(Step::Stall) => std::future::pending().await,
                Some(Step::Cut) => {
                    // A failing body drops what hyper has not flushed; it flushes while we wait.
                    tokio::task::yield_now().await;
                    tracker.settle(Delivery::Cut);
                    return Some((Err(CutShort), (steps, tracker)));
                }
                None => {
                    tracker.settle(Delivery::Complete);
                    return None;
                }
            }
        }
    })
}

fn failure(
    status: u16,
    message: &str,
    retry_after: Option<Duration>,
    request_id: &str,
) -> Response<Body> {
    let body = error::body(error::kind(status), message, request_id).to_string();
    let mut response = response(status, "application/json", whole(body.into()), request_id);
    if let Some(wait) = retry_after {
        let seconds = wait.as_secs() + u64::from(wait.subsec_nanos() > 0);
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// A content type that is no header value is left out, and a status that is none becomes 500.
fn response(status: u16, content_type: &str, body: Body, request_id: &str) -> Response<Body> {
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        response.headers_mut().insert(CONTENT_TYPE, value);
    }
    if let Ok(value) = HeaderValue::from_str(request_id) {
        response.headers_mut().insert("request-id", value);
    }
    response
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(|never| match never {}).boxed_unsync()
}

fn request_id(number: usize) -> String {
    format!("req_{number:08}")
}

/// A key that no other server of this or another process is likely to have. It guards nothing:
/// a client under test does not forge, it only mixes up.
fn fresh_key() -> Key {
    use std::hash::{BuildHasher as _, RandomState};
    let mut key = Key::default();
    for (slot, word) in key.chunks_mut(8).zip(0_u64..) {
        slot.copy_from_slice(&RandomState::new().hash_one(word).to_le_bytes());
    }
    key
}
