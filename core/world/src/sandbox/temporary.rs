//! The `/tmp` of a session's confined commands: a folder that no other session's commands see.
//!
//! It is locked as long as its session is open. One that is found unlocked was left by an agent
//! that was killed, and goes when the next one is made.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// What the names of these folders begin with.
const PREFIX: &str = "tmp-";

/// A folder that is removed, with all that is in it, when this is dropped. Dropping blocks.
#[derive(Debug)]
pub struct Temporary {
    path: PathBuf,
    _lock: rustix::fd::OwnedFd,
}

impl Temporary {
    /// Makes one in `parent`, which is Bridle's own and private, and removes those that nobody
    /// uses any more. Blocks.
    ///
    /// # Errors
    /// When it cannot be made or locked.
    pub fn make(parent: &Path) -> io::Result<Self> {
        rustix::fs::mkdir(parent, Mode::RWXU).or_else(ignore_exists)?;
        // Nobody sweeps between the making of a folder and its lock.
        let _held = lock(parent, FlockOperation::LockExclusive)?;
        sweep(parent)?;
        let path = parent.join(format!("{PREFIX}{:016x}", fastrand::u64(..)));
        rustix::fs::mkdir(&path, Mode::RWXU)?;
        let lock = lock(&path, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { path, _lock: lock })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // What stays behind is unlocked, so the next session tries again.
        fs_err::remove_dir_all(&self.path).ok();
    }
}

fn sweep(parent: &Path) -> io::Result<()> {
    for entry in fs_err::read_dir(parent)? {
        let entry = entry?;
        let ours = entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes());
        if ours && lock(&entry.path(), FlockOperation::NonBlockingLockExclusive).is_ok() {
            fs_err::remove_dir_all(entry.path()).ok();
        }
    }
    Ok(())
}

/// Locks a folder until the descriptor is closed.
fn lock(folder: &Path, how: FlockOperation) -> io::Result<rustix::fd::OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let folder = rustix::fs::open(folder, flags, Mode::empty())?;
    rustix::io::retry_on_intr(|| flock(&folder, how))?;
    Ok(folder)
}

fn ignore_exists(error: Errno) -> Result<(), Errno> {
    if error == Errno::EXIST { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_agent_left_goes_and_what_is_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let parent = folder.path().join("sandbox");
        let used = Temporary::make(&parent).unwrap();
        fs_err::write(used.path().join("file"), "mine").unwrap();
        // Closing the descriptors is what the kernel does for a killed process.
        let left = parent.join("tmp-left");
        fs_err::create_dir_all(left.join("deep")).unwrap();
        let other = Temporary::make(&parent).unwrap();
        assert!(!left.exists() && used.path().join("file").exists());
        assert_ne!(used.path(), other.path());
        drop(used);
        drop(other);
        assert_eq!(fs_err::read_dir(&parent).unwrap().count(), 0);
    }
}
