//! The end-to-end suites: one binary, one module per subject. Each test starts the real program
//! in a throw-away place and looks at the protocol, the files and the process table only. `tidy`
//! and `faults` look at the repository instead.

// A broken expectation must end the test; what a randomised test did is printed.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
#![allow(clippy::print_stdout, clippy::print_stderr)]

mod auth;
mod buffers;
mod cancels;
mod choosing;
mod commands;
mod compaction;
mod conformance;
mod conversation;
mod credentials;
mod disk_faults;
mod disks;
mod editors;
mod endings;
mod failures;
mod faults;
mod figures;
mod hostile;
mod image;
mod input;
mod interop;
mod jobs;
mod kills;
mod kinds;
mod live_output;
mod load;
mod lsp;
mod lsp_commands;
mod lsp_direct;
mod lsp_real;
mod mcp;
mod models;
mod money;
mod outputs;
mod permissions;
mod pictures;
mod power_cuts;
mod prompts;
mod repeats;
mod repository;
mod restarts;
mod rules;
mod sandbox;
mod scene;
mod schema;
mod secrets;
mod sessions_commands;
mod shells;
mod skills;
mod soak;
mod spill;
mod starts;
mod store_process;
mod terminals;
mod tidy;
mod tls;
mod transcripts;
mod trees;
mod turns;
mod windows;
mod withdrawals;
