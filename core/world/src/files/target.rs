//! A file that is about to be changed, as its version says it is.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, Stat, fstat, fsync, openat};
use rustix::io::Errno;

use super::open::{identity_of, open_folder, require_regular};
use super::read::{Stamp, links};
use super::steps::took;
use super::{FileError, FileMark};
use crate::plant::Plant;

/// How many bytes are compared at once.
pub(super) const COMPARED_BYTES: usize = 256 * 1024;

/// The file at a name of an open folder, and what it has to be.
pub(super) struct Target<'a> {
    pub(super) path: &'a Path,
    pub(super) folder: OwnedFd,
    pub(super) name: &'a OsStr,
    pub(super) stamp: &'a Stamp,
}

impl<'a> Target<'a> {
    pub(super) fn new(path: &'a Path, stamp: &'a Stamp) -> Result<Self, FileError> {
        let (parent, name) = split(path)?;
        Ok(Self { path, folder: open_folder(parent)?, name, stamp })
    }

    /// Opens the file relative to its folder and checks that it is the one, under no more names.
    pub(super) fn open(&self, access: OFlags) -> Result<(File, Stat), FileError> {
        self.open_as(self.name, access)
    }

    /// The same for the file under another name of the folder.
    fn open_as(&self, name: &OsStr, access: OFlags) -> Result<(File, Stat), FileError> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = openat(&self.folder, name, flags, Mode::empty()).map_err(|e| self.failed(e))?;
        let stat = require_regular(&fd, self.path)?;
        if identity_of(&stat) != self.stamp.identity {
            return Err(FileError::Moved(self.path.to_owned()));
        }
        if links(&stat) > self.stamp.links.max(1) {
            return Err(FileError::Linked(self.path.to_owned()));
        }
        Ok((File::from(fd), stat))
    }

    /// Checks that the file looks unchanged, and reads it only if it does not. This is for a change
    /// that can be taken back when the content turns out to be another one afterwards.
    pub(super) fn check_mark(&self, file: &mut File) -> Result<(), FileError> {
        let stat = fstat(&*file).map_err(|e| self.failed(e))?;
        if FileMark::of(&stat) == self.stamp.mark { Ok(()) } else { self.check_content(file) }
    }

    pub(super) fn check_content(&self, file: &mut File) -> Result<(), FileError> {
        let same = file.rewind().and_then(|()| holds(file, &self.stamp.content));
        match same.map_err(|e| FileError::io(self.path, e))? {
            true => Ok(()),
            false => Err(FileError::Stale(self.path.to_owned())),
        }
    }

    /// Checks by its content what was taken away from the target's name and is now at `name`: a
    /// file that was changed after the last check, or in a way that its mark does not tell, must
    /// not be lost.
    pub(super) fn check_displaced(&self, name: &OsStr) -> Result<(), FileError> {
        if Plant::NoSecondLook.is_in() {
            return Ok(());
        }
        let (mut file, _) = self.open_as(name, OFlags::RDONLY)?;
        self.check_content(&mut file)
    }

    pub(super) fn failed(&self, error: Errno) -> FileError {
        FileError::io(self.path, error)
    }
}

/// Whether a file has exactly these bytes from here on. Comparing is several times quicker than
/// hashing, and the bytes are there.
fn holds(file: &mut File, mut bytes: &[u8]) -> io::Result<bool> {
    let mut piece = vec![0; COMPARED_BYTES];
    loop {
        let count = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        let read = piece.get(..count).unwrap_or_default();
        match bytes.strip_prefix(read) {
            Some(rest) if count > 0 => bytes = rest,
            rest => return Ok(rest.is_some_and(<[u8]>::is_empty)),
        }
    }
}

/// Makes the names in a folder durable.
pub(super) fn sync_folder(folder: &OwnedFd) -> rustix::io::Result<()> {
    if Plant::NoFolderSync.is_in() {
        return Ok(());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(folder.as_fd(), ".", flags, Mode::empty()).and_then(fsync);
    took("sync folder");
    match opened {
        // A folder that may be written but not listed, or a file system that syncs no folders:
        // the content is safe, only the moment at which the name is safe is the kernel's.
        Err(Errno::ACCESS | Errno::INVAL) => Ok(()),
        result => result,
    }
}

pub(super) fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    path.parent().zip(path.file_name()).ok_or_else(|| FileError::Folder(path.to_owned()))
}
