//! Durable session logs: one append-only file per session, one writer, and blobs beside it.
//!
//! [`SessionStore`] is the seam; [`FileStore`] and [`MemoryStore`] provide it. A [`LogWriter`] is
//! the only way to write a log and holds its kernel lock. This crate refuses to interpret events:
//! what a log means is `bridle-session`'s matter.

mod blob;
mod codec;
mod disk;
mod draft;
mod file;
mod file_sink;
mod folder;
mod frame;
mod gc;
mod index;
mod lock;
mod log;
mod log_folder;
mod memory;
mod migrate;
mod open_logs;
mod paced;
mod parallel;
mod plain;
mod plant;
mod root;
mod scan;
mod search;
mod seed;
mod sink;
mod survey;
#[cfg(test)]
mod tests;
mod version;
mod writer;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use bridle_session::{
    BlobHash, Event, EventCount, Header, LogGap, Session, SessionId, Summary, UnixMillis,
};

pub use blob::BlobStore;
pub use codec::Compression;
#[cfg(fuzzing)]
pub use codec::fuzz_frames;
pub use file::FileStore;
pub use gc::{GcPolicy, GcReport};
pub use memory::MemoryStore;
pub use search::{Hit, HitKind, SearchQuery, SearchResults, SessionFilter, Snippet};
pub use writer::LogWriter;

/// Keeps sessions. Methods block on the disk; call them off the async threads.
pub trait SessionStore: Send + Sync + 'static {
    /// Does what the first session of a process would otherwise wait for. Creates nothing; what
    /// fails, fails again when it is needed, and is told then.
    fn prepare(&self) {}

    /// Starts a new log. Nothing is written until the first [`LogWriter::flush`], which writes
    /// and syncs file and folder.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the header cannot be rendered or the writer thread cannot be
    /// started. That the id is taken shows at the first flush.
    fn create(&self, header: &Header) -> Result<LogWriter, StoreError>;

    /// Starts a log that holds a whole session, such as a fork. It is durable when this returns;
    /// when it fails, or the process dies in it, there is no such session.
    ///
    /// # Errors
    /// [`StoreError::Io`]; with [`std::io::ErrorKind::AlreadyExists`] when the id is taken.
    fn seed(&self, session: &Session) -> Result<LogWriter, StoreError>;

    /// Takes the write lock, reads, cuts a torn tail (its bytes are kept beside the log), and
    /// folds the log. Damage before complete frames is left as it is: what it took is a gap. The caller appends what [`Session::repair`] returns.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Locked`], [`StoreError::Unreadable`],
    /// [`StoreError::Newer`], [`StoreError::Io`].
    fn open(&self, id: &SessionId) -> Result<Opened, StoreError>;

    /// Reads without the lock: every complete frame, and a report of the rest.
    ///
    /// # Errors
    /// As for [`SessionStore::open`], except `Locked`.
    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError>;

    /// Reads the first `head` and the last `tail` events (fewer where there are fewer) without the
    /// lock, and unpacks no more of the log than they take.
    ///
    /// # Errors
    /// As for [`SessionStore::read`], as far as the log is looked at.
    fn ends(&self, id: &SessionId, head: usize, tail: usize) -> Result<Ends, StoreError>;

    /// Reads the last `events` events, as [`SessionStore::ends`] does.
    ///
    /// # Errors
    /// As for [`SessionStore::ends`].
    fn tail(&self, id: &SessionId, events: usize) -> Result<Ends, StoreError> {
        self.ends(id, 0, events)
    }

    /// Reads a whole log and says what it holds.
    ///
    /// # Errors
    /// As for [`SessionStore::read`], except that events that do not fold are part of the report.
    fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError>;

    /// One row per session that has a user message, newest first. Sessions that cannot be read
    /// are reported in the second list, never left out silently. A list reads frames and
    /// envelopes: that the events of a sound log do not fit each other shows when it is folded.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the sessions folder cannot be listed; a missing folder is empty.
    fn list(&self) -> Result<Listing, StoreError>;

    /// The events that hold every word of the query, in the sessions that a list shows.
    ///
    /// # Errors
    /// As for [`SessionStore::list`].
    fn search(&self, query: &SearchQuery) -> Result<SearchResults, StoreError>;

    /// Removes a session for good, also one that cannot be read. Blobs stay until
    /// [`SessionStore::collect`].
    ///
    /// # Errors
    /// [`StoreError::NotFound`]; [`StoreError::Locked`] while it is open; [`StoreError::Io`], after
    /// which it is gone from view or still there, never half.
    fn remove(&self, id: &SessionId) -> Result<(), StoreError>;

    /// Removes what nobody needs: sessions in which nobody has said anything, blobs that no log
    /// names, and what killed processes have left. What is open, or younger than the policy's
    /// age, stays.
    ///
    /// # Errors
    /// [`StoreError::Io`]; what was removed before it is gone.
    fn collect(&self, policy: &GcPolicy) -> Result<GcReport, StoreError>;
}

/// The two ends of a log.
#[derive(Debug)]
pub struct Ends {
    /// The header.
    pub header: Header,
    /// The first and the last events, each once, in the order of the log. Positions that are missing
    /// between them are events that were not asked for, or lost ones.
    pub events: Vec<Event>,
}

