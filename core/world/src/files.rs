//! Files of this host: bytes, versions, durable replacement.
//!
//! Every function takes a path that [`crate::Roots::resolve`] produced and follows no link in it,
//! in no component: a link that appeared since is an error, never a detour. Nothing here opens
//! anything but regular files and folders, so nothing blocks on a FIFO or a device. All functions
//! block on the disk; async callers use a blocking thread.

mod error;
mod folder;
mod lines;
mod open;
mod replace;
mod temporary;
mod text;

use std::io::Read as _;
use std::path::Path;

pub use error::FileError;
pub use folder::{Entry, EntryKind, Listing, list};
pub use lines::{Line, LineLimits, Lines, read_lines};
pub use replace::{Anchor, anchor, create, replace};
pub use text::{NotText, Text, looks_binary};

use rustix::fs::Stat;

pub(crate) use open::open_regular;
use open::{identity_of, require_regular};

/// Which file an inode is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
}

/// What a file was and held at one moment. Times are left out on purpose: they change without the
/// content and stay while it changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    identity: Identity,
    hash: blake3::Hash,
    len: u64,
    links: u64,
}

impl Version {
    /// How many names (hard links) the file has besides the one it was reached by. They may lie
    /// anywhere on the same file system.
    pub fn further_names(&self) -> u64 {
        self.links.saturating_sub(1)
    }
}

/// The bytes of a file and the version they are.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// All bytes.
    pub bytes: Vec<u8>,
    /// Their version.
    pub version: Version,
}

/// Reads a whole regular file of at most `limit` bytes.
///
/// # Errors
/// [`FileError`]: `TooLarge` above the limit, also for a file that grows while it is read.
pub fn read(path: &Path, limit: u64) -> Result<Snapshot, FileError> {
    snapshot(open_regular(path)?, path, limit)
}

/// Reads a file as the basis of a [`replace`].
///
/// # Errors
/// As [`read`], and `WriteProtected` for a file that nobody may write.
pub fn read_for_change(path: &Path, limit: u64) -> Result<Snapshot, FileError> {
    let file = open_regular(path)?;
    require_writable(&require_regular(&file, path)?, path)?;
    snapshot(file, path, limit)
}

fn snapshot(mut file: std::fs::File, path: &Path, limit: u64) -> Result<Snapshot, FileError> {
    let stat = require_regular(&file, path)?;
    let bytes = read_all(&mut file, path, limit)?;
    let version = version(&stat, &bytes);
    Ok(Snapshot { bytes, version })
}

fn version(stat: &Stat, bytes: &[u8]) -> Version {
    Version {
        identity: identity_of(stat),
        hash: blake3::hash(bytes),
        len: bytes.len() as u64,
        // The width of the field differs from one processor to the next.
        #[allow(clippy::useless_conversion)]
        links: stat.st_nlink.into(),
    }
}

fn require_writable(stat: &Stat, path: &Path) -> Result<(), FileError> {
    if stat.st_mode & 0o222 != 0 {
        return Ok(());
    }
    let mode = stat.st_mode & 0o7777;
    Err(FileError::WriteProtected { path: path.to_owned(), mode })
}

fn read_all(file: &mut std::fs::File, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let len = file.metadata().map_err(|e| FileError::io(path, e))?.len();
    let too_large = |len| FileError::TooLarge { path: path.to_owned(), len, limit };
    if len > limit {
        return Err(too_large(len));
    }
    let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
    file.take(limit.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|e| FileError::io(path, e))?;
    if bytes.len() as u64 > limit {
        return Err(too_large(bytes.len() as u64));
    }
    Ok(bytes)
}
