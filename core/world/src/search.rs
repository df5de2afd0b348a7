//! Search in process, with ripgrep's crates.
