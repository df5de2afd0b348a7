//! The temporary neighbour through which a file is written.
//!
//! Its maker holds a lock on it for as long as it lives. A neighbour with such a name and without
//! a lock therefore belongs to nobody any more: its maker was killed, and the next write in the
//! folder removes it. Where the file system has no locks nothing is removed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;

use rustix::fs::{
    AtFlags, Dir, FlockOperation, Gid, Mode, OFlags, RenameFlags, Stat, Uid, XattrFlags, fchmod,
    fchown, fgetxattr, flistxattr, flock, fsetxattr, fstat, linkat, openat, renameat,
    renameat_with, unlinkat,
};
use rustix::io::Errno;

use super::steps::took;
use crate::plant::Plant;

/// A temporary's name: this, 16 hexadecimal digits, and [`SUFFIX`].
const PREFIX: &str = ".bridle-";
const SUFFIX: &str = ".tmp";
/// Tries to find a free name.
const TRIES: u32 = 8;
/// The most entries of a folder that are looked at for leftovers.
const MAX_SWEPT: usize = 100_000;
/// Space for the names, and for each value, of extended attributes that are carried over.
const ATTRIBUTE_BYTES: usize = 64 * 1024;

/// A neighbour of the target that disappears unless it is published.
pub(super) struct Temporary<'a> {
    folder: &'a OwnedFd,
    target: &'a OsStr,
    name: OsString,
    file: File,
    published: bool,
}

impl<'a> Temporary<'a> {
    /// Makes the neighbour, after removing those that writers left behind when they were killed.
    pub(super) fn new(
        folder: &'a OwnedFd,
        target: &'a OsStr,
        mode: Mode,
    ) -> rustix::io::Result<Self> {
        if let Err(error) = sweep(folder) {
            tracing::debug!(%error, "not looked through for leftover temporary files");
        }
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        for _ in 0..TRIES {
            let name = free_name();
            match openat(folder, &name, flags, mode) {
                Ok(fd) if claim(&fd)? => {
                    let file = File::from(fd);
                    return Ok(Self { folder, target, name, file, published: false });
                }
                Ok(_) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Errno::EXIST)
    }

    pub(super) fn stat(&self) -> rustix::io::Result<Stat> {
        fstat(&self.file)
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    /// Makes everything that was given to the temporary durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        if Plant::NoFileSync.is_in() {
            return Ok(());
        }
        took("sync file");
        self.file.sync_all()
    }

    /// Gives the temporary the owner, attributes and mode of the file it will replace.
    pub(super) fn take_after(&self, old: &File, stat: &Stat) -> rustix::io::Result<()> {
        let own = self.stat()?;
        if (own.st_uid, own.st_gid) != (stat.st_uid, stat.st_gid) {
            let (uid, gid) = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
            fchown(&self.file, Some(uid), Some(gid))?;
        }
        copy_attributes(old, &self.file)?;
        // After the owner, whose change clears the set-id bits.
        if !Plant::NoMode.is_in() {
            fchmod(&self.file, Mode::from_raw_mode(stat.st_mode & 0o7777))?;
        }
        Ok(())
    }

    /// Changes names with the target, whose lock keeps a sweep away from it from here on. Dropping
    /// the temporary then removes what was the target.
    pub(super) fn exchange(&self, target: &File) -> rustix::io::Result<()> {
        hold(target);
        let flags = RenameFlags::EXCHANGE;
        renameat_with(self.folder, &self.name, self.folder, self.target, flags)?;
        took("publish");
        Ok(())
    }

    /// Undoes an exchange. When that fails what was the target stays, under the temporary name.
    pub(super) fn exchange_back(&mut self) -> rustix::io::Result<()> {
        let flags = RenameFlags::EXCHANGE;
        let result = renameat_with(self.folder, &self.name, self.folder, self.target, flags);
        self.published = result.is_err();
        result
    }

    pub(super) fn name(&self) -> &OsStr {
        &self.name
    }

    pub(super) fn publish_over(&mut self) -> rustix::io::Result<()> {
        renameat(self.folder, &self.name, self.folder, self.target)?;
        took("publish");
        self.published = true;
        Ok(())
    }

