//! Durable replacement and creation.
//!
//! A file is replaced by a temporary neighbour that is written, given the old owner, mode and
//! attributes, synced and exchanged with it; the folder is synced too, so that after a power cut
//! either the old or the new content is there. Where a rename would lose something (other hard
//! links, an owner we may not give, a folder we may not write) the file is written in place, which
//! is not atomic. Before a write in place the content is compared once more with the version that the
//! change was computed on. Before an exchange only its mark is, if that is the same; after it the
//! content of the displaced file is, which is put back if it differs.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{Mode, OFlags, Stat, mkdirat, openat};
use rustix::io::Errno;

use super::FileError;
use super::open::{Identity, identity, open_folder};
use super::read::{Stamp, require_writable};
use super::steps::took;
use super::target::{Target, split, sync_folder};
use super::temporary::Temporary;

/// Freeing a file of this many bytes takes as long as starting a thread many times.
const SLOWLY_FREED_BYTES: i64 = 1024 * 1024;

/// The place of a file that does not exist yet: the deepest folder on its path that does, bound
/// by identity.
#[derive(Debug)]
pub(super) struct Anchor {
    folder: PathBuf,
    identity: Identity,
}

/// Binds the place of a file to be created.
pub(super) fn anchor(path: &Path) -> Result<Anchor, FileError> {
    let mut ancestors = path.ancestors();
    if fs_err::symlink_metadata(path).is_ok() {
        return Err(FileError::Exists(path.to_owned()));
    }
    let folder = ancestors
        .find(|ancestor| fs_err::symlink_metadata(ancestor).is_ok())
        .ok_or_else(|| FileError::NotFound(path.to_owned()))?;
    let identity = identity(open_folder(folder)?, folder)?;
    Ok(Anchor { folder: folder.to_owned(), identity })
}

/// Creates a file with these bytes, and the folders that are missing above it. Never replaces
/// anything. Folders that were already created stay when it fails.
pub(super) fn create(path: &Path, anchor: &Anchor, bytes: &[u8]) -> Result<(), FileError> {
    let failed = |error: Errno| FileError::io(path, error);
    let (_, name) = split(path)?;
    let folder = enter(path, anchor)?;
    let mut temporary =
        Temporary::new(&folder, name, Mode::from_raw_mode(0o666)).map_err(failed)?;
    temporary.write(bytes).and_then(|()| temporary.sync()).map_err(|e| FileError::io(path, e))?;
    temporary.publish_new().map_err(failed)?;
    sync_folder(&folder).map_err(failed)
}

/// The folder of a file to be created, made where it is missing.
pub(super) fn enter(path: &Path, anchor: &Anchor) -> Result<OwnedFd, FileError> {
    let moved = || FileError::Moved(path.to_owned());
    let missing = split(path)?.0.strip_prefix(&anchor.folder).map_err(|_| moved())?;
    let mut folder = open_folder(&anchor.folder)?;
    if identity(&folder, &anchor.folder)? != anchor.identity {
        return Err(moved());
    }
    for part in missing.components() {
        folder = enter_or_create(&folder, part.as_os_str()).map_err(|e| FileError::io(path, e))?;
    }
    Ok(folder)
}

fn enter_or_create(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    match mkdirat(folder, name, Mode::from_raw_mode(0o777)) {
        Ok(()) => sync_folder(folder)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty())
}

/// Replaces the content of an existing file, if it still is as `stamp` says. Mode, owner, extended
/// attributes and hard links stay.
pub(super) fn replace(path: &Path, stamp: &Stamp, bytes: &[u8]) -> Result<(), FileError> {
    let target = Target::new(path, stamp)?;
    let (_, stat) = target.open(OFlags::RDONLY)?;
    require_writable(&stat, path)?;
    if target.replace_by_rename(&stat, bytes)? { Ok(()) } else { target.write_in_place(bytes) }
}

impl Target<'_> {
    /// `false` when the file must be written in place.
    fn replace_by_rename(&self, stat: &Stat, bytes: &[u8]) -> Result<bool, FileError> {
        if stat.st_nlink > 1 {
            return Ok(false);
        }
        let private = Mode::RUSR | Mode::WUSR;
        let mut temporary = match Temporary::new(&self.folder, self.name, private) {
            Ok(temporary) => temporary,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(false),
            Err(error) => return Err(self.failed(error)),
        };
        temporary.write(bytes).map_err(|e| FileError::io(self.path, e))?;
        let (mut current, stat) = self.open(OFlags::RDONLY)?;
        if temporary.take_after(&current, &stat).is_err() {
            return Ok(false);
        }
        temporary.sync().map_err(|e| FileError::io(self.path, e))?;
        self.check_mark(&mut current)?;
        took("check");
        match temporary.exchange(&current) {
            Ok(()) => {
                if let Err(error) = self.check_displaced(temporary.name()) {
                    temporary.exchange_back().map_err(|e| self.failed(e))?;
                    return Err(error);
                }
            }
            // The file system cannot exchange two names; nothing is looked at afterwards then.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                self.check_content(&mut current)?;
                match temporary.publish_over() {
                    Err(Errno::BUSY) => return Ok(false),
                    result => result.map_err(|e| self.failed(e))?,
                }
            }
            // A bind-mounted file cannot be renamed over.
            Err(Errno::BUSY) => return Ok(false),
            Err(error) => return Err(self.failed(error)),
        }
        sync_folder(&self.folder).map_err(|e| self.failed(e))?;
        drop(temporary);
        close(current, stat.st_size);
        Ok(true)
    }

    fn write_in_place(&self, bytes: &[u8]) -> Result<(), FileError> {
        let (mut file, _) = self.open(OFlags::RDWR)?;
        self.check_content(&mut file)?;
        let write = |file: &mut File| -> io::Result<()> {
            file.rewind()?;
            file.write_all(bytes)?;
            file.set_len(bytes.len() as u64)?;
            file.sync_all()
        };
        write(&mut file).map_err(|e| FileError::io(self.path, e))
    }
}

/// Closes the last descriptor of a file without a name, whose pages and blocks are freed then. Of a
/// large one nobody waits for that.
fn close(file: File, len: i64) {
    if len > SLOWLY_FREED_BYTES
        && let Err(error) = thread::Builder::new().spawn(move || drop(file))
    {
        tracing::debug!(%error, "a displaced file is freed on this thread");
    }
}

#[cfg(test)]
mod tests;
