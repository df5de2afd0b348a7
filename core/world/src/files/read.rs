//! Whole files, and what tells one state of a file from another.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use bytes::Bytes;
use rustix::fs::Stat;

use super::open::{Identity, identity_of, open_regular, require_regular};
use super::{FileError, FileMark};

/// What a file was and held at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) identity: Identity,
    pub(super) content: Bytes,
    pub(super) links: u64,
    /// From before it was read, so that what is written meanwhile changes it.
    pub(super) mark: FileMark,
}

impl Stamp {
    fn new(stat: &Stat, content: Bytes) -> Self {
        Self { identity: identity_of(stat), content, links: links(stat), mark: FileMark::of(stat) }
    }
}

/// How many names a file has.
pub(super) fn links(stat: &Stat) -> u64 {
    // The width of the field differs from one processor to the next.
    #[allow(clippy::useless_conversion)]
    stat.st_nlink.into()
}

/// Reads a regular file of at most `limit` bytes.
pub(crate) fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    read_all(&mut open_regular(path)?, path, limit)
}

/// Reads a regular file that somebody may write, with the stamp of what was read.
pub(super) fn read_for_change(path: &Path, limit: u64) -> Result<Stamp, FileError> {
    let mut file = open_regular(path)?;
    let stat = require_regular(&file, path)?;
    require_writable(&stat, path)?;
    let bytes = read_all(&mut file, path, limit)?;
    Ok(Stamp::new(&stat, bytes.into()))
}

pub(super) fn require_writable(stat: &Stat, path: &Path) -> Result<(), FileError> {
    if stat.st_mode & 0o222 != 0 {
        return Ok(());
    }
    let mode = stat.st_mode & 0o7777;
    Err(FileError::WriteProtected { path: path.to_owned(), mode })
}

pub(super) fn read_all(file: &mut File, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
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
