//! One session in memory: its header, its log, and the surface that the log folds to.
//!
//! Only the driver that owns a session appends. An append that fails changes nothing.

use std::sync::Arc;

use crate::event::{Draft, Event};
use crate::header::Header;
use crate::id::{EventCount, Seq, UnixMillis};
use crate::projection::Projection;

/// An append that was refused; the log is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The event breaks a rule of its own type (e.g. a message without content).
    #[error("{type_name}: {rule}")]
    Inadmissible {
        /// The event's type.
        type_name: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The surface operation does not fit the surface as it is.
    #[error("surface: {0}")]
    Surface(&'static str),
}

/// A stored log that does not fold.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The event at this position does not carry this position.
    #[error("event {expected} is missing; found {found}")]
    Sequence {
        /// The position that was due.
        expected: Seq,
        /// The position that the event carries.
        found: Seq,
    },
    /// The event could not have been appended.
    #[error("event {seq}: {source}")]
    Inadmissible {
        /// Where.
        seq: Seq,
        /// Why.
        source: AppendError,
    },
}

/// One session: header, log and surface.
#[derive(Clone, Debug)]
pub struct Session {
    header: Arc<Header>,
    log: Vec<Arc<Event>>,
}

impl Session {
    /// An empty session.
    pub fn new(header: Header) -> Self {
        Self { header: Arc::new(header), log: Vec::new() }
    }

    /// Folds a stored log; the same checks as for live appends.
    ///
    /// # Errors
    /// [`ReplayError`] names the first event that does not fit.
    pub fn replay(
        header: Header,
        events: impl IntoIterator<Item = Event>,
    ) -> Result<Self, ReplayError> {
        todo!()
    }

    /// The header.
    pub fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// Every event, in order.
    pub fn events(&self) -> &[Arc<Event>] {
        &self.log
    }

    /// How many events there are; also the position of the next one.
    pub fn len(&self) -> EventCount {
        EventCount(self.log.len() as u64)
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// Checks and appends one event.
    ///
    /// # Errors
    /// [`AppendError`]; nothing changed then.
    pub fn append(&mut self, draft: Draft, time: UnixMillis) -> Result<Arc<Event>, AppendError> {
        todo!()
    }

    /// The messages on the surface now.
    pub fn projection(&self) -> Projection {
        todo!()
    }

    /// What must be appended so that the log is at rest: results for calls without one, then
    /// `step/end`, then `turn/end{interrupted}`. Empty for a log at rest. Deterministic.
    pub fn repair(&self) -> Vec<Draft> {
        todo!()
    }
}
