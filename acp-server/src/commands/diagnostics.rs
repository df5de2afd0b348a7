//! Tracing for whoever debugs Bridle: off unless asked for, and never on standard output.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// Starts writing to standard error when `BRIDLE_LOG` holds a filter such as `debug` or
/// `bridle_agent=trace`.
pub(super) fn start(filter: Option<&str>) {
    let Some(filter) = filter else { return };
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::WARN.into())
        .parse(filter)
        .unwrap_or_else(|error| {
            super::say(format_args!("bridle: BRIDLE_LOG: {error}; warnings are shown"));
            EnvFilter::new("warn")
        });
    // It writes what servers say, which may be anything; what matters of it the bridge tells.
    let filter = match "rmcp=off".parse() {
        Ok(quiet) => filter.add_directive(quiet),
        Err(_) => filter,
    };
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
}
