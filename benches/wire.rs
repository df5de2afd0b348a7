//! What the model wire costs: a streamed answer, a long request and the next one, and memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bridle_model::{
    AnthropicAdapter, Assembler, Catalogue, Chunk, HttpClient, Image, ImageShelf, Images,
    ModelRequest, PrefixGuard, RequestCache, Secret, ToolSpec,
};
use bridle_session::{
    AssistantMessage, BlobHash, BlobRef, Block, Content, Draft, EventData, Header, MessageId,
    Route, Seq, Session, SessionId, SystemMessage, TimedBlock, ToolCallId, ToolResult, TurnNumber,
    TurnStart, UnixMillis, Usage, UserMessage, UserSource,
};
use serde_json::value::RawValue;

use crate::figures::{millis, say};

/// Bytes of a token, about.
const TOKEN: usize = 4;

/// Counts the bytes in use.
struct Counting;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; only a counter is added.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promised.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

pub(crate) fn run(quick: bool) {
    let start = Instant::now();
    Catalogue::builtin();
    say("the catalogue, read once at the start", millis(start.elapsed()), "");
    let runs = if quick { 5 } else { 50 };
    for route in ["anthropic/claude-opus-5-5", "deepseek/deepseek-flash"] {
        let adapter = adapter(route);
        stream(&adapter, route, runs);
        request(&adapter, route, runs);
    }
    guard();
    memory();
    images();
    client();
}

fn best<T>(runs: u32, mut run: impl FnMut() -> T) -> Duration {
    let time = |_| {
        let start = Instant::now();
        drop(run());
        start.elapsed()
    };
    (0..runs).map(time).min().unwrap()
}

fn adapter(route: &str) -> AnthropicAdapter {
    let model = Catalogue::builtin().find(&Route::parse(route).unwrap()).unwrap().clone();
    AnthropicAdapter::new(HttpClient::default(), "http://h", Secret::new("k"), model).unwrap()
}

/// From the bytes of an answer of many small deltas to the message that is stored.
fn stream(adapter: &AnthropicAdapter, route: &str, runs: u32) {
    const DELTAS: u32 = 20_000;
    let mut bytes = String::from(concat!(
        "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\"}}\n\n",
        "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,",
        "\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
    ));
    for number in 0..DELTAS {
        write!(
            bytes,
            "event: content_block_delta\ndata: {{\"type\":\"content_block_delta\",\"index\":0,\
             \"delta\":{{\"type\":\"text_delta\",\"text\":\"word {number} \"}}}}\n\n"
        )
        .unwrap();
    }
    // Pieces as the network has them.
    let pieces: Vec<&[u8]> = bytes.as_bytes().chunks(1400).collect();
    let assemble = || {
        let (chunks, failure) = adapter.replay(pieces.iter().copied());
        assert!(failure.is_none());
        let mut assembler = Assembler::new();
        chunks.iter().for_each(|chunk: &Chunk| assembler.push(chunk, UnixMillis(0)));
        assembler.finish_interrupted(UnixMillis(0))
    };
    let each = best(runs, assemble) / DELTAS;
    say(
        &format!("{route}: bytes to message, a small delta"),
        format!("{:.2} µs", each.as_secs_f64() * 1e6),
        "target 3 µs",
    );
}

/// A session with about so many tokens, of prompts, reasoning, calls and results.
fn session(tokens: usize) -> Session {
    let mut session = Session::new(Header {
        format: Header::FORMAT,
        id: SessionId::new("01234567-0123-7123-8123-0123456789ab"),
        created_at: UnixMillis(0),
        cwd: "/p".into(),
        extra_roots: Vec::new(),
        parent: None,
        origin: "bench".to_owned(),
        delegation_depth: 0,
        terms: Default::default(),
    });
    append(&mut session, TurnStart { turn: TurnNumber(1) });
    append(&mut session, SystemMessage { text: "Be brief. ".repeat(500) });
    let mut bytes = 0;
    let mut number = 0;
    while bytes < tokens * TOKEN {
        bytes += step(&mut session, number);
        number += 1;
    }
    say_user(&mut session, "And now?");
    session
}

/// One prompt, an answer with reasoning and a call, and its result; says how many bytes that is.
fn step(session: &mut Session, number: usize) -> usize {
    let text = "fn main() { println!(\"hello\"); }\n".repeat(40);
    say_user(session, &format!("Step {number}: {}", text.split_at(200).0));
    let id = ToolCallId::new(format!("toolu_{number:08}"));
    let blocks = [
        Block::Thinking { text: text.clone(), signature: Some("c2lnbmF0dXJl".repeat(20)) },
        Block::Text { text: "I read the file.".to_owned() },
        Block::ToolCall {
            id: id.clone(),
            name: "read".to_owned(),
            arguments: format!("{{\"path\": \"src/file_{number}.rs\", \"lines\": [1, 200]}}"),
        },
    ];
    let time = UnixMillis(1);
    append(
        session,
        AssistantMessage {
            id: MessageId::new(format!("a{number}")),
            blocks: blocks
                .into_iter()
                .map(|block| TimedBlock { started_at: time, ended_at: time, block, raw: None })
                .collect(),
            route: Route::parse("anthropic/claude-opus-5-5").unwrap(),
            stop: "tool-use".to_owned(),
            usage: Usage::default(),
            interrupted: false,
        },
    );
    append(
        session,
        ToolResult {
            id,
            name: "read".to_owned(),
            content: vec![Content::text(text.repeat(2))],
            error: None,
            presentation: None,
        },
    );
    text.len() * 3 + 700
}

