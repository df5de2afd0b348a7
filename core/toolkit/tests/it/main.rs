//! Tools in the scopes of sessions: their rows, their files, and the processes that they start.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod editor;
mod jobs;
mod rig;
mod rows;
mod shell;
