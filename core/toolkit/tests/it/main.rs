//! Tools that start processes, against real ones.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod shell;
