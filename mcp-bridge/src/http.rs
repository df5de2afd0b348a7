//! The wire to a server that is spoken with over HTTP: the official client's, with what it lacks.
//!
//! A request that comes to nothing is answered here in the server's place, and the answer says whether
//! the server may have done it. Errors without an id get that of the request that they answer; one that
//! says that the session is unknown has the client introduce itself again, once a request. Streams of
//! the server are opened again at a pace that no server takes for an attack (notes on MCP, 1.3, 1.11).

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use bridle_compose::Clock;
use bridle_model::{client_builder, innermost};
use futures::StreamExt as _;
use futures::stream::BoxStream;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Client, Url, redirect};
use rmcp::model::{
    ClientJsonRpcMessage, ClientRequest, ErrorData, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::ExponentialBackoff;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpClientTransportConfig, StreamableHttpError,
    StreamableHttpPostResponse, StreamableHttpResponseLimits,
};
use serde_json::Value;
use sse_stream::Sse;
use tokio::sync::Notify;

use crate::clip::clipped;
use crate::request::Fault;

/// The pause before a stream is opened for the second time; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest such pause; a stream that lived as long is opened again at once.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How often in a row a stream is opened again that cannot be opened.
const MAX_RETRIES: usize = 3;

/// How much of an error is told, in bytes.
const MAX_TOLD: usize = 300;

/// How often a request follows the server to another place of its own.
const MAX_REDIRECTS: usize = 5;

/// The wire to the server at `url`, with `headers` in each request. `renewed` is woken when the server
/// has begun a new session. Opens no connection yet; reads certificates where the address needs any.
///
/// # Errors
/// What is wrong with the address or a header, for a person; never a header's value.
pub(crate) fn wire(
    url: &str,
    headers: &[(String, String)],
    ca_file: Option<&Path>,
    clock: Arc<dyn Clock>,
    renewed: Arc<Notify>,
) -> Result<StreamableHttpClientTransport<Http>, String> {
    let (address, custom_headers) = address(url, headers)?;
    let client = client_builder(&address, ca_file)?
        .redirect(redirect::Policy::custom(within))
        // A kept connection costs some servers 40 ms a request (notes on MCP, 1.3).
        .pool_max_idle_per_host(0)
        .build()
        .map_err(|error| innermost(&error))?;
    let mut config = StreamableHttpClientTransportConfig::with_uri(url);
    config.custom_headers = custom_headers;
    let mut retries = ExponentialBackoff::default();
    (retries.max_times, retries.base_duration) = (Some(MAX_RETRIES), FIRST_PAUSE);
    config.retry_config = Arc::new(retries);
    let shared = Shared { clock, renewed, state: Mutex::default() };
    let http = Http { client, shared: Arc::new(shared) };
    Ok(StreamableHttpClientTransport::with_client(http, config))
}

/// Where the server is and what each request says besides.
///
/// # Errors
/// As for [`wire`].
pub(crate) fn address(url: &str, headers: &[(String, String)]) -> Result<(Url, Headers), String> {
    let address = Url::parse(url).map_err(|error| format!("its address is none: {error}"))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(format!("its address begins with {:?}, not with http", address.scheme()));
    }
    let mut custom_headers = HashMap::new();
    for (name, value) in headers {
        let header = HeaderName::from_bytes(name.as_bytes());
        let header = header.map_err(|_| format!("{name:?} cannot be the name of a header"))?;
        let mut value = HeaderValue::from_str(value)
            .map_err(|_| format!("the value of the header {name} has bytes that none can have"))?;
        value.set_sensitive(true);
        custom_headers.insert(header, value);
    }
    Ok((address, custom_headers))
}

/// Follows a server to another path of its own, with method and body, and nowhere else: the headers may
/// hold keys.
fn within(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps_method = matches!(attempt.status().as_u16(), 307 | 308);
    let same =
        attempt.previous().first().is_some_and(|from| from.origin() == attempt.url().origin());
    match keeps_method && same && attempt.previous().len() <= MAX_REDIRECTS {
        true => attempt.follow(),
        false => attempt.stop(),
    }
}

/// The official client over [`reqwest`], and what it lacks.
#[derive(Clone)]
pub(crate) struct Http {
    client: Client,
    shared: Arc<Shared>,
}

struct Shared {
    clock: Arc<dyn Clock>,
    renewed: Arc<Notify>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The server knows us.
    introduced: bool,
    pace: Pace,
}

/// When streams were opened.
#[derive(Default)]
struct Pace {
    last: Option<SystemTime>,
    pause: Duration,
    /// The event after which the last one went on.
    after: Option<String>,
}

impl Pace {
    /// How long to wait before a stream is opened that goes on after this event.
    fn next(&mut self, now: SystemTime, after: Option<String>) -> Duration {
        let lived = self.last.and_then(|last| now.duration_since(last).ok());
        let came_further = after.is_some() && after != self.after;
        self.pause = match lived {
            None => Duration::ZERO,
            Some(lived) if lived >= LONGEST_PAUSE || came_further => Duration::ZERO,
            Some(_) => (self.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE),
        };
        self.after = after;
        self.last = Some(now + self.pause);
        self.pause
    }
}

impl Http {
    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server has introduced itself.
    fn introduced(&self) {
        if std::mem::replace(&mut self.state().introduced, true) {
            self.shared.renewed.notify_one();
        }
    }
}

type Failure = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

