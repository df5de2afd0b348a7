#![no_main]
//! Any line from a client is judged and repaired without a panic, and stays one JSON line.

libfuzzer_sys::fuzz_target!(|line: &[u8]| {
    if let Some(line) = bridle::acp::fuzz_line(line) {
        assert!(!line.contains('\n'), "one line stays one line");
    }
});
