//! What every adapter must do, whatever its wire: one suite, generic over a [`Harness`].
//!
//! A new wire brings recordings of the same answers in its own form and a way to make an adapter;
//! it adds no test of what is here.

pub(crate) mod server;

use std::io::Write as _;

use bridle_session::UnixMillis;
use expect_test::expect_file;
use futures::StreamExt as _;
use tokio_util::sync::CancellationToken;

use self::server::{Server, accept, answering, read_request};
use crate::{
    Assembled, Assembler, Chunk, FailureCode, HttpClient, ModelAdapter, ModelFailure, ModelRequest,
};

/// The answers that a wire may have. What is assembled of each, in neutral words, is in
/// `fixtures/outlines`.
const SHAPES: [&str; 16] = [
    "interleaved",
    "parallel",
    "error",
    "refusal",
    "pause",
    "own_tools",
    "redacted",
    "empty_thinking",
    "usage_only",
    "unknown",
    "context_full",
    "cut_arguments",
    "missing_ids",
    "unicode",
    "empty",
    "contradiction",
];

/// Whether the answer ends as answers should.
fn is_whole(shape: &str) -> bool {
    !matches!(shape, "error" | "contradiction")
}

/// One wire, as far as the suite needs it.
pub(crate) trait Harness {
    /// An adapter that asks at `url`, with `http`.
    fn adapter(&self, http: HttpClient, url: &str) -> Box<dyn ModelAdapter>;

    /// The recording of an answer; `None` when the wire has no such answer.
    fn recording(&self, shape: &str) -> Option<Vec<u8>>;

    /// Reads a recording that arrives in `pieces`.
    fn replay(&self, pieces: &[&[u8]]) -> (Vec<Chunk>, Option<ModelFailure>);

    /// The body of an error response of this kind, with a message.
    fn error_body(&self, kind: ErrorKind, message: &str) -> String;

    /// A request for the next answer of a small conversation.
    fn request(&self) -> ModelRequest;
}

/// The kinds of error that every provider has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ErrorKind {
    Invalid,
    Auth,
    RateLimit,
    Overloaded,
    Server,
}

/// Runs the whole suite.
pub(crate) async fn passes(harness: &impl Harness) {
    for shape in SHAPES {
        let Some(recording) = harness.recording(shape) else {
            println!("the wire has no answer of the shape {shape}");
            continue;
        };
        reads(harness, shape, &recording);
        any_cutting_is_the_same(harness, shape, &recording);
        any_end_is_an_end(harness, shape, &recording);
        arrives(harness, shape, recording).await;
    }
    errors_have_their_codes(harness).await;
    a_cancelled_call_says_so(harness).await;
}

/// The neutral outline of what came: blocks, why it ended, and what it cost.
fn outline(chunks: &[Chunk], failure: Option<&ModelFailure>) -> String {
    let mut assembler = Assembler::new();
    chunks.iter().for_each(|chunk| assembler.push(chunk, UnixMillis(0)));
    let is_whole = matches!(chunks.last(), Some(Chunk::Stop(_)));
    let Assembled { blocks, stop, refusal, usage } =
        if is_whole { assembler.finish() } else { assembler.finish_interrupted(UnixMillis(0)) };
    let mut lines = Vec::new();
    for timed in &blocks {
        lines.push(serde_json::to_string(&timed.block).unwrap());
        lines.extend(timed.raw.as_ref().map(|raw| format!("  raw {}", raw.json())));
    }
    lines.extend(refusal.map(|refusal| {
        let text = |word: Option<String>| word.unwrap_or_default();
        format!("refused: {} {}", text(refusal.category), text(refusal.explanation))
    }));
    let end = match (stop, failure) {
        (Some(stop), None) => stop.as_str(),
        (_, Some(failure)) => failure.code.as_str(),
        (None, None) => "unfinished",
    };
    let (read, written) = (usage.cache_read, usage.cache_write);
    lines.push(format!("{end}: {}+{read}+{written} in, {} out", usage.input, usage.output));
    lines.join("\n")
}

fn reads(harness: &impl Harness, shape: &str, recording: &[u8]) {
    let (chunks, failure) = harness.replay(&[recording]);
    let path = format!("{}/fixtures/outlines/{shape}.txt", env!("CARGO_MANIFEST_DIR"));
    expect_file![path].assert_eq(&outline(&chunks, failure.as_ref()));
    let ends = chunks.iter().filter(|chunk| matches!(chunk, Chunk::Stop(_))).count();
    assert_eq!(ends, usize::from(is_whole(shape)), "{}: one end", shape);
    let begun = |chunk: &&Chunk| matches!(chunk, Chunk::BlockStart { .. });
    let ended = |chunk: &&Chunk| matches!(chunk, Chunk::BlockEnd { .. });
    if is_whole(shape) {
        let count = |what: &dyn Fn(&&Chunk) -> bool| chunks.iter().filter(|c| what(c)).count();
        assert_eq!(count(&begun), count(&ended), "{}: every block ends", shape);
    }
}

