//! The text of a file as servers are shown it: without a byte order mark, whatever its encoding.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_world::files::{ContentHash, FileError, Files, Text};

use crate::position;

/// The largest file that servers are shown, in bytes.
pub(crate) const MAX_BYTES: u64 = 4 * 1024 * 1024;

/// A file's text.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Canonical.
    pub(crate) path: PathBuf,
    pub(crate) text: Arc<str>,
    pub(crate) hash: ContentHash,
    pub(crate) mark: Option<Mark>,
}

/// What tells without reading that a file may have changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark(u64, u64, i64, i64, i64, i64);

impl Mark {
    /// What the disk says of a file now. Blocks.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let it = fs_err::symlink_metadata(path).ok()?;
        Some(Self(it.len(), it.ino(), it.mtime(), it.mtime_nsec(), it.ctime(), it.ctime_nsec()))
    }
}

/// Why a file cannot be shown to a server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unreadable {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no text.
    #[error("{}: it is no text", .0.display())]
    NotText(PathBuf),
}

impl Source {
    /// Reads a file. Blocks.
    ///
    /// # Errors
    /// [`Unreadable`], also for a file of more than 4 MiB.
    pub(crate) fn read(files: &dyn Files, path: &Path) -> Result<Self, Unreadable> {
        // Before it is read: what is written meanwhile gives it another mark.
        let mark = Mark::of(path);
        let bytes = files.read(path, MAX_BYTES)?;
        let text = Text::parse(&bytes).map_err(|_| Unreadable::NotText(path.to_owned()))?;
        let (hash, text) = (ContentHash::of(&bytes), Arc::from(&*text.body));
        Ok(Self { path: path.to_owned(), text, hash, mark })
    }

    /// How many lines there are, as a person counts them: behind the last end of one is none.
    pub(crate) fn count_lines(&self) -> usize {
        let ended = self.text.is_empty() || self.text.ends_with(['\n', '\r']);
        position::lines(&self.text).count() - usize::from(ended)
    }

    /// The line of this number, from 0.
    pub(crate) fn line(&self, number: usize) -> Option<&str> {
        position::lines(&self.text).nth(number)
    }
}