/// What a check of a stored log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// How many events there are in complete frames.
    pub events: EventCount,
    /// How many complete frames there are, the header's included; of a log that is not compressed,
    /// how many lines.
    pub frames: u64,
    /// Where the last complete frame ends.
    pub bytes: u64,
    /// The damaged places before that.
    pub damage: Vec<Damage>,
    /// How many bytes behind it are torn.
    pub torn_bytes: u64,
    /// How many ends the log lacks to be at rest, as in mid-turn; the error names the first event
    /// that does not fold.
    pub fold: Result<usize, String>,
}

/// A log opened for writing.
#[derive(Debug)]
pub struct Opened {
    /// The write handle; dropping it releases the lock.
    pub writer: LogWriter,
    /// The folded log.
    pub session: Session,
    /// What recovery had to do.
    pub recovery: Recovery,
}

/// A log that was only read.
#[derive(Debug)]
pub struct ReadLog {
    /// The folded log.
    pub session: Session,
    /// What recovery would have to do.
    pub recovery: Recovery,
}

/// What was found between and behind the complete frames.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// The damaged places between complete frames. They stay as they are.
    pub damage: Vec<Damage>,
    /// How many torn bytes there were.
    pub torn_bytes: u64,
    /// Where a writer kept them.
    pub kept_at: Option<PathBuf>,
}

/// Bytes of a log that are no frame, with complete frames behind them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where they begin in the file.
    pub offset: u64,
    /// How many they are.
    pub bytes: u64,
    /// Which events were lost there; `None` when the events behind it follow those before it.
    pub lost: Option<LogGap>,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged from byte {} for {} bytes, ", self.offset, self.bytes)?;
        match &self.lost {
            Some(lost) => write!(f, "events {} to {} are lost", lost.first, lost.last),
            None => f.write_str("no event is lost"),
        }
    }
}

/// All sessions of a store.
#[derive(Debug, Default)]
pub struct Listing {
    /// The readable ones, newest first by last change.
    pub sessions: Vec<SessionRow>,
    /// The unreadable ones with the reason.
    pub unreadable: Vec<(SessionId, StoreError)>,
}

impl Listing {
    pub(crate) fn add(&mut self, id: &SessionId, session: Result<Session, StoreError>) {
        match session.map(|session| SessionRow::of(&session)) {
            Ok(row) if row.summary.has_human_message => self.sessions.push(row),
            Ok(_) => (),
            Err(error) => self.unreadable.push((id.clone(), error)),
        }
    }

    /// Newest first; equal times in the order of the ids, so that a list never shuffles.
    pub(crate) fn sort(&mut self) {
        self.sessions.sort_by(|a, b| {
            let newest = b.updated_at().cmp(&a.updated_at());
            newest.then_with(|| a.header.id.cmp(&b.header.id))
        });
        self.unreadable.sort_by(|(a, _), (b, _)| a.cmp(b));
    }
}

/// What a list shows of a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionRow {
    /// The header.
    pub header: Arc<Header>,
    /// What its log says in short.
    pub summary: Summary,
}

impl SessionRow {
    /// The row of a folded log.
    pub fn of(session: &Session) -> Self {
        let summary = session.state().summary.clone();
        Self { header: Arc::clone(session.header()), summary }
    }

    /// The title: the last `title/set`.
    pub fn title(&self) -> Option<&str> {
        self.summary.title.text.as_deref()
    }

    /// The time of the last event, or of the creation where there is none.
    pub fn updated_at(&self) -> UnixMillis {
        self.summary.last_time.unwrap_or(self.header.created_at)
    }
}

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no such session.
    #[error("session {0} does not exist")]
    NotFound(SessionId),
    /// Another process (or another part of this one) has it open for writing.
    #[error("session {id} is already open{}", pid.map(|pid| format!(" in process {pid}")).unwrap_or_default())]
    Locked {
        /// Which session.
        id: SessionId,
        /// Who holds the lock, as far as the lock file says.
        pid: Option<u32>,
    },
    /// The file was written by a newer version; it was left untouched.
    #[error("session {id} has format version {version}, newer than this program's")]
    Newer {
        /// Which session.
        id: SessionId,
        /// The version it has.
        version: u32,
    },
    /// The file holds something that is not a log this build may read.
    #[error("session {id} cannot be read: {reason}")]
    Unreadable {
        /// Which session.
        id: SessionId,
        /// Why.
        reason: String,
    },
    /// There is no such blob.
    #[error("blob {0} does not exist")]
    NoBlob(BlobHash),
    /// The content of a blob is not what was put in.
    #[error("blob {hash} is damaged: {reason}")]
    DamagedBlob {
        /// Which blob.
        hash: BlobHash,
        /// How that shows.
        reason: String,
    },
    /// The disk said no. The message carries the path.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// A sync failed, or an event could not be taken in, so that going on would leave a hole.
    /// This handle acknowledges nothing any more; what it acknowledged before is safe.
    #[error("the session log can no longer be written: {0}; reopen the session")]
    Lost(String),
}
