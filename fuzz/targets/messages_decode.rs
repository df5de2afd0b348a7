#![no_main]
//! Any bytes as an answer's stream: the message does not depend on how the network cut them, and
//! whatever is assembled can be sent back.

use bridle_model::{AnthropicAdapter, Assembler, Catalogue, Chunk, HttpClient, Secret};
use bridle_session::{Route, UnixMillis};

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let route = Route::parse("anthropic/claude-opus-5-5").expect("a route");
    let model = Catalogue::builtin().find(&route).expect("a model").clone();
    let adapter = AnthropicAdapter::new(HttpClient::default(), "http://h", Secret::new("k"), model)
        .expect("an adapter");
    let whole = adapter.replay([bytes]);
    let pieces = adapter.replay(bytes.chunks(usize::from(size).max(1)));
    assert_eq!(format!("{pieces:?}"), format!("{whole:?}"));
    let (chunks, failure) = whole;
    let mut assembler = Assembler::new();
    let mut taken = 0;
    for chunk in &chunks {
        assembler.push(chunk, UnixMillis(0));
        taken += assembler.take_fresh(UnixMillis(0)).blocks.len();
    }
    assert!(taken <= chunks.len(), "more was taken than came");
    let is_whole = matches!(chunks.last(), Some(Chunk::Stop(_)));
    assert!(!(is_whole && failure.is_some()), "a whole answer failed");
    let answer =
        if is_whole { assembler.finish() } else { assembler.finish_interrupted(UnixMillis(0)) };
    for timed in &answer.blocks {
        serde_json::to_string(timed).expect("a block is stored");
    }
});
