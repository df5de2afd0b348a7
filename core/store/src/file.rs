//! The session store on a disk: `<state>/sessions/<id>/events.v1.jsonl.zst`.
//!
//! Reading takes no lock and changes nothing. Opening for writing takes the lock first, then
//! reads, and cuts a torn end only after the rest has been folded, so a log that cannot be read
//! is never changed.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_session::{EventCount, Header, Seq, SessionId, UnixMillis};

use crate::disk::{Disk, DiskFile, Guard, Kind, Open, RealDisk};
use crate::file_sink::FileSink;
use crate::folder::sync_names;
use crate::lock::LockError;
use crate::log::{DecodedLog, encode_header, unreadable};
use crate::plant::Plant;
use crate::sink::LogFile;
use crate::{Damage, Listing, LogWriter, Opened, ReadLog, Recovery, SessionStore, StoreError};

/// The most bytes of a log file that are read.
const MAX_LOG: u64 = 1024 * 1024 * 1024;

/// How many names a copy of torn bytes may find taken.
const MAX_COPY_NAMES: u64 = 1000;

/// Keeps each session in a folder of its own.
#[derive(Clone, Debug)]
pub struct FileStore {
    sessions: PathBuf,
    disk: Arc<dyn Disk>,
}

/// What a check of a stored log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VerifyReport {
    /// How many events there are in complete frames.
    pub events: EventCount,
    /// How many complete frames there are, the header's included.
    pub frames: u64,
    /// Where the last complete frame ends.
    pub bytes: u64,
    /// The damaged places before that.
    pub damage: Vec<Damage>,
    /// How many bytes behind it are torn.
    pub torn_bytes: u64,
    /// Whether the events fold; the error names the first one that does not fit.
    pub fold: Result<(), String>,
}

impl FileStore {
    /// A store in `state` (the folder that holds `sessions/`); creates it with mode 0700 when the
    /// first session is flushed.
    pub fn new(state: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk), state)
    }

    pub(crate) fn on(disk: Arc<dyn Disk>, state: impl Into<PathBuf>) -> Self {
        Self { sessions: state.into().join("sessions"), disk }
    }

    /// Where the log of a session is or would be.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] for an id that Bridle does not give out.
    pub fn log_path(&self, id: &SessionId) -> Result<PathBuf, StoreError> {
        Ok(LogFolder::of(self, id)?.log())
    }

    /// Reads a whole log and says what it holds.
    ///
    /// # Errors
    /// As for [`SessionStore::read`], except that events that do not fold are part of the report.
    pub fn verify(&self, id: &SessionId) -> Result<VerifyReport, StoreError> {
        let bytes = LogFolder::of(self, id)?.read()?;
        let mut log = DecodedLog::decode(id, &bytes)?;
        Ok(VerifyReport {
            events: log.events,
            frames: log.frames,
            bytes: log.valid_len as u64,
            damage: std::mem::take(&mut log.damage),
            torn_bytes: torn_bytes(&log, &bytes),
            fold: log.fold().map(drop).map_err(|error| error.to_string()),
        })
    }
}

impl SessionStore for FileStore {
    fn create(&self, header: &Header) -> Result<LogWriter, StoreError> {
        let folder = LogFolder::of(self, &header.id)?;
        let sink = FileSink::unborn(folder, encode_header(header)?)?;
        LogWriter::start(Box::new(sink), Seq(0), false)
    }

    fn open(&self, id: &SessionId) -> Result<Opened, StoreError> {
        let folder = LogFolder::of(self, id)?;
        folder.check_version()?;
        let lock = folder.lock()?;
        let bytes = folder.read()?;
        let mut log = DecodedLog::decode(id, &bytes)?;
        if Plant::TrustedTail.is_in() {
            log.valid_len = bytes.len();
        }
        let (valid_len, damage) = (log.valid_len, std::mem::take(&mut log.damage));
        for damage in &damage {
            tracing::warn!(session = %id, "the log is {damage}");
        }
        let session = log.fold()?;
        let mut file = folder.disk.open(&folder.log(), Open::Existing)?;
        folder.make_durable(&mut *file)?;
        let torn = bytes.get(valid_len..).unwrap_or_default();
        let recovery = Recovery { damage, ..folder.cut_torn(&mut *file, valid_len as u64, torn)? };
        let sink = FileSink::open(folder, LogFile::new(file, valid_len as u64), lock)?;
        let writer = LogWriter::start(Box::new(sink), Seq(session.len().0), true)?;
        Ok(Opened { writer, session, recovery })
    }

    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError> {
        let bytes = LogFolder::of(self, id)?.read()?;
        let mut log = DecodedLog::decode(id, &bytes)?;
        let damage = std::mem::take(&mut log.damage);
        let recovery = Recovery { damage, torn_bytes: torn_bytes(&log, &bytes), kept_at: None };
        Ok(ReadLog { session: log.fold()?, recovery })
    }