    pub(super) fn publish_new(mut self) -> rustix::io::Result<()> {
        let flags = match Plant::PublishOver.is_in() {
            true => RenameFlags::empty(),
            false => RenameFlags::NOREPLACE,
        };
        took("publish");
        match renameat_with(self.folder, &self.name, self.folder, self.target, flags) {
            Ok(()) => {
                self.published = true;
                Ok(())
            }
            // The file system does not know the flag. A link never replaces either; the
            // temporary name is removed on drop.
            Err(Errno::INVAL | Errno::NOSYS) => {
                linkat(self.folder, &self.name, self.folder, self.target, AtFlags::empty())
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Temporary<'_> {
    fn drop(&mut self) {
        if self.published {
            return;
        }
        if let Err(error) = unlinkat(self.folder, &self.name, AtFlags::empty()) {
            tracing::warn!(name = ?self.name, %error, "a temporary file could not be removed");
        }
    }
}

/// A name for a temporary, which most likely nothing has.
pub(super) fn free_name() -> OsString {
    OsString::from(format!("{PREFIX}{:016x}{SUFFIX}", fastrand::u64(..)))
}

/// Keeps sweeps away from a file that will have the name of a temporary, while it is open.
pub(super) fn hold(file: &File) {
    if let Err(error) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        tracing::debug!(%error, "a file that is displaced could not be locked");
    }
}

/// Locks a new temporary; `false` when a sweep was quicker and removes it.
fn claim(file: &OwnedFd) -> rustix::io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Ok(false),
        // A file system without locks; a sweep cannot take one there either.
        Err(_) => Ok(true),
        Ok(()) => Ok(fstat(file)?.st_nlink > 0),
    }
}

/// Removes the temporaries in a folder whose makers are gone.
fn sweep(folder: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = openat(folder.as_fd(), ".", flags, Mode::empty())?;
    for entry in Dir::new(readable)?.take(MAX_SWEPT) {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if is_temporary(name)
            && let Err(error) = remove_if_abandoned(folder, name)
        {
            tracing::debug!(?name, %error, "a temporary file was left alone");
        }
    }
    Ok(())
}

fn remove_if_abandoned(folder: &OwnedFd, name: &OsStr) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(folder, name, flags, Mode::empty())?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    unlinkat(folder, name, AtFlags::empty())
}

fn is_temporary(name: &OsStr) -> bool {
    name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)).is_some_and(
        |middle| {
            let hex = |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
            middle.len() == 16 && middle.bytes().all(hex)
        },
    )
}

fn copy_attributes(from: &File, to: &File) -> rustix::io::Result<()> {
    let mut names = vec![0_u8; ATTRIBUTE_BYTES];
    let filled = match flistxattr(from, &mut names[..]) {
        Ok(filled) => filled,
        Err(Errno::NOTSUP) => return Ok(()),
        Err(error) => return Err(error),
    };
    names.truncate(filled);
    let mut value = vec![0_u8; ATTRIBUTE_BYTES];
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let name = OsStr::from_bytes(name);
        let filled = fgetxattr(from, name, &mut value[..])?;
        fsetxattr(to, name, value.get(..filled).unwrap_or_default(), XattrFlags::empty())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read::read_for_change;
    use crate::files::replace::{anchor, create, replace};

    #[test]
    fn the_next_write_removes_what_a_killed_one_left_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        let left = |digit: &str| base.join(format!(".bridle-{}.tmp", digit.repeat(16)));
        let others = [".bridle-notes.tmp", ".bridle-0123.tmp", ".f.tmp"].map(|n| base.join(n));
        for path in others.iter().chain(&[left("1"), left("2"), base.join("file")]) {
            fs_err::write(path, "x").unwrap();
        }
        std::os::unix::fs::symlink("file", left("3")).unwrap();
        // Another writer is at work in the folder.
        let busy = fs_err::File::open(left("2")).unwrap();
        flock(&busy, FlockOperation::NonBlockingLockExclusive).unwrap();
        let before = read_for_change(&base.join("file"), 10).unwrap();
        replace(&base.join("file"), &before, b"new").unwrap();
        assert!(!left("1").exists() && left("2").exists() && left("3").exists());
        drop(busy);
        let new = base.join("new");
        create(&new, &anchor(&new).unwrap(), b"new").unwrap();
        assert!(!left("2").exists() && left("3").exists());
        assert!(others.iter().all(|path| path.exists()));
    }

    /// Many writers in one folder never take each other's temporary for a leftover.
    #[test]
    fn writers_at_work_are_left_alone() {
        const WRITES: usize = 100;
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let base = &base;
                scope.spawn(move || {
                    for n in 0..WRITES {
                        let path = base.join(format!("{thread}-{n}"));
                        create(&path, &anchor(&path).unwrap(), b"x").unwrap();
                    }
                });
            }
        });
        assert_eq!(fs_err::read_dir(&base).unwrap().count(), 4 * WRITES);
    }
}
