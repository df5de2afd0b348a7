#![no_main]
//! The events of a stream do not depend on how the network cut it.

libfuzzer_sys::fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = bridle_model::fuzz_sse(bytes, bytes.len());
    assert_eq!(bridle_model::fuzz_sse(bytes, usize::from(size)), whole);
});
