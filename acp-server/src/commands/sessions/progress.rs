//! The bar of long work: on standard error, and only where that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar over `steps` steps; `doing` says what they are.
pub(super) fn bar(doing: &'static str, steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}");
    let bar = ProgressBar::new(steps as u64).with_message(doing);
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
