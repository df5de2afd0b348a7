//! The end-to-end suites: one binary, one module per subject. Each test starts the real program
//! in a throw-away place and looks at the protocol, the files and the process table only. `tidy`
//! and `faults` look at the repository instead.

// A broken expectation must end the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod cancels;
mod commands;
mod conformance;
mod disks;
mod endings;
mod failures;
mod faults;
mod input;
mod interop;
mod kills;
mod permissions;
mod repository;
mod restarts;
mod scene;
mod secrets;
mod tidy;
mod transcripts;
mod turns;
