//! What Bridle costs, printed beside its targets and never judged.
//!
//! `cargo bench -p bridle-benches` measures everything, `-- NAME…` some of it (composition, contexts, files,
//! sessions, spawn, turns, wire), and `-- quick` less often and with less data.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    unsafe_code,
    reason = "a program for the people who work on Bridle: it starts processes, and counts bytes"
)]

mod composition;
mod contexts;
mod figures;
mod files;
mod sessions;
mod spawn;
mod turns;
mod wire;

use std::process::ExitCode;

use bridle_world::supervisor;

/// Measures one part, quickly or well.
type Bench = fn(bool);

const BENCHES: [(&str, Bench); 7] = [
    ("wire", wire::run),
    ("composition", |_| composition::run()),
    ("turns", turns::run),
    ("sessions", sessions::run),
    ("files", files::run),
    ("contexts", contexts::run),
    ("spawn", spawn::run),
];

fn main() -> ExitCode {
    if let Some(code) = supervisor::run_if_requested() {
        return code;
    }
    // Cargo passes `--bench` too.
    let mut wanted: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let quick = wanted.iter().any(|name| name == "quick");
    wanted.retain(|name| name != "quick");
    for (name, run) in BENCHES {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("== {name}");
            run(quick);
        }
    }
    ExitCode::SUCCESS
}
