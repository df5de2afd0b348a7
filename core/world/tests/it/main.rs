//! Commands, process trees and secrets against real processes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]
#![expect(clippy::print_stdout, reason = "a check that cannot run says so")]

mod commands;
mod confined;
mod dialogue;
mod login;
mod order;
mod rig;
mod secrets;
mod spool;
mod trees;
