//! The scripted ACP client, and what the end-to-end suites need around it.
//!
//! [`Place`] is a throw-away workspace and home. [`Client`] starts the real binary in it, speaks
//! JSON lines with it, and keeps one ordered [`Trace`] of both directions. Nothing here speaks
//! through an ACP library or one of our crates: what the suites see is what any client would see.
//! [`Schema`] alone takes the protocol's types from its SDK, to hold what was said against them.
//! Failures panic with the whole trace, since only tests call this.

// Test support: a broken expectation must end the test, with the trace in its message.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::print_stderr)]

mod binary;
mod client;
mod limit;
mod permission;
mod place;
mod processes;
mod schema;
mod trace;
mod transcript;
mod watch;

pub use binary::binary;
pub use client::{Client, DEADLINE, Reply, RequestId};
pub use permission::Permission;
pub use place::{Launch, Place};
pub use processes::{Process, descendants, unnoticed_ends, wait_until_gone};
pub use schema::{Schema, SchemaCheck};
pub use trace::{Direction, Entry, Trace};

/// Says that a check cannot run here. `tests/run` fails when `name` is not in
/// `tests/expected-skips.txt`.
pub fn skip(name: &str, reason: &str) {
    eprintln!("SKIP {name}: {reason}");
}

/// How often a randomised or repeated check runs: `short`, or `long` under `tests/run --long`.
pub fn rounds(short: usize, long: usize) -> usize {
    if std::env::var_os("BRIDLE_LONG").is_some_and(|value| !value.is_empty()) {
        long
    } else {
        short
    }
}
