//! Why a file operation was refused.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::names::path_text;

/// A refused or failed file operation.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Nothing is there.
    #[error("{} does not exist", path_text(.0))]
    NotFound(PathBuf),
    /// A folder is there.
    #[error("{} is a folder", path_text(.0))]
    Folder(PathBuf),
    /// Something is there that is neither a regular file nor a folder.
    #[error("{} is {kind}, not a regular file", path_text(.path))]
    Special {
        /// Where.
        path: PathBuf,
        /// What, with its article.
        kind: &'static str,
    },
    /// The file is larger than the caller takes.
    #[error("{} has {len} bytes; the limit is {limit}", path_text(.path))]
    TooLarge {
        /// Where.
        path: PathBuf,
        /// Its size in bytes, as far as known.
        len: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The file carries no write permission for anybody.
    #[error("{} is write-protected (mode {mode:03o})", path_text(.path))]
    WriteProtected {
        /// Where.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The content is not the content that the change was computed on.
    #[error("{} changed since this call was prepared; nothing was written", path_text(.0))]
    Stale(PathBuf),
    /// The path leads to another file or folder than before, or through a link.
    #[error(
        "{} is not the place that this call was prepared for any more (replaced, moved, or now \
         behind a link); it was left alone",
        path_text(.0)
    )]
    Moved(PathBuf),
    /// The file got a further name, which may lie anywhere.
    #[error(
        "{} has another name (a hard link) since this call was prepared; nothing was written",
        path_text(.0)
    )]
    Linked(PathBuf),
    /// A file appeared where a new one was to be created.
    #[error("{} exists now; nothing was written", path_text(.0))]
    Exists(PathBuf),
    /// The file system said no.
    #[error("{}: {source}", path_text(.path))]
    Io {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

impl FileError {
    pub(crate) fn io(path: &Path, error: impl Into<io::Error>) -> Self {
        let path = path.to_owned();
        let source: io::Error = error.into();
        // A resolved path holds no links, so one that is met was put there since.
        if source.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            return Self::Moved(path);
        }
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path),
            io::ErrorKind::IsADirectory => Self::Folder(path),
            io::ErrorKind::AlreadyExists => Self::Exists(path),
            _ => Self::Io { path, source },
        }
    }
}
