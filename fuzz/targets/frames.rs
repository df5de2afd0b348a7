#![no_main]
//! Any bytes read as a log end without a panic, and the search for later frames goes forward.

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    bridle_store::fuzz_frames(bytes);
});
