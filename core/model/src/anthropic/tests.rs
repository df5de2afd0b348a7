//! The adapter over real loopback HTTP.

mod admissible;
mod clock;
mod failing;
mod replaced;
mod strict;
mod suite;

use std::io::Write as _;
use std::sync::{Arc, mpsc};

use bridle_session::{
    Content, Draft, Header, MessageId, Route, Seq, Session, SessionId, SystemMessage, TurnNumber,
    TurnStart, UnixMillis, UserMessage, UserSource,
};
use futures::stream::BoxStream;

use self::clock::ManualClock;
use super::*;
use crate::behaviour::server::{Request, STREAM_HEAD, Server, accept, answering, read_request};
use crate::{Assembler, Catalogue, StopReason};

const KEY: &str = "sk-ant-MARKER-0123456789";

const HELLO: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"msg_1\",",
    "\"usage\":{\"input_tokens\":7,\"output_tokens\":1}}}\n\n",
    "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
    "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n",
    "event: ping\ndata: {\"type\":\"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,",
    "\"delta\":{\"type\":\"text_delta\",\"text\":\"Hello\"}}\n\n",
    "event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":",
    "\"end_turn\"},\"usage\":{\"output_tokens\":5}}\n\n",
    "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
);

fn session() -> Session {
    let header = Header {
        format: Header::FORMAT,
        id: SessionId::new("01234567-0123-7123-8123-0123456789ab"),
        created_at: UnixMillis(0),
        cwd: "/p".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "test".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    };
    Session::new(header)
}

fn request() -> ModelRequest {
    let mut session = session();
    let user = UserMessage {
        id: MessageId::new("m1"),
        content: vec![Content::text("Hi")],
        source: UserSource::Human,
    };
    for draft in [
        Draft::new(TurnStart { turn: TurnNumber(1) }),
        Draft::new(SystemMessage { text: "Be brief.".to_owned() }),
        Draft::new(user),
    ] {
        session.append(draft, UnixMillis(1)).unwrap();
    }
    ModelRequest::new(session.projection(), Arc::from([]), None, Seq(0))
}

fn model(route: &str) -> CatalogueModel {
    let route = Route::parse(route).unwrap();
    Catalogue::builtin().find(&route).cloned().or(Catalogue::builtin().assume(&route)).unwrap()
}

fn adapter_with(http: HttpClient, url: &str) -> AnthropicAdapter {
    let model = model("anthropic/claude-sonnet-5-5");
    AnthropicAdapter::new(http, url, Secret::new(KEY), model).unwrap()
}

fn start(url: &str, token: &CancellationToken) -> BoxStream<'static, Result<Chunk, ModelFailure>> {
    adapter_with(HttpClient::default(), url).stream(request(), token.clone())
}

/// Everything until the end; asserts that nothing follows a stop or a failure.
async fn collect(
    mut stream: BoxStream<'static, Result<Chunk, ModelFailure>>,
) -> Result<Vec<Chunk>, ModelFailure> {
    let mut chunks = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "something follows {failure:?}");
                return Err(failure);
            }
        }
    }
    assert!(matches!(chunks.last(), Some(Chunk::Stop(_))), "{chunks:?}");
    Ok(chunks)
}

#[tokio::test]
async fn a_prompt_is_sent_and_its_answer_streams() {
    let server = answering(format!("{STREAM_HEAD}{HELLO}"));
    let chunks = collect(start(&server.url, &CancellationToken::new())).await.unwrap();
    let mut assembler = Assembler::new();
    chunks.iter().for_each(|chunk| assembler.push(chunk, UnixMillis(2)));
    let answer = assembler.finish();
    let blocks = serde_json::to_string(&answer.blocks).unwrap();
    assert!(blocks.contains(r#"{"type":"text","text":"Hello"}"#), "{blocks}");
    assert_eq!(answer.stop, Some(StopReason::EndTurn));
    assert_eq!((answer.usage.input, answer.usage.output), (7, 5));

    let Request { head, body } = server.join().await;
    assert!(head.starts_with("post /v1/messages http/1.1\r\n"), "{head}");
    for line in [
        "anthropic-version: 2023-06-01",
        "accept: text/event-stream",
        "content-type: application/json",
        concat!("user-agent: bridle/", env!("CARGO_PKG_VERSION")),
        &format!("x-api-key: {}", KEY.to_lowercase()),
    ] {
        assert!(head.lines().any(|header| header == line), "{line} is missing in {head}");
    }
    expect_test::expect![[r#"{"model":"claude-sonnet-5-5","max_tokens":128000,"stream":true,"thinking":{"type":"adaptive","display":"summarized"},"cache_control":{"type":"ephemeral"},"system":[{"type":"text","text":"Be brief.","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":[{"type":"text","text":"Hi"}]}]}"#]].assert_eq(&body);
}

#[test]
fn the_address_is_found_from_every_usual_form_of_a_base() {
    for (base, expected) in [
        ("https://api.anthropic.com", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1", "https://api.anthropic.com/v1/messages"),
        ("https://api.anthropic.com/v1/", "https://api.anthropic.com/v1/messages"),
        ("https://api.deepseek.com/anthropic", "https://api.deepseek.com/anthropic/v1/messages"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080/v1/messages"),
    ] {
        assert_eq!(endpoint(base).unwrap().as_str(), expected);
    }
    for base in ["", "api.anthropic.com", "file:///etc/passwd", "ftp://host"] {
        assert_eq!(endpoint(base).unwrap_err().code, FailureCode::InvalidRequest, "{base}");
    }
}

#[tokio::test]
async fn the_next_request_uses_the_same_connection_although_the_body_ends_after_the_answer() {
    let (end, ends) = mpsc::channel();
    let server = Server::start(move |listener| {
        let mut stream = accept(listener);
        let head = STREAM_HEAD.replace("\r\n\r\n", "\r\ntransfer-encoding: chunked\r\n\r\n");
        let answer = format!("{head}{:x}\r\n{HELLO}\r\n", HELLO.len());
        for _ in 0..2 {
            // A client that came with a new connection would not be heard here.
            read_request(&mut stream);
            stream.write_all(answer.as_bytes()).unwrap();
            ends.recv().unwrap();
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
    });
    let clock = ManualClock::new();
    let adapter = adapter_with(
        HttpClient::new(Arc::new(clock.clone()), HttpClient::DEFAULT_IDLE),
        &server.url,
    );
    for _ in 0..2 {
        let mut stream = adapter.stream(request(), CancellationToken::new());
        let stop = async { while !matches!(stream.next().await, Some(Ok(Chunk::Stop(_)))) {} };
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            biased;
            // The client, the head, the answer and the end of the body each wait once.
            () = clock.begun(4) => end.send(()).unwrap(),
            () = &mut stop => panic!("the stop was shown before the connection was free"),
        }
        stop.await;
    }
    server.join().await;
}

#[tokio::test]
async fn an_answer_in_any_number_of_pieces_is_the_same_answer() {
    let server = Server::start(|listener| {
        let mut stream = accept(listener);
        read_request(&mut stream);
        stream.write_all(STREAM_HEAD.as_bytes()).unwrap();
        for byte in HELLO.bytes() {
            stream.write_all(&[byte]).unwrap();
        }
    });
    let chunks = collect(start(&server.url, &CancellationToken::new())).await.unwrap();
    assert_eq!(chunks.len(), 6, "{chunks:?}");
    server.join().await;
}
