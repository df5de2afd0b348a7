#![no_main]
//! The head of a SKILL.md is read or refused, and what is taken of it is one visible line.

libfuzzer_sys::fuzz_target!(|text: String| {
    let text = format!("---\n{text}");
    if let Some((_, description)) = bridle_toolkit::fuzz_skill(&text) {
        assert!(!description.is_empty() && !description.contains(char::is_control));
    }
});