fn say_user(session: &mut Session, text: &str) {
    let content = vec![Content::text(text)];
    let source = UserSource::Human;
    append(session, UserMessage { id: MessageId::new("u"), content, source });
}

fn append(session: &mut Session, data: impl Into<EventData>) {
    session.append(Draft::new(data), UnixMillis(1)).unwrap();
}

fn tools() -> Arc<[ToolSpec]> {
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}},"required":["path"]}"#;
    let tool = |number| ToolSpec {
        name: format!("tool_{number}"),
        description: "Does a thing, as described at length. ".repeat(10),
        input_schema: RawValue::from_string(schema.to_owned()).unwrap(),
    };
    (0..30).map(tool).collect()
}

fn built(session: &Session, tools: &Arc<[ToolSpec]>, cache: &RequestCache) -> ModelRequest {
    ModelRequest::new(session.projection(), Arc::clone(tools), None, Seq(0)).with_cache(cache)
}

fn request(adapter: &AnthropicAdapter, route: &str, runs: u32) {
    let tools = tools();
    let mut session = session(200_000);
    let first =
        best(runs, || adapter.body(&built(&session, &tools, &RequestCache::default())).unwrap());
    let size = adapter.body(&built(&session, &tools, &RequestCache::default())).unwrap().len();
    say(
        &format!("{route}: a request of {:.1} MB (200,000 tokens)", size as f64 / 1e6),
        millis(first),
        "target 20 ms",
    );
    let cache = RequestCache::default();
    let mut next = Duration::MAX;
    adapter.body(&built(&session, &tools, &cache)).unwrap();
    for number in 0..runs {
        step(&mut session, number as usize + 1_000_000);
        next = next.min(best(1, || adapter.body(&built(&session, &tools, &cache)).unwrap()));
    }
    say(&format!("{route}: the next one, a step longer"), millis(next), "a fraction of it");
}

/// The check of every request against the one before it.
fn guard() {
    let tools = tools();
    let mut session = session(0);
    for number in 0..3_400 {
        step(&mut session, number);
    }
    let mut guard = PrefixGuard::new();
    guard.follow(&built(&session, &tools, &RequestCache::default()));
    let turn = best(20, || guard.follow(&built(&session, &tools, &RequestCache::default())));
    let what = format!("prefix guard, a turn in {} events", session.events().len());
    say(&what, format!("{:.0} µs", turn.as_secs_f64() * 1e6), "target 1 ms");
}

/// What a session of 200,000 tokens holds, with all that is kept to build its requests.
fn memory() {
    let adapter = adapter("anthropic/claude-opus-5-5");
    let tools = tools();
    let before = IN_USE.load(Relaxed);
    let session = session(200_000);
    let alone = IN_USE.load(Relaxed) - before;
    let cache = RequestCache::default();
    let mut guard = PrefixGuard::new();
    let request = built(&session, &tools, &cache);
    guard.follow(&request);
    drop(adapter.body(&request).unwrap());
    drop(request);
    let whole = IN_USE.load(Relaxed) - before;
    let log: usize = session.events().iter().map(|event| event.to_line().unwrap().len() + 1).sum();
    let times = |bytes: usize| format!("{:.2} x", bytes as f64 / log as f64);
    say("memory of a session, of its decoded log", times(alone), "");
    say("with what its requests are built from", times(whole), "target 2.5 x");
}

/// A request that shows as many bytes of images as a route takes, and the next one.
fn images() {
    const EACH: usize = 3 << 20;
    let adapter = adapter("anthropic/claude-opus-5-5");
    let limits = Catalogue::builtin().find(&Route::parse("anthropic/claude-opus-5-5").unwrap());
    let limits = limits.unwrap().image_limits().unwrap();
    let (tools, mut session, mut shelf) = (tools(), session(0), ImageShelf::default());
    let mut file = b"GIF89a\x02\0\x03\0\0\0\0".to_vec();
    file.resize(EACH, 7);
    for number in 0..limits.total_bytes / (EACH as u64 * 4 / 3) {
        let hash = BlobHash::of_digest(&[number as u8; 32]);
        shelf.put(hash.clone(), Image::read(&file));
        let blob = BlobRef { hash, bytes: EACH as u64 };
        let content = vec![Content::Image { blob, mime_type: "image/gif".to_owned() }];
        let (id, source) = (MessageId::new("i"), UserSource::Human);
        append(&mut session, UserMessage { id, content, source });
        step(&mut session, number as usize);
    }
    say_user(&mut session, "And now?");
    let cache = RequestCache::default();
    let body = |session: &Session| {
        let projection = session.projection();
        let images = Images::select(&projection, Seq(0), Some(&limits), &shelf);
        assert!(images.missing().is_empty());
        adapter.body(&built(session, &tools, &cache).with_images(images)).unwrap()
    };
    let mut size = 0;
    let first = best(1, || size = body(&session).len());
    say(&format!("a request with {:.1} MB of images", size as f64 / 1e6), millis(first), "");
    step(&mut session, 1_000);
    say("the next one, a step longer", millis(best(1, || body(&session))), "");
}

/// Building the HTTP client, with root certificates, on a thread of its own.
fn client() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for (what, url) in [("on this machine", "http://127.0.0.1:1"), ("elsewhere", "https://h")] {
        let start = Instant::now();
        runtime.block_on(HttpClient::default().warm(url)).unwrap();
        say(&format!("first HTTP client, for a provider {what}"), millis(start.elapsed()), "");
    }
}
