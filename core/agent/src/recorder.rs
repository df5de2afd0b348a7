//! The one place that appends: to the session in memory and, in the same order, to its file.

use std::sync::Arc;

use bridle_compose::{Clock, Scope};
use bridle_session::{AppendError, Draft, Event, EventData, Failure, Session, UnixMillis};
use bridle_store::{LogWriter, StoreError};

use crate::hooks::SessionEvent;

/// A session that can be appended to, and the writer that makes it durable.
pub(crate) struct Recorder {
    session: Session,
    writer: LogWriter,
    clock: Arc<dyn Clock>,
    /// Why the writer takes nothing any more. The session in memory stands still then, too, so
    /// that whoever goes on asking hears this and not that the session has got ahead of its log.
    lost: Option<String>,
    scope: Scope,
}

/// Why a fact could not be recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    /// The event does not fit the log: a bug of the driver.
    #[error("internal error: {0}")]
    Inadmissible(#[from] AppendError),
    /// The disk said no.
    #[error("the session log cannot be written: {0}")]
    Storage(#[from] StoreError),
}

impl RecordError {
    /// As a turn's failure.
    pub(crate) fn failure(&self) -> Failure {
        let code = match self {
            Self::Inadmissible(_) => "internal",
            Self::Storage(_) => "storage",
        };
        tracing::error!(code, error = %self, "a fact could not be recorded");
        Failure { code: code.into(), message: self.to_string(), status: None, request_id: None }
    }
}

impl Recorder {
    /// Observers of the scope are told of each event.
    pub(crate) fn new(
        session: Session,
        writer: LogWriter,
        clock: Arc<dyn Clock>,
        scope: Scope,
    ) -> Self {
        Self { session, writer, clock, scope, lost: None }
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    /// The time now, as events carry it.
    pub(crate) fn now(&self) -> UnixMillis {
        self.clock.now().into()
    }

    /// Records one fact with the usual surface operation of its type.
    pub(crate) fn append(&mut self, data: impl Into<EventData>) -> Result<Arc<Event>, RecordError> {
        self.append_draft(Draft::new(data))
    }

    /// Records one fact.
    pub(crate) fn append_draft(&mut self, draft: Draft) -> Result<Arc<Event>, RecordError> {
        self.append_at(draft, self.now())
    }

    /// Brings a log that ends in the middle to rest, at the time at which it ended.
    pub(crate) fn repair(&mut self) -> Result<(), RecordError> {
        let time = self.session.last_time();
        for draft in self.session.repair() {
            self.append_at(draft, time)?;
        }
        Ok(())
    }

    fn append_at(&mut self, draft: Draft, time: UnixMillis) -> Result<Arc<Event>, RecordError> {
        if let Some(reason) = &self.lost {
            return Err(StoreError::Lost(reason.clone()).into());
        }
        let event = self.session.append(draft, time)?;
        let queued = self.writer.append(Arc::clone(&event));
        self.noticing_loss(queued)?;
        let session = self.session.header().id.clone();
        self.scope.tell(&SessionEvent { session, event: Arc::clone(&event) });
        Ok(event)
    }

    /// The barrier: returns when everything recorded is on the disk.
    pub(crate) async fn flush(&mut self) -> Result<(), RecordError> {
        let flushed = self.writer.flush().await;
        self.noticing_loss(flushed)
    }

    fn noticing_loss(&mut self, result: Result<(), StoreError>) -> Result<(), RecordError> {
        if let Err(StoreError::Lost(reason)) = &result {
            self.lost.get_or_insert_with(|| reason.clone());
        }
        Ok(result?)
    }
}