fn any_cutting_is_the_same(harness: &impl Harness, shape: &str, recording: &[u8]) {
    const ROUNDS: usize = 50;
    let seed = fastrand::u64(..);
    let mut random = fastrand::Rng::with_seed(seed);
    let whole = format!("{:?}", harness.replay(&[recording]));
    let bytes: Vec<&[u8]> = recording.chunks(1).collect();
    assert_eq!(format!("{:?}", harness.replay(&bytes)), whole, "{}: byte by byte", shape);
    for round in 0..ROUNDS {
        let most = random.usize(2..200);
        let mut rest = recording;
        let mut pieces = Vec::new();
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(random.usize(0..=rest.len().min(most)));
            pieces.push(piece);
            rest = behind;
        }
        let cut = format!("{:?}", harness.replay(&pieces));
        assert_eq!(cut, whole, "{}: seed {seed}, round {round} of {ROUNDS}", shape);
    }
}

/// Wherever a stream ends, nothing is made up: what came is the beginning of what would have come.
fn any_end_is_an_end(harness: &impl Harness, shape: &str, recording: &[u8]) {
    let would = format!("{:?}", harness.replay(&[recording]).0);
    for end in 0..recording.len() {
        let (chunks, failure) = harness.replay(&[&recording[..end]]);
        let came = format!("{chunks:?}");
        let begins = would.starts_with(came.strip_suffix(']').unwrap_or_default());
        assert!(begins, "{} cut at {end}: {came}", shape);
        assert!(failure.is_none() || !is_whole(shape), "{} cut at {end}", shape);
    }
}

/// Over HTTP the same comes, and then exactly one end.
async fn arrives(harness: &impl Harness, shape: &str, recording: Vec<u8>) {
    let (chunks, failure) = harness.replay(&[&recording]);
    let server = Server::start(move |listener| {
        let mut stream = accept(listener);
        read_request(&mut stream);
        stream.write_all(server::STREAM_HEAD.as_bytes()).unwrap();
        stream.write_all(&recording).unwrap();
    });
    let (came, ended) = call(harness, &server.url, CancellationToken::new()).await;
    server.join().await;
    assert_eq!(format!("{came:?}"), format!("{chunks:?}"), "{}", shape);
    let expected = failure.map_or(FailureCode::Transport, |failure| failure.code);
    let expected = (!is_whole(shape)).then_some(expected);
    assert_eq!(ended.map(|failure| failure.code), expected, "{}", shape);
}

async fn call(
    harness: &impl Harness,
    url: &str,
    token: CancellationToken,
) -> (Vec<Chunk>, Option<ModelFailure>) {
    let adapter = harness.adapter(HttpClient::default(), url);
    let mut stream = adapter.stream(harness.request(), token);
    let mut chunks = Vec::new();
    while let Some(item) = stream.next().await {
        match item {
            Ok(chunk) => chunks.push(chunk),
            Err(failure) => {
                assert!(stream.next().await.is_none(), "something follows {failure:?}");
                return (chunks, Some(failure));
            }
        }
    }
    (chunks, None)
}

async fn errors_have_their_codes(harness: &impl Harness) {
    use ErrorKind::*;
    for (status, kind, message, code) in [
        (400, Invalid, "no", FailureCode::InvalidRequest),
        (400, Invalid, "prompt is too long: 9 tokens > 8 maximum", FailureCode::ContextOverflow),
        (401, Auth, "no", FailureCode::Auth),
        (413, Invalid, "too large", FailureCode::ContextOverflow),
        (429, RateLimit, "slow down", FailureCode::RateLimited),
        (500, Server, "oops", FailureCode::Server),
        (529, Overloaded, "busy", FailureCode::Overloaded),
    ] {
        let body = harness.error_body(kind, message);
        let answer = format!(
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nrequest-id: req_7\r\n\
             retry-after: 3\r\n\r\n{body}"
        );
        let server = answering(answer);
        let (chunks, failure) = call(harness, &server.url, CancellationToken::new()).await;
        server.join().await;
        let failure = failure.unwrap();
        assert!(chunks.is_empty());
        assert_eq!((failure.code, failure.status), (code, Some(status)), "{kind:?} {message}");
        assert_eq!(failure.request_id.as_deref(), Some("req_7"));
        assert_eq!(failure.retry_after.map(|wait| wait.as_secs()), Some(3));
        assert!(!failure.message.contains('{'), "a raw body: {failure}");
    }
}

async fn a_cancelled_call_says_so(harness: &impl Harness) {
    let token = CancellationToken::new();
    token.cancel();
    let (chunks, failure) = call(harness, "http://127.0.0.1:9", token).await;
    assert!(chunks.is_empty());
    assert_eq!(failure.unwrap().code, FailureCode::Cancelled);
}
