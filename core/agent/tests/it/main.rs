//! The driver from the outside: what a client sees and what the log keeps.

mod cancel;
mod model_failures;
mod rig;
mod tools;
mod turns;
