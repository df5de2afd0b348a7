//! The supervisor that the tests of the tools run commands under.

use std::process::ExitCode;

fn main() -> ExitCode {
    bridle_world::supervisor::run_if_requested().unwrap_or(ExitCode::FAILURE)
}
