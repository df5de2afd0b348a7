//! Every way in which a call ends without an answer.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use tokio::sync::oneshot;

use super::clock::ManualClock;
use super::*;
use crate::behaviour::server::wait_closed;

async fn failure_of(answer: impl Into<Vec<u8>>) -> ModelFailure {
    let server = answering(answer);
    let failure = collect(start(&server.url, &CancellationToken::new())).await.unwrap_err();
    for text in [format!("{failure}"), format!("{failure:?}")] {
        assert!(!text.contains("MARKER"), "the key shows in {text}");
        assert!(!text.contains(|letter: char| letter.is_control()), "{text:?}");
    }
    failure
}

/// An error response with a JSON body of the provider's form.
fn refusal(status: &str, headers: &str, kind: &str, message: &str) -> String {
    let error = serde_json::json!({"type": kind, "message": message});
    let body = serde_json::json!({"type": "error", "error": error, "request_id": "req_body"});
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{headers}\r\n{body}")
}

fn streamed(events: &str) -> String {
    format!("{STREAM_HEAD}{events}")
}

#[tokio::test]
async fn every_status_has_its_code() {
    use FailureCode::*;
    let invalid = "invalid_request_error";
    for (status, kind, message, code) in [
        ("400 X", invalid, "messages: something", InvalidRequest),
        ("400 X", invalid, "prompt is too long: 1000001 tokens > 1000000 maximum", ContextOverflow),
        ("400 X", invalid, "This exceeds the available context size", ContextOverflow),
        ("400 X", invalid, "Your credit balance is too low", Billing),
        ("400 X", invalid, "Model Not Exist", UnknownModel),
        ("400 X", "api_error", "a failure that calls itself a refusal", InvalidRequest),
        ("400 X", "overloaded_error", "prompt is too long", ContextOverflow),
        ("401 X", "authentication_error", "invalid x-api-key", Auth),
        ("402 X", "billing_error", "no balance", Billing),
        ("403 X", "permission_error", "not yours", Auth),
        ("404 X", "not_found_error", "model: nope", UnknownModel),
        ("408 X", "timeout_error", "slow", Server),
        ("413 X", "request_too_large", "too large", ContextOverflow),
        ("422 X", "", "what", InvalidRequest),
        ("422 X", "timeout_error", "what", InvalidRequest),
        ("425 X", "api_error", "early", Server),
        ("429 X", "rate_limit_error", "slow down", RateLimited),
        ("500 X", "api_error", "oops", Server),
        ("503 X", "", "busy", Overloaded),
        ("504 X", "timeout_error", "gateway", Server),
        ("529 X", "overloaded_error", "Overloaded", Overloaded),
        ("200 X", "overloaded_error", "an error that calls itself a success", Overloaded),
        ("302 X", "", "elsewhere", InvalidRequest),
    ] {
        let failure = failure_of(refusal(status, "", kind, message)).await;
        assert_eq!(failure.code, code, "{status} {kind} {message}");
        assert_eq!(failure.status.unwrap().to_string(), status.trim_end_matches(" X"));
        assert_eq!(failure.request_id.as_deref(), Some("req_body"));
        assert!(failure.message.contains(message), "{}", failure.message);
    }
}