    fn list(&self) -> Result<Listing, StoreError> {
        let mut listing = Listing::default();
        let names = match self.disk.names(&self.sessions) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(listing),
            Err(error) => return Err(error.into()),
        };
        for name in names {
            let Some(id) = name.to_str().and_then(SessionId::parse) else { continue };
            match self.read(&id) {
                // A folder without a log: its creation was never acknowledged to anyone.
                Err(StoreError::NotFound(_)) => (),
                read => listing.add(&id, read.map(|log| log.session)),
            }
        }
        listing.sort();
        Ok(listing)
    }
}

fn torn_bytes(log: &DecodedLog, bytes: &[u8]) -> u64 {
    bytes.len().saturating_sub(log.valid_len) as u64
}

/// The folder of one session. Made from checked ids only, so it is always inside the store.
#[derive(Debug)]
pub(crate) struct LogFolder {
    id: SessionId,
    path: PathBuf,
    disk: Arc<dyn Disk>,
}

impl LogFolder {
    fn of(store: &FileStore, id: &SessionId) -> Result<Self, StoreError> {
        let id = SessionId::parse(id.as_str()).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let path = store.sessions.join(id.as_str());
        Ok(Self { id, path, disk: Arc::clone(&store.disk) })
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join(format!("events.v{}.jsonl.zst", Header::FORMAT))
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join("session.lock")
    }

    pub(crate) fn lock(&self) -> Result<Box<dyn Guard>, StoreError> {
        self.disk.lock(&self.lock_path()).map_err(|error| match error {
            LockError::Held(pid) => StoreError::Locked { id: self.id.clone(), pid },
            LockError::Io(error) => StoreError::Io(error),
        })
    }

    /// Refuses a session that a newer version has written or migrated, one without a log, and one
    /// of which something is not what it should be.
    pub(crate) fn check_version(&self) -> Result<(), StoreError> {
        let not_found = || StoreError::NotFound(self.id.clone());
        self.require(&self.path, Kind::Folder, "a folder")?;
        let names = match self.disk.names(&self.path) {
            Ok(names) => names,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(not_found()),
            Err(error) => return Err(error.into()),
        };
        let newest = names.iter().filter_map(|name| version_of(name.to_str()?)).max();
        match newest.ok_or_else(not_found)? {
            version if version > Header::FORMAT => {
                Err(StoreError::Newer { id: self.id.clone(), version })
            }
            _ => {
                self.require(&self.log(), Kind::File, "a regular file")?;
                self.require(&self.lock_path(), Kind::File, "a regular file")
            }
        }
    }

    /// Refuses what is there and is something else than `kind`.
    fn require(&self, path: &Path, kind: Kind, name: &str) -> Result<(), StoreError> {
        match self.disk.kind(path) {
            Ok(there) if there == kind => Ok(()),
            Ok(_) => Err(unreadable(&self.id, format!("{} is not {name}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn read(&self) -> Result<Vec<u8>, StoreError> {
        self.check_version()?;
        self.disk.read(&self.log(), MAX_LOG).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound(self.id.clone()),
            io::ErrorKind::FileTooLarge => unreadable(&self.id, error),
            _ => error.into(),
        })
    }

    /// Whoever wrote the log may have been killed before a sync. What was read from it is relied
    /// on from now on, so it must not go with a power cut.
    fn make_durable(&self, log: &mut dyn DiskFile) -> io::Result<()> {
        log.sync()?;
        sync_names(&*self.disk, &self.path)?;
        self.path.parent().map_or(Ok(()), |sessions| sync_names(&*self.disk, sessions))
    }

    /// Keeps a copy of the torn bytes, and only then takes them off the log.
    fn cut_torn(
        &self,
        log: &mut dyn DiskFile,
        valid_len: u64,
        torn: &[u8],
    ) -> Result<Recovery, StoreError> {
        if torn.is_empty() {
            return Ok(Recovery::default());
        }
        let kept_at = self.keep(torn)?;
        log.set_len(valid_len)?;
        if !Plant::UnsyncedCut.is_in() {
            log.sync()?;
        }
        tracing::warn!(session = %self.id, bytes = torn.len(), "cut the torn end of a log");
        let torn_bytes = torn.len() as u64;
        Ok(Recovery { torn_bytes, kept_at: Some(kept_at), ..Recovery::default() })
    }

    fn keep(&self, torn: &[u8]) -> Result<PathBuf, StoreError> {
        let now = UnixMillis::from(std::time::SystemTime::now()).0;
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for name in now..now.saturating_add(MAX_COPY_NAMES) {
            let path = self.path.join(format!("torn-{name}"));
            match self.disk.open(&path, Open::New) {
                Ok(mut copy) => {
                    copy.write_all(torn)?;
                    copy.sync()?;
                    sync_names(&*self.disk, &self.path)?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error.into()),
            }
        }
        Err(taken.into())
    }
}

/// The format version in the name of a log file, compressed or plain; a number too large to hold
/// is newer than anything.
fn version_of(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("events.v")?;
    let digits = rest.strip_suffix(".jsonl.zst").or_else(|| rest.strip_suffix(".jsonl"))?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(u32::MAX))
}
