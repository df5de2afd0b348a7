//! How a figure is taken from many and shown.

use std::fmt::Display;
use std::time::Duration;

/// Prints one figure beside its target, which may be empty.
pub(crate) fn say(what: &str, figure: impl Display, target: &str) {
    println!("{what:<60} {figure:>40}   {target}");
}

/// A time in milliseconds.
pub(crate) fn millis(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// The middle one of some times.
pub(crate) fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
