//! The supervisor: this binary, executed again before any runtime starts, that runs one command
//! and ends every descendant of it.

use std::process::ExitCode;

/// Runs as the supervisor when this process was started as one; `None` otherwise. Call it first
/// in `main`, before any thread exists.
pub fn run_if_requested() -> Option<ExitCode> {
    todo!()
}
