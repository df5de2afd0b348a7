//! The session store without a disk, for tests and for sessions that leave no trace.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_session::{Header, Seq, Session, SessionId};

use crate::log::{decode_events, unreadable};
use crate::sink::{CommitError, Sink};
use crate::{Listing, LogWriter, Opened, ReadLog, Recovery, SessionStore, StoreError};

/// Keeps sessions for the life of the process, with the semantics of [`crate::FileStore`]: a log
/// exists after its first flush, has one writer, and holds what was flushed. It takes any id, as
/// none becomes a path. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    logs: Arc<Logs>,
}

#[derive(Debug, Default)]
struct Logs(Mutex<HashMap<SessionId, MemoryLog>>);

#[derive(Debug)]
struct MemoryLog {
    header: Header,
    lines: Vec<u8>,
    open: bool,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl SessionStore for MemoryStore {
    fn create(&self, header: &Header) -> Result<LogWriter, StoreError> {
        LogWriter::start(Box::new(self.sink(header, false)), Seq(0), false)
    }

    fn open(&self, id: &SessionId) -> Result<Opened, StoreError> {
        let mut logs = self.logs.lock();
        let log = logs.get_mut(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        if log.open {
            return Err(StoreError::Locked { id: id.clone(), pid: Some(std::process::id()) });
        }
        let session = log.fold()?;
        log.open = true;
        drop(logs);
        let sink = Box::new(self.sink(session.header(), true));
        let writer = LogWriter::start(sink, Seq(session.len().0), true)?;
        Ok(Opened { writer, session, recovery: Recovery::default() })
    }

    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError> {
        let logs = self.logs.lock();
        let log = logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        Ok(ReadLog { session: log.fold()?, recovery: Recovery::default() })
    }

    fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for (id, log) in self.logs.lock().iter() {
            listing.add(id, log.fold());
        }
        listing.sort();
        Ok(listing)
    }
}

impl MemoryStore {
    fn sink(&self, header: &Header, holds: bool) -> MemorySink {
        MemorySink { logs: Arc::clone(&self.logs), header: header.clone(), holds }
    }
}

impl Logs {
    fn lock(&self) -> MutexGuard<'_, HashMap<SessionId, MemoryLog>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryLog {
    fn fold(&self) -> Result<Session, StoreError> {
        let mut events = Vec::new();
        let id = &self.header.id;
        decode_events(&self.lines, &mut events).map_err(|reason| unreadable(id, reason))?;
        Session::replay(self.header.clone(), events).map_err(|error| unreadable(id, error))
    }
}

struct MemorySink {
    logs: Arc<Logs>,
    header: Header,
    /// Whether the log exists and this sink is its writer.
    holds: bool,
}

impl Sink for MemorySink {
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError> {
        let mut logs = self.logs.lock();
        if !self.holds && logs.contains_key(&self.header.id) {
            return Err(CommitError::NotWritten(io::ErrorKind::AlreadyExists.into()));
        }
        self.holds = true;
        let header = &self.header;
        let log = logs.entry(header.id.clone()).or_insert_with(|| MemoryLog {
            header: header.clone(),
            lines: Vec::new(),
            open: true,
        });
        log.lines.extend_from_slice(lines);
        Ok(())
    }
}

impl Drop for MemorySink {
    fn drop(&mut self) {
        if self.holds
            && let Some(log) = self.logs.lock().get_mut(&self.header.id)
        {
            log.open = false;
        }
    }
}
