//! The sizes that hold for a route.

use bridle_model::RouteLimits;

use super::*;

fn sizes(window: u64, max_output: u64) -> Option<Result<Sizes, String>> {
    CompactionConfig::default().sizes(RouteLimits { window, max_output })
}

fn fit(window: u64, max_output: u64) -> (u64, u64, u64) {
    let sizes = sizes(window, max_output).unwrap().unwrap();
    (sizes.trigger, sizes.tail, sizes.headroom)
}

/// The numbers of the design: min(0.8 W, W − M − H), and 0.16 (W − M).
#[test]
fn the_sizes_follow_from_window_answer_and_headroom() {
    let large = (800_000, 139_520, 16_384);
    assert_eq!(fit(1_000_000, 128_000), large);
    let answers_count = (599_616, 98_560, 16_384);
    assert_eq!(fit(1_000_000, 384_000), answers_count);
    let small = (17_000, 3_200, 3_000);
    assert_eq!(fit(24_000, 4_000), small);
}

#[test]
fn a_window_that_is_not_known_has_no_sizes() {
    assert_eq!(sizes(0, 4_000), None);
}

/// Where what stays is all that may be there, shortening would go on for ever.
#[test]
fn a_route_without_room_is_refused_with_what_to_change() {
    let error = sizes(24_000, 21_000).unwrap().unwrap_err();
    assert!(error.contains("a window of 24000 tokens"), "{error}");
    assert!(error.contains("set a smaller max_output"), "{error}");
}