/// What is wrong with the images of a request, in the words of those who refuse them.
#[tokio::test]
async fn refusals_of_images_are_told_apart() {
    use crate::RefusedImages::*;
    let invalid = "invalid_request_error";
    let many = |most| Some(Many { most });
    for (status, kind, message, refused) in [
        ("400 X", invalid, "Too much media: 0 document pages + 103 images > 100", many(Some(100))),
        ("400 X", invalid, "too many images and documents: 120 + 0 > 100", many(Some(100))),
        ("400 X", "", "At most 5 image(s) may be provided in one request.", many(Some(5))),
        ("400 X", "", "Too many images in request. Max is 10.", many(Some(10))),
        (
            "400 X",
            invalid,
            "messages.19.content.27.image.source.base64.data: At least one of the image dimensions \
             exceed max allowed size for many-image requests: 2000 pixels",
            many(None),
        ),
        (
            "400 X",
            invalid,
            "messages.3.content.1.image.source.base64: image exceeds 5 MB maximum: 5485884 bytes > \
             5242880 bytes",
            Some(One),
        ),
        ("400 X", invalid, "messages.0.content.1.image: Could not process image", Some(One)),
        ("413 X", "request_too_large", "Request exceeds the maximum size", Some(Bytes)),
        ("400 X", invalid, "prompt is too long: 1000001 tokens > 1000000 maximum", None),
        ("400 X", invalid, "too many tools: 200 > 128", None),
        ("500 X", "api_error", "too many images", None),
    ] {
        let failure = failure_of(refusal(status, "", kind, message)).await;
        assert_eq!(failure.refused_images, refused, "{message}");
    }
}

#[tokio::test]
async fn hints_on_when_to_retry_are_read() {
    let soon = SystemTime::now() + Duration::from_secs(3600);
    let date = format!("retry-after: {}\r\n", httpdate::fmt_http_date(soon));
    let past = "retry-after: Wed, 21 Oct 2015 07:28:00 GMT\r\n";
    let wait = async |headers: &str| {
        failure_of(refusal("429 X", headers, "rate_limit_error", "x")).await.retry_after
    };
    assert_eq!(wait("").await, None);
    assert_eq!(wait("retry-after: 3\r\n").await, Some(Duration::from_secs(3)));
    assert_eq!(wait("retry-after: 0.5\r\n").await, Some(Duration::from_millis(500)));
    let both = "retry-after: 3\r\nretry-after-ms: 250\r\n";
    assert_eq!(wait(both).await, Some(Duration::from_millis(250)));
    assert_eq!(wait("retry-after: soon\r\n").await, None);
    assert_eq!(wait("retry-after: -1\r\n").await, None);
    assert_eq!(wait(past).await, Some(Duration::ZERO));
    let until = wait(&date).await.unwrap();
    assert!(until <= Duration::from_secs(3600) && until > Duration::from_secs(60), "{until:?}");
}

#[tokio::test]
async fn a_person_reads_how_long_the_provider_asks_to_wait() {
    for (seconds, words) in [("0.5", "1 s"), ("60", "60 s"), ("600", "10 min"), ("99999", "28 h")] {
        let headers = format!("retry-after: {seconds}\r\n");
        let failure = failure_of(refusal("429 X", &headers, "rate_limit_error", "x")).await;
        let expected =
            format!("anthropic limits the rate of requests (HTTP 429): x; it asks to wait {words}");
        assert_eq!(failure.message, expected);
    }
    let failure = failure_of(refusal("429 X", "retry-after: 0\r\n", "", "x")).await;
    assert!(failure.message.ends_with(": x"), "{failure}");
}

#[tokio::test]
async fn the_providers_word_on_retrying_beats_the_status() {
    for (status, word, code) in [
        ("429 X", "false", FailureCode::Billing),
        ("500 X", "false", FailureCode::InvalidRequest),
        ("400 X", "true", FailureCode::Server),
        ("429 X", "true", FailureCode::RateLimited),
    ] {
        let headers = format!("x-should-retry: {word}\r\n");
        assert_eq!(failure_of(refusal(status, &headers, "", "x")).await.code, code, "{status}");
    }
}

#[tokio::test]
async fn a_providers_message_is_made_fit_to_be_shown() {
    let long = "long ".repeat(1000);
    let echo = format!("bad\r\nkey\u{1b}[31m \u{202e}{KEY} {long}");
    let failure = failure_of(refusal("401 X", "request-id: r 1\r\n", "", &echo)).await;
    assert!(failure.message.contains("bad key [31m [key] long"), "{}", failure.message);
    assert!(failure.message.chars().count() < 400);
    assert_eq!(failure.request_id.as_deref(), Some("r1"));

    let page = "HTTP/1.1 503 X\r\ncontent-type: text/html\r\n\r\n<html>down</html>";
    assert_eq!(failure_of(page).await.message, "anthropic is overloaded (HTTP 503)");
}

