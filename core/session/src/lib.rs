//! The event vocabulary, the append-only log, its surface and projections, repair and forks.
//!
//! This crate is pure: no I/O, no clock, no async, and it depends on nothing else of Bridle.
//! It owns the words in which a session is written down. It refuses to know how a log reaches a
//! disk (`bridle-store`), who decides what is appended (`bridle-agent`), or how a model provider
//! spells a message (`bridle-model`).

mod admission;
mod blob;
mod content;
mod damage;
mod event;
mod fold;
mod fork;
mod header;
mod id;
mod nodes;
mod price;
mod projection;
mod repair;
mod session;
mod state;
mod surface;
#[cfg(test)]
mod tests;
mod vocabulary;

pub use blob::{BlobHash, BlobRef, NotABlobHash};
pub use content::{Block, Content, OpaqueBlock, TimedBlock, UserSource};
pub use damage::{Gap, Record};
pub use event::{DecodeError, Draft, Event, EventLine, SurfaceOp};
pub use fold::{
    Checkpoint, ContextSize, Fold, Inbox, Modes, Plan, RouteUsage, Spending, Spent, Summary, Title,
    Todo, TurnBoundary, UsageTotals, estimate_data, estimate_prose,
};
pub use fork::ForkError;
pub use header::{Header, Parent, SystemPrompt, Terms};
pub use id::{
    EventCount, JobId, MessageId, Route, Seq, SeriesNumber, SessionId, StepNumber, ToolCallId,
    TurnNumber, UnixMillis,
};
pub use price::{Cost, Money, Nanos, Peak, PriceList, PriceTier};
pub use projection::{Message, Projection};
pub use session::{AppendError, ReplayError, Session};
pub use state::{Offloaded, OpenCall, PlannedRetry, SessionState};
pub use vocabulary::*;
