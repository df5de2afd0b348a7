#![no_main]
//! Any line read as an event writes the same line again.

use bridle_session::Event;

libfuzzer_sys::fuzz_target!(|line: &str| {
    let Ok(event) = Event::from_line(line) else { return };
    let written = event.to_line().expect("what was read can be written");
    let again = Event::from_line(&written).expect("what was written can be read");
    assert_eq!(again.to_line().expect("as before"), written);
});
