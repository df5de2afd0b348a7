//! What the server saw: every request in order of arrival, and how far its answer got.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use hyper::HeaderMap;
use hyper::header::HeaderName;
use serde_json::Value;
use tokio::sync::watch;

/// The most requests that are kept; the server answers 500 after that.
const MAX_REQUESTS: usize = 10_000;

/// Headers whose values `Debug` hides.
const SECRET_HEADERS: [HeaderName; 4] = [
    HeaderName::from_static("x-api-key"),
    hyper::header::AUTHORIZATION,
    hyper::header::PROXY_AUTHORIZATION,
    hyper::header::COOKIE,
];

/// One request as it arrived.
#[derive(Clone)]
pub struct Recorded {
    /// Its number in order of arrival, from 0.
    pub number: usize,
    /// The HTTP method.
    pub method: String,
    /// The path with its query.
    pub path: String,
    /// The body as JSON; `Null` when it is none.
    pub body: Value,
    /// The exact bytes of the body.
    pub bytes: Bytes,
    /// How far the answer has got.
    pub delivery: Delivery,
    headers: HeaderMap,
}

impl Recorded {
    pub(crate) fn new(method: &str, path: &str, mut headers: HeaderMap, bytes: Bytes) -> Self {
        for name in SECRET_HEADERS {
            if let Some(value) = headers.get_mut(name) {
                value.set_sensitive(true);
            }
        }
        Self {
            number: 0,
            method: method.to_owned(),
            path: path.to_owned(),
            body: serde_json::from_slice(&bytes).unwrap_or(Value::Null),
            bytes,
            delivery: Delivery::Pending,
            headers,
        }
    }

    /// The value of a header, secrets included; `None` when it is absent or not text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }
}

impl fmt::Debug for Recorded {
    /// Hides secret headers; shows the body as JSON and the size of its bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorded")
            .field("number", &self.number)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &self.headers)
            .field("body", &self.body)
            .field("bytes", &self.bytes.len())
            .field("delivery", &self.delivery)
            .finish()
    }
}

/// How far the answer to a request has got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// It is being sent or held.
    Pending,
    /// All of it was handed to the connection.
    Complete,
    /// The script cut it.
    Cut,
    /// The client went away before its end.
    ClientGone {
        /// The deltas that had been handed to the connection.
        deltas: usize,
    },
}

/// A rule that a request broke.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The number of the request.
    pub request: usize,
    /// The name of the rule.
    pub rule: &'static str,
    /// The message of the refusal.
    pub message: String,
}

#[derive(Default)]
struct Seen {
    requests: Vec<Recorded>,
    violations: Vec<Violation>,
}

/// The record of one server, shared between its connections and its handle.
pub(crate) struct Record {
    seen: Mutex<Seen>,
    changed: watch::Sender<()>,
}

impl Record {
    pub(crate) fn new() -> Self {
        Self { seen: Mutex::default(), changed: watch::Sender::new(()) }
    }

    pub(crate) fn requests(&self) -> Vec<Recorded> {
        self.seen().requests.clone()
    }

    pub(crate) fn violations(&self) -> Vec<Violation> {
        self.seen().violations.clone()
    }

    /// Waits until `ready` says of the requests so far what the caller wants to know.
    pub(crate) async fn wait<T>(&self, ready: impl Fn(&[Recorded]) -> Option<T>) -> T {
        let mut changed = self.changed.subscribe();
        loop {
            let found = ready(&self.seen().requests);
            if let Some(found) = found {
                return found;
            }
            // The sender lives in `self`, so this cannot fail while we are borrowed.
            if changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Keeps a request, or gives `None` when the record is full.
    pub(crate) fn arrived(self: &Arc<Self>, mut request: Recorded) -> Option<Tracker> {
        let number = {
            let mut seen = self.seen();
            let number = seen.requests.len();
            if number >= MAX_REQUESTS {
                return None;
            }
            request.number = number;
            seen.requests.push(request);
            number
        };
        self.changed.send_replace(());
        Some(Tracker { record: Arc::clone(self), number, deltas: 0, is_settled: false })
    }

    pub(crate) fn refused(&self, violation: Violation) {
        self.seen().violations.push(violation);
        self.changed.send_replace(());
    }

    fn settle(&self, number: usize, delivery: Delivery) {
        if let Some(request) = self.seen().requests.get_mut(number) {
            request.delivery = delivery;
        }
        self.changed.send_replace(());
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows one answer. It travels with the response; dropped early, the client has gone.
pub(crate) struct Tracker {
    record: Arc<Record>,
    number: usize,
    deltas: usize,
    is_settled: bool,
}

impl Tracker {
    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn sent(&mut self, deltas: usize) {
        self.deltas += deltas;
    }

    pub(crate) fn settle(&mut self, delivery: Delivery) {
        self.is_settled = true;
        self.record.settle(self.number, delivery);
    }
}

impl Drop for Tracker {
    fn drop(&mut self) {
        if !self.is_settled {
            let deltas = self.deltas;
            self.record.settle(self.number, Delivery::ClientGone { deltas });
        }
    }
}
