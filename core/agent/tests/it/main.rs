//! The driver from the outside: what a client sees and what the log keeps.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot go on must stop"
)]

mod assembly;
mod cancel;
mod compaction;
mod crashes;
mod explorer;
mod hooks;
mod inbox;
mod model_failures;
mod notes;
mod outcomes;
mod pipeline;
mod plan;
mod resume;
mod rig;
mod spill;
mod tools;
mod turns;
mod windows;
