//! The folders of one store, and that their names are durable.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::disk::Disk;
use crate::folder::sync_names;

/// The state folder. All clones of a store share it.
#[derive(Debug)]
pub(crate) struct Root {
    state: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    /// The folders whose names this process has made durable: those above the sessions and the
    /// blobs, never one of a session, so there are few.
    durable: Mutex<BTreeSet<PathBuf>>,
}

impl Root {
    pub(crate) fn new(disk: Arc<dyn Disk>, state: PathBuf) -> Self {
        Self { state, disk, durable: Mutex::default() }
    }

    pub(crate) fn sessions(&self) -> PathBuf {
        self.state.join("sessions")
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        crate::FileStore::blobs(&self.state)
    }

    /// Makes a folder and those above it that are missing, each for its owner only, and makes its
    /// name durable, whoever made it: a process may have been killed before its sync.
    pub(crate) fn make(&self, path: &Path) -> io::Result<()> {
        let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) else {
            return Ok(());
        };
        self.keep(parent)?;
        let was_there = self.disk.is_folder(path);
        if !was_there {
            self.disk.make_folder(path)?;
        }
        match sync_names(&*self.disk, parent) {
            // A folder that we may not open is none that we can have made a folder in.
            Err(error) if was_there && is_foreign(&error) => Ok(()),
            synced => synced,
        }
    }

    /// The same once per process, for a folder that many sessions or blobs share.
    pub(crate) fn keep(&self, path: &Path) -> io::Result<()> {
        let durable = || self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        let known = durable().contains(path);
        if !(known && self.disk.is_folder(path)) {
            self.make(path)?;
            durable().insert(path.to_owned());
        }
        Ok(())
    }
}

fn is_foreign(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}
