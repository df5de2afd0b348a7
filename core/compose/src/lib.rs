//! What every long-lived part of Bridle is built with: a clock and tracked tasks.
//!
//! Time comes in through [`Clock`], so that tests own it; every task runs in a [`TaskSet`], so
//! that nothing is detached and closing the owner ends what it started.

mod clock;
mod tasks;

pub use clock::{Clock, Sleep, SystemClock};
pub use tasks::TaskSet;
