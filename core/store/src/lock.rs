//! The kernel lock of one session folder.
//!
//! The lock is `flock` on a file that is never deleted, so it ends with its holder however that
//! ends. The process id inside is for messages only and decides nothing.

use std::fs::TryLockError;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use fs_err::File;

use crate::folder;
use crate::plant::Plant;

/// How often the lock file may be replaced under us before that is an error.
const ATTEMPTS: usize = 3;

/// A process id has at most ten digits.
const PID_BYTES: u64 = 16;

/// Held until it is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    file: File,
}

impl Drop for Lock {
    fn drop(&mut self) {
        if Plant::DeletedLock.is_in() {
            drop(fs_err::remove_file(self.file.path()));
        }
        // A close alone would leave the lock to a process that is being started at this moment
        // and still has a copy of the descriptor.
        if let Err(error) = self.file.file().unlock() {
            tracing::warn!(%error, "the lock of a session was not released");
        }
    }
}

/// The lock was not taken.
#[derive(Debug)]
pub(crate) enum LockError {
    /// Someone else holds it; who, as far as the file says.
    Held(Option<u32>),
    Io(io::Error),
}

impl Lock {
    /// Takes the lock or says at once why not; never waits.
    pub(crate) fn acquire(path: &Path) -> Result<Self, LockError> {
        for _ in 0..ATTEMPTS {
            let file = folder::open_private(
                path,
                fs_err::OpenOptions::new().read(true).write(true).create(true),
            )
            .map_err(LockError::Io)?;
            match file.file().try_lock() {
                Ok(()) => (),
                Err(TryLockError::WouldBlock) => return Err(LockError::Held(read_pid(&file))),
                Err(TryLockError::Error(error)) => return Err(LockError::Io(error)),
            }
            // Whoever replaced the file in between may hold a lock on the new one.
            if is_at(&file, path).map_err(LockError::Io)? {
                write_pid(&file);
                return Ok(Self { file });
            }
        }
        Err(LockError::Io(io::Error::other(format!("{}: replaced while locking", path.display()))))
    }
}

/// Whether the open file is the one that stands at `path`.
pub(crate) fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let ours = file.metadata()?;
    match fs_err::symlink_metadata(path) {
        Ok(there) => Ok((ours.dev(), ours.ino()) == (there.dev(), there.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn read_pid(file: &File) -> Option<u32> {
    let mut text = String::new();
    file.file().take(PID_BYTES).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

/// A full disk must not keep a session from being opened, so a failure only costs the message.
fn write_pid(file: &File) {
    let mut raw = file.file();
    let written = raw.set_len(0).and_then(|()| writeln!(raw, "{}", std::process::id()));
    if let Err(error) = written {
        tracing::debug!(%error, "the lock file does not name its holder");
    }
}