#[tokio::test]
async fn a_success_that_is_no_stream_is_malformed() {
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<html>log in</html>",
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{\"type\":\"message\"}",
        "HTTP/1.1 200 OK\r\n\r\nevent: message_start\ndata: garbage\n\n",
    ] {
        assert_eq!(failure_of(answer).await.code, FailureCode::MalformedResponse, "{answer}");
    }
}

#[tokio::test]
async fn an_error_in_the_stream_ends_it_after_what_came_before() {
    let begun = HELLO.split_inclusive("\n\n").take(4).collect::<String>();
    let error = |kind: &str| {
        let error = serde_json::json!({"type": kind, "message": "mid-stream"});
        let event = serde_json::json!({"type": "error", "error": error});
        streamed(&format!("{begun}event: error\ndata: {event}\n\n"))
    };
    for (kind, code) in [
        ("overloaded_error", FailureCode::Overloaded),
        ("rate_limit_error", FailureCode::RateLimited),
        ("api_error", FailureCode::Server),
        ("authentication_error", FailureCode::Auth),
        ("invalid_request_error", FailureCode::InvalidRequest),
        ("something_new", FailureCode::Server),
    ] {
        let failure = failure_of(error(kind)).await;
        assert_eq!(failure.code, code, "{kind}");
        assert_eq!(failure.request_id.as_deref(), Some("req_1"));
        assert!(failure.message.ends_with(": mid-stream"), "{}", failure.message);
    }
    let server = answering(error("api_error"));
    let mut stream = start(&server.url, &CancellationToken::new());
    let mut texts = Vec::new();
    while let Some(Ok(chunk)) = stream.next().await {
        texts.extend(matches!(chunk, Chunk::TextDelta { .. }).then_some(chunk));
    }
    assert_eq!(texts.len(), 1, "what came before the error is shown");
}

#[tokio::test]
async fn a_cut_stream_is_a_transport_failure_wherever_it_is_cut() {
    let events: Vec<_> = HELLO.split_inclusive("\n\n").collect();
    for kept in 0..events.len() {
        let failure = failure_of(streamed(&events[..kept].concat())).await;
        assert_eq!(failure.code, FailureCode::Transport, "after {kept} events");
    }
    let half = HELLO.split_at(HELLO.len() / 2).0;
    assert_eq!(failure_of(streamed(half)).await.code, FailureCode::Transport);
    let promised = STREAM_HEAD.replace("\r\n\r\n", "\r\ncontent-length: 9999\r\n\r\n");
    assert_eq!(failure_of(format!("{promised}{half}")).await.code, FailureCode::Transport);
    assert_eq!(failure_of("").await.code, FailureCode::Transport, "no answer at all");
    assert_eq!(failure_of("nonsense\r\n\r\n").await.code, FailureCode::Transport);
}

#[tokio::test]
async fn a_host_that_nobody_listens_on_is_named() {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://user:PASSWORD@{address}");
    let failure = collect(start(&url, &CancellationToken::new())).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Transport);
    assert!(failure.message.starts_with("127.0.0.1 could not be reached: "), "{failure}");
    assert!(!format!("{failure:?}").contains("PASSWORD"));
}

#[tokio::test]
async fn a_key_that_no_header_can_hold_is_refused_without_being_shown() {
    let key = Secret::new("MARKER\nx");
    let model = model("anthropic/claude-sonnet-5-5");
    let refused = AnthropicAdapter::new(HttpClient::default(), "http://h", key, model).unwrap_err();
    assert_eq!(refused.code, FailureCode::Auth);
    assert!(!format!("{refused:?}").contains("MARKER"));
    let adapter = adapter_with(HttpClient::default(), "http://h");
    assert!(!format!("{adapter:?}").contains("MARKER"), "{adapter:?}");
}

