//! The bar of long work: on standard error, and only where that is a terminal.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often a sign of life moves.
const TICK: Duration = Duration::from_millis(120);

/// A bar over `steps` steps; `doing` says what they are.
pub(super) fn bar(doing: &'static str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}");
    let bar = ProgressBar::new(steps as u64).with_message(doing);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// A sign of life of work whose length is not known.
pub(super) fn spinner(doing: &'static str) -> ProgressBar {
    let spinner = ProgressBar::new_spinner().with_message(doing);
    spinner.enable_steady_tick(TICK);
    spinner
}