impl StreamableHttpClient for Http {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let limits = StreamableHttpResponseLimits::default();
        self.post_message_with_response_limits(uri, message, session, token, headers, limits).await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, Failure> {
        let (id, introduces) = match &message {
            ClientJsonRpcMessage::Request(request) => {
                let introduces = matches!(request.request, ClientRequest::InitializeRequest(_));
                (Some(request.id.clone()), introduces)
            }
            _ => (None, false),
        };
        let in_session = session.is_some();
        let answer = self
            .client
            .post_message_with_response_limits(uri, message, session, token, headers, limits)
            .await;
        let Some(id) = id else { return answer };
        match answer {
            Ok(StreamableHttpPostResponse::Json(JsonRpcMessage::Error(error), session))
                if error.id.is_none() =>
            {
                match in_session && is_about_session(&error.error) {
                    true => Err(StreamableHttpError::SessionExpired),
                    false => Ok(in_its_place(error.error, id, session)),
                }
            }
            Ok(StreamableHttpPostResponse::Sse(events, session)) => {
                if introduces {
                    self.introduced();
                }
                let events = events.map(move |event| event.map(|event| with_id(event, &id)));
                Ok(StreamableHttpPostResponse::Sse(events.boxed(), session))
            }
            Ok(answer) => {
                if introduces {
                    self.introduced();
                }
                Ok(answer)
            }
            Err(StreamableHttpError::SessionExpired) => Err(StreamableHttpError::SessionExpired),
            Err(error) => Ok(in_its_place(fault(&error), id, None)),
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<(), Failure> {
        self.client.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        after: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Failure> {
        let limit = StreamableHttpResponseLimits::default().max_sse_event_size;
        self.get_stream_with_max_sse_event_size(uri, session, after, token, headers, limit).await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        after: Option<String>,
        token: Option<String>,
        headers: Headers,
        limit: usize,
    ) -> Result<Events, Failure> {
        let clock = &self.shared.clock;
        let pause = self.state().pace.next(clock.now(), after.clone());
        if !pause.is_zero() {
            clock.sleep(pause).await;
        }
        self.client
            .get_stream_with_max_sse_event_size(uri, session, after, token, headers, limit)
            .await
    }
}

fn in_its_place(
    error: ErrorData,
    id: RequestId,
    session: Option<String>,
) -> StreamableHttpPostResponse {
    StreamableHttpPostResponse::Json(ServerJsonRpcMessage::error(error, Some(id)), session)
}

/// Servers that keep sessions refuse an unknown one in words of their own, before they do anything.
fn is_about_session(error: &ErrorData) -> bool {
    error.message.to_lowercase().contains("session")
}

/// An error without an id would be waited for behind this for ever.
fn with_id(mut event: Sse, id: &RequestId) -> Sse {
    let Some(data) = &event.data else { return event };
    // Most are results; they are not read twice.
    if !data.contains("\"error\"") {
        return event;
    }
    let Ok(Value::Object(mut message)) = serde_json::from_str(data) else { return event };
    let is_error = message.contains_key("error") && !message.contains_key("method");
    if is_error && message.get("id").is_none_or(Value::is_null) {
        message.insert("id".to_owned(), id.clone().into_json_value());
        event.data = Some(Value::Object(message).to_string());
    }
    event
}

/// What became of a request that was not answered as it should have been. No address stands in it: that may
/// hold a key.
fn fault(error: &Failure) -> ErrorData {
    match error {
        StreamableHttpError::Client(error) if error.is_connect() || error.is_builder() => {
            Fault::Unsent.answer(format!("it cannot be reached: {}", innermost(error)))
        }
        StreamableHttpError::Client(error) => {
            Fault::Lost.answer(format!("the connection broke: {}", innermost(error)))
        }
        StreamableHttpError::AuthRequired(_) => Fault::LogIn.answer("it wants a log-in (HTTP 401)"),
        StreamableHttpError::InsufficientScope(_) => {
            Fault::Forbidden.answer("it forbids this to whoever is logged in (HTTP 403)")
        }
        StreamableHttpError::HttpStatus(error) => {
            let later = error.retry_after.as_deref();
            let later = later.map_or_else(String::new, |it| format!("; try again after {it}"));
            let text = format!("it answered HTTP {}{later}", error.status);
            match error.status {
                401 => Fault::LogIn.answer(format!("it wants a log-in: {text}")),
                403 => Fault::Forbidden.answer(format!("it forbids this: {text}")),
                // Refused at the door.
                429 | 503 => Fault::Unsent.answer(text),
                _ => Fault::Lost.answer(text),
            }
        }
        StreamableHttpError::UnexpectedServerResponse(text) => {
            // Not what comes with it: pages for people, and perhaps the key that was sent.
            let text = text.split(':').next().unwrap_or_default().trim();
            match text.strip_prefix("HTTP ").and_then(|it| it.get(..3)) {
                Some("401") => Fault::LogIn.answer(format!("it wants a log-in: {text}")),
                Some("403") => Fault::Forbidden.answer(format!("it forbids this: {text}")),
                Some(status) if status.starts_with('3') => Fault::Unsent.answer(format!(
                    "it sends its callers to another place ({text}), which is not followed: what they \
                     say may hold keys. If that place is meant, configure its address"
                )),
                Some(status) if status.starts_with('4') => {
                    Fault::Unsent.answer(format!("it refused: {text}"))
                }
                _ => Fault::Lost.answer(format!("it answered: {text}")),
            }
        }
        StreamableHttpError::UnexpectedContentType(kind) => {
            let kind = kind.as_deref().unwrap_or("something without a type");
            Fault::Lost.answer(format!("it answered {kind}, which no MCP server does"))
        }
        StreamableHttpError::ResponseBodyTooLarge { max_size } => Fault::Unreadable
            .answer(format!("the answer is longer than {max_size} bytes, which are the most")),
        error => Fault::Lost.answer(clipped(&error.to_string(), MAX_TOLD)),
    }
}
