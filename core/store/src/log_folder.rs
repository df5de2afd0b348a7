//! The folder of one session: which file is its log, its lock, and the copies of torn ends.

use std::cmp::Reverse;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_session::{SessionId, UnixMillis};

use crate::disk::{Disk, DiskFile, Guard, Kind, Open};
use crate::folder::sync_names;
use crate::lock::LockError;
use crate::log::unreadable;
use crate::plant::Plant;
use crate::root::Root;
use crate::version::{Generation, Versions};
use crate::{Recovery, StoreError};

/// The most bytes of a log file that are read.
const MAX_LOG: u64 = 1024 * 1024 * 1024;

/// How many names a copy of torn bytes may find taken.
const MAX_COPY_NAMES: u64 = 1000;

/// The lock's file.
pub(crate) const LOCK: &str = "session.lock";

/// How the folder of a removed session is named until it is empty.
pub(crate) const GONE: &str = "removed-";

/// The folder of one session. Made from checked ids only, so it is always inside the store.
#[derive(Debug)]
pub(crate) struct LogFolder {
    pub(crate) id: SessionId,
    path: PathBuf,
    root: Arc<Root>,
    newest: u32,
}

impl LogFolder {
    pub(crate) fn new(
        root: &Arc<Root>,
        id: &SessionId,
        versions: &Versions,
    ) -> Result<Self, StoreError> {
        let id = SessionId::parse(id.as_str()).ok_or_else(|| StoreError::NotFound(id.clone()))?;
        let path = root.sessions().join(id.as_str());
        Ok(Self { id, path, root: Arc::clone(root), newest: versions.current })
    }

    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.root.disk
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn file(&self, generation: Generation) -> PathBuf {
        self.path.join(generation.file_name())
    }

    pub(crate) fn lock(&self) -> Result<Box<dyn Guard>, StoreError> {
        self.disk().lock(&self.lock_path()).map_err(|error| match error {
            LockError::Held(pid) => StoreError::Locked { id: self.id.clone(), pid },
            LockError::Io(error) => StoreError::Io(error),
        })
    }

    /// Makes the folder of a log that is to be, and takes its lock.
    ///
    /// # Errors
    /// [`io::ErrorKind::AlreadyExists`] when it holds one; [`StoreError::Locked`].
    pub(crate) fn claim(&self) -> Result<Box<dyn Guard>, StoreError> {
        self.make()?;
        let lock = self.lock()?;
        match self.find() {
            Err(StoreError::NotFound(_)) => Ok(lock),
            Err(StoreError::Io(error)) => Err(error.into()),
            Ok(_) | Err(_) => {
                let message = format!("{}: holds a session", self.path.display());
                Err(io::Error::new(io::ErrorKind::AlreadyExists, message).into())
            }
        }
    }

    /// Removes the folder with everything in it. Another name takes it out of sight at once, so a
    /// crash leaves a session that is there or one that is gone.
    pub(crate) fn remove(&self, _lock: Box<dyn Guard>) -> io::Result<()> {
        let (disk, sessions, gone) = (self.disk(), self.root.sessions(), self.gone_path());
        // Left by a process that was killed here.
        clear(disk, &gone)?;
        disk.rename(&self.path, &gone)?;
        if let Err(error) = sync_names(disk, &sessions) {
            disk.rename(&gone, &self.path)?;
            return Err(error);
        }
        clear(disk, &gone)
    }

    fn gone_path(&self) -> PathBuf {
        self.root.sessions().join(format!("{GONE}{}", self.id))
    }

    fn lock_path(&self) -> PathBuf {
        self.path.join(LOCK)
    }

    /// Makes the folder where it is missing, and its name durable.
    pub(crate) fn make(&self) -> io::Result<()> {
        self.root.make(&self.path)
    }

    /// The log. Refuses a session that a newer version has written or migrated, one with two logs,
    /// one without any, and one of which something is not what it should be.
    pub(crate) fn find(&self) -> Result<Generation, StoreError> {
        let found = match *self.generations()?.as_slice() {
            [] => return Err(StoreError::NotFound(self.id.clone())),
            [Generation { version, .. }, ..] if version > self.newest => {
                return Err(StoreError::Newer { id: self.id.clone(), version });
            }
            [a, b, ..] if a.version == b.version => {
                let [a, b] = [a, b].map(Generation::file_name);
                let reason = format!("it has two logs, {a} and {b}; move one of them away");
                return Err(unreadable(&self.id, reason));
            }
            [found, ..] => found,
        };
        self.require(&self.file(found), Kind::File, "a regular file")?;
        self.require(&self.lock_path(), Kind::File, "a regular file")?;
        Ok(found)
    }

    /// The files of the log, readable or not, the newest first.
    pub(crate) fn generations(&self) -> Result<Vec<Generation>, StoreError> {
        self.require(&self.path, Kind::Folder, "a folder")?;
        let names = match self.disk().names(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            names => names?,
        };
        let found = names.iter().filter_map(|name| Generation::parse(name.to_str()?));
        let mut found: Vec<_> = found.collect();
        found.sort_by_key(|generation| Reverse(generation.version));
        Ok(found)
    }

    /// Refuses what is there and is something else than `kind`.
    pub(crate) fn require(&self, path: &Path, kind: Kind, name: &str) -> Result<(), StoreError> {
        match self.disk().kind(path) {
            Ok(there) if there == kind => Ok(()),
            Ok(_) => Err(unreadable(&self.id, format!("{} is not {name}", path.display()))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn read(&self, generation: Generation) -> Result<Vec<u8>, StoreError> {
        self.read_file(&self.file(generation))
    }

    pub(crate) fn read_file(&self, path: &Path) -> Result<Vec<u8>, StoreError> {
        self.disk().read(path, MAX_LOG).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NotFound(self.id.clone()),
            io::ErrorKind::FileTooLarge => unreadable(&self.id, error),
            _ => error.into(),
        })
    }

    /// Whoever wrote the log may have been killed before a sync. What was read from it is relied
    /// on from now on, so it must not go with a power cut.
    pub(crate) fn make_durable(&self, log: &mut dyn DiskFile) -> io::Result<()> {
        log.sync()?;
        sync_names(self.disk(), &self.path)?;
        self.make()
    }

    /// Keeps a copy of the torn bytes, and only then takes them off the log.
    pub(crate) fn cut_torn(
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
            match self.disk().open(&path, Open::New) {
                Ok(mut copy) => {
                    copy.write_all(torn)?;
                    copy.sync()?;
                    sync_names(self.disk(), &self.path)?;
                    return Ok(path);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error.into()),
            }
        }
        Err(taken.into())
    }
}

/// Removes a folder with the files in it; one that is not there is none.
pub(crate) fn clear(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let names = match disk.names(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names?,
    };
    for name in names {
        disk.remove_file(&folder.join(name))?;
    }
    disk.remove_folder(folder)
}
