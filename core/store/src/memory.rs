//! The session store without a disk, for tests and for sessions that leave no trace.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use bridle_session::{BlobHash, BlobRef, Event, EventCount, Header, Session, SessionId, Summary};
use tokio::sync::Semaphore;

use crate::folder::open_nameless;
use crate::log::{decode_events, unreadable};
use crate::paced::Paced;
use crate::search::Asked;
use crate::sink::{CommitError, Sink};
use crate::{
    BlobStore, Ends, GcPolicy, GcReport, Listing, LogWriter, Opened, ReadLog, Recovery,
    SearchQuery, SearchResults, SessionStore, StoreError, VerifyReport, blob,
};

/// Keeps sessions for the life of the process, with the semantics of [`crate::FileStore`]: a log
/// exists after its first flush, has one writer, and holds what was flushed. It takes any id, as
/// none becomes a path. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore {
    logs: Arc<Logs>,
    blobs: Arc<Mutex<HashMap<BlobHash, MemoryBlob>>>,
    pace: Option<Arc<Semaphore>>,
}

#[derive(Debug)]
struct MemoryBlob {
    bytes: Vec<u8>,
    put_at: SystemTime,
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

    /// An empty store for tests that decide when each flush is done: it takes a permit of `pace`,
    /// and fails for good when that is closed. Its logs have no thread; what no flush asks for is
    /// written when the log is closed.
    pub fn paced(pace: Arc<Semaphore>) -> Self {
        Self { pace: Some(pace), ..Self::default() }
    }

    fn writer(
        &self,
        sink: MemorySink,
        summary: Summary,
        exists: bool,
    ) -> Result<LogWriter, StoreError> {
        match &self.pace {
            Some(pace) => {
                Ok(LogWriter::paced(Paced::new(Box::new(sink), Arc::clone(pace)), summary, exists))
            }
            None => LogWriter::start(Box::new(sink), summary, exists),
        }
    }
}

impl SessionStore for MemoryStore {
    fn create(&self, header: &Header) -> Result<LogWriter, StoreError> {
        self.writer(self.sink(header, false), Summary::default(), false)
    }

    fn seed(&self, session: &Session) -> Result<LogWriter, StoreError> {
        let mut lines = Vec::new();
        for event in session.events() {
            lines.extend_from_slice(event.to_line().map_err(io::Error::from)?.as_bytes());
            lines.push(b'\n');
        }
        let mut sink = self.sink(session.header(), false);
        sink.commit(&lines).map_err(|error| match error {
            CommitError::NotWritten(error) | CommitError::Lost(error) => error,
        })?;
        self.writer(sink, session.state().summary.clone(), true)
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
        let sink = self.sink(session.header(), true);
        let writer = self.writer(sink, session.state().summary.clone(), true)?;
        Ok(Opened { writer, session, recovery: Recovery::default() })
    }

    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError> {
        let logs = self.logs.lock();
        let log = logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        Ok(ReadLog { session: log.fold()?, recovery: Recovery::default() })
    }

    fn ends(&self, id: &SessionId, head: usize, tail: usize) -> Result<Ends, StoreError> {
        let logs = self.logs.lock();
        let log = logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let mut all = log.events()?;
        let behind = all.len().saturating_sub(tail);
        all.drain(head.min(behind)..behind);
        Ok(Ends { header: log.header.clone(), events: all })
    }

    fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        let logs = self.logs.lock();
        let log = logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let events = log.events()?.len() as u64;
        Ok(VerifyReport {
            events: EventCount(events),
            frames: events.saturating_add(1),
            bytes: log.lines.len() as u64,
            damage: Vec::new(),
            torn_bytes: 0,
            fold: crate::log::missing_ends(log.fold()),
        })
    }

    fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        for (id, log) in self.logs.lock().iter() {
            listing.add(id, log.fold());
        }
        listing.sort();
        Ok(listing)
    }

    fn search(&self, query: &SearchQuery) -> Result<SearchResults, StoreError> {
        let Some(asked) = Asked::new(query) else { return Ok(SearchResults::default()) };
        let listing = self.list()?;
        let mut results =
            SearchResults { unreadable: listing.unreadable, ..SearchResults::default() };
        for row in listing.sessions.iter().filter(|row| asked.filter.admits(row)) {
            let log = self.read(&row.header.id)?;
            for event in log.session.events() {
                results.consider(&asked, row, event);
            }
        }
        Ok(results)
    }

    fn remove(&self, id: &SessionId) -> Result<(), StoreError> {
        let mut logs = self.logs.lock();
        let log = logs.get(id).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        if log.open {
            return Err(StoreError::Locked { id: id.clone(), pid: Some(std::process::id()) });
        }
        logs.remove(id);
        Ok(())
    }

    fn collect(&self, policy: &GcPolicy) -> Result<GcReport, StoreError> {
        let mut report = GcReport::default();
        let mut needed = BTreeSet::new();
        let mut logs = self.logs.lock();
        for (id, log) in logs.iter() {
            let session = log.fold()?;
            needed.extend(session.events().iter().flat_map(|event| event.blobs()));
            if policy.is_abandoned(&session) && !log.open {
                report.sessions.push(id.clone());
            }
        }
        if !policy.dry_run {
            report.sessions.iter().for_each(|id| drop(logs.remove(id)));
        }
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.retain(|hash, blob| {
            let stays = needed.contains(hash) || !policy.is_old(blob.put_at);
            if !stays {
                report.bytes = report.bytes.saturating_add(blob.bytes.len() as u64);
                report.blobs.push(hash.clone());
            }
            stays || policy.dry_run
        });
        Ok(report)
    }
}

impl BlobStore for MemoryStore {
    fn put(&self, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        let blob = blob::name(bytes)?;
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = MemoryBlob { bytes: bytes.to_vec(), put_at: SystemTime::now() };
        blobs.insert(blob.hash.clone(), kept);
        Ok(blob)
    }

    fn scratch(&self) -> Result<File, StoreError> {
        Ok(open_nameless(&std::env::temp_dir())?)
    }

    fn put_file(&self, file: &File) -> Result<BlobRef, StoreError> {
        let blob = blob::name_of_file(file)?;
        let mut bytes = Vec::new();
        blob::pieces(file, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        let kept = MemoryBlob { bytes, put_at: SystemTime::now() };
        let mut blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        blobs.insert(blob.hash.clone(), kept);
        Ok(blob)
    }

    fn get(&self, wanted: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let blobs = self.blobs.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = blobs.get(&wanted.hash).map(|blob| blob.bytes.clone());
        blob::check(wanted, bytes.ok_or_else(|| StoreError::NoBlob(wanted.hash.clone()))?)
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
    fn events(&self) -> Result<Vec<Event>, StoreError> {
        decode_events(&self.lines).map_err(|reason| unreadable(&self.header.id, reason))
    }

    fn fold(&self) -> Result<Session, StoreError> {
        Session::replay(self.header.clone(), self.events()?)
            .map_err(|error| unreadable(&self.header.id, error))
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
