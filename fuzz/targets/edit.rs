#![no_main]
//! An edit that is taken changes its match only: the ends of the file stay as they were.

libfuzzer_sys::fuzz_target!(|texts: (String, String, String, String)| {
    let (head, old, new, tail) = texts;
    let body = format!("{head}{old}{tail}");
    if let Some(after) = bridle_toolkit::fuzz_edit(&body, &old, &new) {
        assert_ne!(after, body, "an edit that changes nothing is refused");
    }
});
