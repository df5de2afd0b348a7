//! One session as the index keeps it, and how it is told whether the log is still the one that
//! the row was made from.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bridle_session::{Header, Summary};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::log::hex;

/// A change this close to the look at the file may have another one behind it that leaves the same
/// times, as clocks of file systems tick slowly. Two seconds is the slowest known.
const TICK: Duration = Duration::from_secs(2);

/// What is known of a session without its log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) header: Arc<Header>,
    pub(crate) summary: Summary,
    /// Folder and log as they were before the log was read; `None` where they had just changed.
    pub(crate) stamp: Option<Stamp>,
    /// What was read of the log: everything up to its last complete frame.
    pub(crate) seen: Mark,
    /// Whether the log is damaged before that: it is read from its beginning when it grows.
    pub(crate) damaged: bool,
}

/// The beginning of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mark {
    /// Its length.
    pub(crate) bytes: u64,
    /// What it hashes to.
    hash: String,
}

impl Mark {
    /// Of the first `len` bytes.
    pub(crate) fn of(bytes: &[u8], len: usize) -> Self {
        let bytes = bytes.get(..len).unwrap_or(bytes);
        Self { bytes: bytes.len() as u64, hash: hex(&Sha256::digest(bytes)) }
    }

    /// How many of the bytes it stands for, when it is a beginning of them.
    pub(crate) fn begins(&self, bytes: &[u8]) -> Option<usize> {
        let len = usize::try_from(self.bytes).ok().filter(|len| *len <= bytes.len())?;
        (Self::of(bytes, len) == *self).then_some(len)
    }
}

/// Names, lengths and times of a session's folder and log: with these unchanged, no name was added
/// to the folder and no byte of the log was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stamp {
    folder: Look,
    /// The name of the log's file.
    name: String,
    log: Look,
}

/// Device, inode, length, and the times of the last change of content and of anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Look(u64, u64, u64, i64, i64, i64, i64);

impl Stamp {
    /// Of a folder that was looked at before it was searched for its log.
    pub(crate) fn take(folder: Look, log: &Path) -> io::Result<Self> {
        let name = log.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { folder, name, log: Look::at(log)? })
    }

    /// Whether nothing has changed since.
    pub(crate) fn holds(&self, folder: &Path) -> bool {
        let unchanged = |path: &Path, was: &Look| Look::at(path).is_ok_and(|is| is == *was);
        unchanged(folder, &self.folder) && unchanged(&folder.join(&self.name), &self.log)
    }

    /// The stamp, if the last change is long enough ago that another one would show.
    pub(crate) fn settled(self, now: SystemTime) -> Option<Self> {
        let since = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        let limit = i64::try_from(since.checked_sub(TICK)?.as_secs()).ok()?;
        (self.folder.changed() < limit && self.log.changed() < limit).then_some(self)
    }
}

impl Look {
    /// Does not follow a link.
    pub(crate) fn at(path: &Path) -> io::Result<Self> {
        let found = fs_err::symlink_metadata(path)?;
        let (mtime, ctime) = (found.mtime(), found.ctime());
        let (mnsec, cnsec) = (found.mtime_nsec(), found.ctime_nsec());
        Ok(Self(found.dev(), found.ino(), found.size(), mtime, mnsec, ctime, cnsec))
    }

    /// In seconds since the epoch.
    fn changed(&self) -> i64 {
        self.3.max(self.5)
    }
}
