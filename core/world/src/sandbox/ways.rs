//! Folders on the way to what is held absent, which stand only for that: `.config` for `.config/gh`.
//!
//! To a command such a folder is one that is not there yet. Should it make one, it is told that it was made,
//! and the folder is its own from then on: it stays when the placeholder in it goes. Who watches the command
//! tells that to who removes placeholders.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// The size of one read, in bytes.
const READ_SIZE: usize = 4096;

/// The folders of one command, shared by who watches it and who removes placeholders.
#[derive(Debug)]
pub(crate) struct Ways {
    /// Those that were made for placeholders, and the placeholders.
    placed: HashSet<PathBuf>,
    /// What is held absent, and no way.
    absent: HashSet<PathBuf>,
    told: OwnedFd,
    tell: OwnedFd,
}

impl Ways {
    /// Those among `placed`, the folders that are made where `absent` is to be, if there are any.
    ///
    /// # Errors
    /// When there can be no pipe.
    pub(super) fn among(placed: &[&Path], absent: &[PathBuf]) -> io::Result<Option<Self>> {
        let absent: HashSet<PathBuf> = absent.iter().cloned().collect();
        if placed.iter().all(|path| absent.contains(*path)) {
            return Ok(None);
        }
        let (told, tell) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let placed = placed.iter().map(|path| (*path).to_owned()).collect();
        Ok(Some(Self { placed, absent, told, tell }))
    }

    /// Whether a folder is such a way, in which nothing is but what was made for placeholders.
    pub(super) fn has(&self, path: &Path) -> bool {
        !self.absent.contains(path) && self.is_untouched(path)
    }

    fn is_untouched(&self, path: &Path) -> bool {
        self.placed.contains(path)
            && fs_err::read_dir(path).is_ok_and(|mut below| {
                below.all(|entry| entry.is_ok_and(|entry| self.is_untouched(&entry.path())))
            })
    }

    /// Makes a way the command's own, with the mode that it is to have.
    ///
    /// # Errors
    /// When that cannot be done, or nobody can be told.
    pub(super) fn give(&mut self, path: &Path, mode: Mode) -> io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let folder = rustix::fs::open(path, flags, Mode::empty())?;
        let line = [path.as_os_str().as_bytes(), b"\0"].concat();
        // So short that it is written as a whole or not at all.
        rustix::io::write(&self.tell, &line)?;
        self.placed.remove(path);
        Ok(rustix::fs::fchmod(folder, mode)?)
    }

    /// Those that were given to the command.
    ///
    /// # Errors
    /// When that cannot be read.
    pub(super) fn given(&self) -> io::Result<HashSet<PathBuf>> {
        let (mut all, mut buffer) = (Vec::new(), [0; READ_SIZE]);
        loop {
            match rustix::io::read(&self.told, &mut buffer) {
                Ok(count) => all.extend(buffer.iter().take(count)),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        let paths = all.split(|byte| *byte == 0).filter(|path| !path.is_empty());
        Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
    }
}
