//! Domain projections: pure folds over a log, each with its own version, and their checkpoints.
//!
//! A fold answers one question (what is queued, what did it cost, …). [`crate::SessionState`] is
//! made of them; whoever keeps one beside a log (an index) stores a [`Checkpoint`]. A checkpoint is
//! never trusted: where it does not fit the log, the fold is computed again.

mod checkpoint;
mod context_size;
mod inbox;
mod settings;
mod spending;
mod summary;
mod turns;
mod usage;

pub use checkpoint::Checkpoint;
pub(crate) use context_size::estimate;
pub use context_size::{ContextSize, estimate_data, estimate_prose};
pub use inbox::Inbox;
pub use settings::{Modes, Plan, Title, Todo};
pub use spending::{Spending, Spent};
pub use summary::Summary;
pub use turns::TurnBoundary;
pub use usage::{RouteUsage, UsageTotals};

use crate::event::Event;

/// A pure function of a log, computed event by event from `Default`.
///
/// It says what the events say, and decides nothing. It takes any event as a fact: what may be
/// appended is checked elsewhere, and behind lost events a log holds what could not be appended.
pub trait Fold: Default {
    /// Its name, so that a checkpoint of another fold is noticed.
    const NAME: &'static str;
    /// Raised with every change of the state's shape or meaning.
    const VERSION: u32;

    /// Takes in the next event.
    fn apply(&mut self, event: &Event);

    /// Takes in that events before the next one are lost.
    fn lose(&mut self) {}
}
