//! Every kind of reply as it appears on the wire.

use std::time::Duration;

use serde_json::json;
use tokio::io::AsyncReadExt as _;

use super::client::{Conversation, HEADERS, Response, open};
use crate::{Answer, Delivery, Gate, ModelServer, Reply, Script, StopReason, Usage};

async fn served(reply: impl Into<Reply>) -> (Response, Delivery) {
    let server = ModelServer::start(Script::new().reply(reply)).await.unwrap();
    let response = Conversation::new("Hi.").send(&server).await;
    let delivery = server.wait_for_delivery(0).await;
    (response, delivery)
}

fn types(response: &Response) -> Vec<String> {
    response.events().iter().map(|event| event["type"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn an_answer_is_framed_as_the_provider_does() {
    let usage = Usage { input: Some(7), cache_read: Some(5), output: Some(9), cache_write: None };
    let answer = Answer::new().text_in(2, "Hällo").ping().tool_call("read", json!({})).usage(usage);
    let (response, delivery) = served(answer).await;
    assert!(response.is_whole && delivery == Delivery::Complete);
    assert!(response.head.contains("content-type: text/event-stream"), "{}", response.head);
    assert!(response.head.contains("request-id: req_00000000"), "{}", response.head);
    assert_eq!(
        types(&response),
        [
            "message_start",
            "content_block_start",
            "content_block_delta",
            "content_block_delta",
            "content_block_stop",
            "ping",
            "content_block_start",
            "content_block_stop",
            "message_delta",
            "message_stop",
        ]
    );
    let names = response.body.lines().filter_map(|line| line.strip_prefix("event: "));
    assert!(names.eq(types(&response)), "each event is named by its type");
    let events = response.events();
    let start = &events[0]["message"];
    assert_eq!((&start["role"], &start["stop_reason"]), (&json!("assistant"), &json!(null)));
    assert_eq!(start["usage"]["input_tokens"], 7);
    assert_eq!(start["usage"]["output_tokens"], 1);
    assert_eq!(events[3]["delta"], json!({ "type": "text_delta", "text": "lo" }));
    assert_eq!(events[6]["index"], 1);
    assert_eq!(
        events[8]["usage"],
        json!({
            "input_tokens": 7, "cache_read_input_tokens": 5, "cache_creation_input_tokens": 0,
            "output_tokens": 9,
        })
    );
    assert_eq!(events[8]["delta"]["stop_reason"], "tool_use");
}

#[tokio::test]
async fn an_answer_may_be_empty_or_stop_for_any_reason() {
    let (response, _) = served(Answer::new()).await;
    assert_eq!((response.blocks().len(), response.stop_reason()), (0, "end_turn".to_owned()));
    for stop in [
        StopReason::MaxTokens,
        StopReason::StopSequence,
        StopReason::PauseTurn,
        StopReason::ContextWindowExceeded,
    ] {
        let (response, _) = served(Answer::new().text("a").stop_reason(stop.clone())).await;
        assert_eq!(response.stop_reason(), stop.as_str());
    }
    let stop = StopReason::Refusal { category: "cyber".to_owned(), explanation: "No.".to_owned() };
    let (response, _) = served(Answer::new().stop_reason(stop)).await;
    let delta = response.events()[1]["delta"].clone();
    assert_eq!(delta["stop_details"]["category"], "cyber");
}

#[tokio::test]
async fn errors_are_worded_by_their_status() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (504, "timeout_error"),
        (529, "overloaded_error"),
    ] {
        let (response, _) = served(Reply::error(status)).await;
        assert_eq!((response.status, &response.json()["error"]["type"]), (status, &json!(kind)));
    }
    let (response, _) = served(Reply::rate_limited(Duration::from_millis(2_100))).await;
    assert!(response.head.contains("retry-after: 3\r\n"), "{}", response.head);
    let (response, _) = served(Reply::whole(503, "text/html", "<h1>Bad gateway</h1>")).await;
    assert_eq!((response.status, response.body.as_str()), (503, "<h1>Bad gateway</h1>"));
    let (response, _) = served(Reply::whole(200, "application/json", "{}")).await;
    assert_eq!((response.status, response.body.as_str()), (200, "{}"));
}

#[tokio::test]
async fn a_cut_gives_what_came_before_it_and_no_end() {
    let answer = Answer::new().text_in(5, "abcde");
    let (response, delivery) = served(answer.clone().cut_after(2)).await;
    assert!(!response.is_whole && delivery == Delivery::Cut);
    assert_eq!(response.blocks()[0]["text"], "ab");

    let whole = served(answer.clone()).await.0.body;
    for bytes in [0, 1, 100, 300, whole.len()] {
        let (response, delivery) = served(answer.clone().cut_after_bytes(bytes)).await;
        assert_eq!((response.is_whole, delivery), (false, Delivery::Cut));
        assert_eq!(Some(response.body.as_str()), whole.get(..bytes));
    }
}

#[tokio::test]
async fn a_stream_may_close_or_fail_early() {
    let answer = Answer::new().text_in(5, "abcde");
    let (response, _) = served(answer.clone().close_after(5)).await;
    assert!(response.is_whole);
    assert_eq!(types(&response).last().unwrap(), "content_block_delta");
    let (response, _) = served(answer.error_after(0, "overloaded_error", "Overloaded")).await;
    assert_eq!(types(&response), ["message_start", "error"]);
    assert_eq!(response.events()[1]["error"]["type"], "overloaded_error");
}

#[tokio::test]
async fn raw_bytes_and_small_pieces_are_sent_as_they_are() {
    let answer = Answer::new().text("é").raw("data: {oops\n\n: comment\n\n").in_pieces_of(1);
    let (response, _) = served(answer).await;
    assert!(response.body.contains("data: {oops\n\n: comment\n\n"));
    assert!(response.is_whole);
}

#[tokio::test]
async fn broken_arguments_arrive_as_they_are() {
    let (response, _) = served(Answer::new().tool_call_raw("read", "{\"path\": \"a")).await;
    let text: String = response
        .events()
        .iter()
        .filter_map(|event| event["delta"]["partial_json"].as_str().map(str::to_owned))
        .collect();
    assert_eq!(text, "{\"path\": \"a");
}

#[tokio::test]
async fn a_burst_numbers_its_deltas() {
    let (response, delivery) = served(Answer::new().burst(20_000, 16)).await;
    assert_eq!(delivery, Delivery::Complete);
    let events = response.events();
    let deltas: Vec<&str> =
        events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert_eq!(deltas.len(), 20_000);
    for (number, delta) in deltas.iter().enumerate() {
        assert_eq!(*delta, format!("{number:07} xxxxxxxx"));
    }
    let (response, _) = served(Answer::new().burst(3, 2)).await;
    assert_eq!(response.blocks()[0]["text"], "000000");
    let (response, _) = served(Answer::new().burst(100, 16).cut_after(7)).await;
    assert_eq!(response.blocks()[0]["text"].as_str().unwrap().len(), 7 * 16);
}

/// With the clock paused, only the delays of the answer can make time pass.
#[tokio::test(start_paused = true)]
async fn deltas_are_delayed() {
    let before = tokio::time::Instant::now();
    let answer = Answer::new().text_in(4, "abcd").delay(Duration::from_secs(60));
    served(answer).await;
    assert_eq!(before.elapsed().as_secs(), 240);
}

#[tokio::test]
async fn a_gate_holds_the_answer_where_it_stands() {
    let (head, middle) = (Gate::new(), Gate::new());
    let answer = Answer::new().text_in(2, "ab").hold_after(1, &middle);
    let server =
        ModelServer::start(Script::new().reply(Reply::from(answer).held(&head))).await.unwrap();
    let body = Conversation::new("Hi.").body();
    let mut stream = open(&server, "POST /v1/messages", HEADERS, &body).await;
    head.reached().await;
    assert_eq!(server.requests()[0].delivery, Delivery::Pending);
    head.open();
    middle.reached().await;
    let mut text = String::new();
    while !text.contains("text_delta") {
        assert_ne!(read_some(&mut stream, &mut text).await, 0);
    }
    assert!(!text.contains("content_block_stop"));
    middle.open();
    stream.read_to_string(&mut text).await.unwrap();
    assert!(text.contains("message_stop"));
}

#[tokio::test]
async fn a_stalled_answer_waits_for_the_client_to_go() {
    let answer = Answer::new().text_in(3, "abc").stall_after(2);
    let server = ModelServer::start(Script::new().reply(answer)).await.unwrap();
    let body = Conversation::new("Hi.").body();
    let mut stream = open(&server, "POST /v1/messages", HEADERS, &body).await;
    let mut text = String::new();
    while text.matches("text_delta").count() < 2 {
        assert_ne!(read_some(&mut stream, &mut text).await, 0);
    }
    assert_eq!(server.requests()[0].delivery, Delivery::Pending);
    drop(stream);
    assert_eq!(server.wait_for_delivery(0).await, Delivery::ClientGone { deltas: 2 });
}

#[tokio::test]
async fn a_client_that_leaves_before_the_first_byte_is_noticed() {
    let gate = Gate::new();
    let reply = Reply::from(Answer::new().text("a")).held(&gate);
    let server = ModelServer::start(Script::new().reply(reply)).await.unwrap();
    let body = Conversation::new("Hi.").body();
    let stream = open(&server, "POST /v1/messages", HEADERS, &body).await;
    gate.reached().await;
    drop(stream);
    assert_eq!(server.wait_for_delivery(0).await, Delivery::ClientGone { deltas: 0 });
}

async fn read_some(stream: &mut tokio::net::TcpStream, text: &mut String) -> usize {
    let mut buffer = [0; 4096];
    let read = stream.read(&mut buffer).await.unwrap();
    text.push_str(&String::from_utf8_lossy(&buffer[..read]));
    read
}
