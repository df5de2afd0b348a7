//! Files: bytes, versions, durable replacement, behind a seam.
//!
//! [`Files`] is what tools see; [`LocalFiles`] is the disk of this host. Every operation takes a
//! path that [`crate::Roots::resolve`] produced and follows no link in it, in no component: a link
//! that appeared since is an error, never a detour. Nothing here opens anything but regular files
//! and folders, so nothing blocks on a FIFO or a device.

mod error;
mod folder;
mod hash;
mod lines;
mod local;
mod mark;
mod open;
mod read;
mod relocate;
mod replace;
mod steps;
mod target;
mod temporary;
mod text;

#[cfg(test)]
mod tests;

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

pub use error::FileError;
pub use folder::{Entry, EntryKind, Listing};
pub use hash::ContentHash;
pub use lines::{Line, LineLimits, LineWindow, Lines};
pub use local::LocalFiles;
pub use mark::FileMark;
pub use text::{NotText, Text, Unencodable, looks_binary};

pub(crate) use open::{is_reached_without_links, open_listed, open_regular};
pub(crate) use read::read;

/// The files that a session works on. A provider may hold other text than the disk (the unsaved
/// buffers of an editor), and decides itself what a [`Version`] is.
///
/// All operations block; async callers use a blocking thread.
pub trait Files: Send + Sync + 'static {
    /// Lists a folder, hidden entries included; at most `limit` of them.
    ///
    /// # Errors
    /// [`FileError`]: `Io` for something that is no folder.
    fn list(&self, folder: &Path, limit: usize) -> Result<Listing, FileError>;

    /// Reads a whole regular file of at most `limit` bytes.
    ///
    /// # Errors
    /// [`FileError`]: `TooLarge` above the limit, also for a file that grows while it is read.
    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError>;

    /// Reads the lines that `window` asks for. Stops early when `cancelled` says so.
    ///
    /// # Errors
    /// The outer [`FileError`] when it cannot be read, the inner [`NotText`] when it is no text.
    fn read_lines(
        &self,
        path: &Path,
        window: &LineWindow,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Result<Lines, NotText>, FileError>;

    /// Reads a file of at most `limit` bytes as the basis of a [`Files::write`].
    ///
    /// # Errors
    /// As [`Files::read`], and `WriteProtected` for a file that nobody may write.
    fn read_for_change(&self, path: &Path, limit: u64) -> Result<Snapshot, FileError>;

    /// The version of a file that is not there yet: binds its place for a [`Files::write`].
    ///
    /// # Errors
    /// [`FileError`]: `Exists` when something is there already.
    fn anchor(&self, path: &Path) -> Result<Version, FileError>;

    /// Writes the whole content of a file, durably, if what is there is still the `version` that
    /// the content was made for. A version of [`Files::anchor`] creates the file, and the folders
    /// that are missing above it, and never replaces anything.
    ///
    /// # Errors
    /// [`FileError`]: `Stale` when its content changed, `Moved` when the path leads to another
    /// place now, `Linked` when it got a further name, `Exists` when it appeared, `WriteProtected`
    /// when nobody may write it. Nothing was written then; folders that were created stay.
    fn write(&self, path: &Path, version: &Version, bytes: &[u8]) -> Result<(), FileError>;

    /// Removes a file durably, if what is there is still this version of [`Files::read_for_change`].
    ///
    /// # Errors
    /// As [`Files::write`]; the file is still there then.
    fn remove(&self, path: &Path, version: &Version) -> Result<(), FileError>;

    /// Gives a file another name durably, if what is there is still this version of
    /// [`Files::read_for_change`], and nothing is at `to`, whose place a [`Files::anchor`] bound.
    /// Makes the folders that are missing above it.
    ///
    /// # Errors
    /// As [`Files::write`]; the file still has its old name then.
    fn rename(
        &self,
        path: &Path,
        version: &Version,
        to: &Path,
        place: &Version,
    ) -> Result<(), FileError>;
}

/// What was at a path at one moment, as the provider that made it tells it from what is there
/// later. It means nothing to anybody else.
#[derive(Clone)]
pub struct Version(Arc<dyn Any + Send + Sync>);

impl Version {
    /// A version, known by `mark` to its provider.
    pub fn new(mark: impl Any + Send + Sync) -> Self {
        Self(Arc::new(mark))
    }

    /// The mark, for the provider that made this version of such a one.
    pub fn mark<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

/// The content of a file that is about to be changed.
#[derive(Clone)]
pub struct Snapshot {
    /// All bytes, which the version may share.
    pub bytes: Bytes,
    /// Their hash.
    pub hash: ContentHash,
    /// Their version.
    pub version: Version,
    /// How many names (hard links) the file has besides the one it was reached by. They may lie
    /// anywhere on the same file system.
    pub further_names: u64,
}