#[tokio::test]
async fn a_silent_stream_ends_and_a_ping_is_no_silence() {
    let (ping, pings) = mpsc::channel();
    let server = Server::start(move |listener| {
        let mut stream = accept(listener);
        read_request(&mut stream);
        stream.write_all(STREAM_HEAD.as_bytes()).unwrap();
        while pings.recv().is_ok() {
            stream.write_all(b"event: ping\ndata: {\"type\":\"ping\"}\n\n").unwrap();
        }
        wait_closed(&mut stream);
    });
    let clock = ManualClock::new();
    let http = HttpClient::new(Arc::new(clock.clone()), HttpClient::DEFAULT_IDLE);
    let mut stream = adapter_with(http, &server.url).stream(request(), CancellationToken::new());
    let script = async {
        // The client, the head of the answer, and the first read each wait once.
        clock.begun(3).await;
        for _ in 0..3 {
            ping.send(()).unwrap();
            clock.begun(1).await;
        }
        clock.end_one();
    };
    let (item, ()) = tokio::join!(stream.next(), script);
    let failure = item.unwrap().unwrap_err();
    assert_eq!(failure.code, FailureCode::Silent);
    assert_eq!(failure.message, "the provider was silent for 180 s");
    drop((stream, ping));
    server.join().await;
}

/// Cancels when the server has sent `answer`, of which nothing more will come, and the client has
/// begun `waits` waits; sees the connection closed.
async fn cancel_in_wait(waits: u32, answer: String) -> ModelFailure {
    let (sent, was_sent) = oneshot::channel();
    let server = Server::start(move |listener| {
        let mut stream: TcpStream = accept(listener);
        read_request(&mut stream);
        stream.write_all(answer.as_bytes()).unwrap();
        sent.send(()).unwrap();
        wait_closed(&mut stream);
    });
    let clock = ManualClock::new();
    let http = HttpClient::new(Arc::new(clock.clone()), HttpClient::DEFAULT_IDLE);
    let token = CancellationToken::new();
    let stream = adapter_with(http, &server.url).stream(request(), token.clone());
    let cancel = async {
        was_sent.await.unwrap();
        clock.begun(waits).await;
        token.cancel();
    };
    let (result, ()) = tokio::join!(collect(stream), cancel);
    server.join().await;
    result.unwrap_err()
}

#[tokio::test]
async fn cancelling_ends_the_call_in_every_phase_and_closes_the_connection() {
    let silent_stream = streamed(HELLO.split_at(HELLO.len() / 2).0);
    let error_body = "HTTP/1.1 500 X\r\ncontent-length: 999\r\n\r\n{".to_owned();
    // The client and the head of the answer wait once each, then every read.
    for (waits, answer) in [(2, String::new()), (4, silent_stream), (4, error_body)] {
        let failure = cancel_in_wait(waits, answer).await;
        assert_eq!(failure.code, FailureCode::Cancelled);
    }
}

#[tokio::test]
async fn a_cancelled_call_opens_no_connection_and_shows_no_more_chunks() {
    let token = CancellationToken::new();
    token.cancel();
    let failure = collect(start("http://127.0.0.1:9", &token)).await.unwrap_err();
    assert_eq!(failure.code, FailureCode::Cancelled);

    let server = answering(streamed(HELLO));
    let token = CancellationToken::new();
    let mut stream = start(&server.url, &token);
    assert!(stream.next().await.unwrap().is_ok());
    token.cancel();
    assert_eq!(stream.next().await.unwrap().unwrap_err().code, FailureCode::Cancelled);
    assert!(stream.next().await.is_none());
}
