//! Commands, process trees and secrets against real processes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod commands;
mod login;
mod rig;
mod secrets;
mod spool;
mod trees;
