//! Taking a file away from its name: to another name, or for good.
//!
//! What turns out to be another file, or to hold something else than its version, is put back.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, Stat, linkat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::FileError;
use super::read::Stamp;
use super::replace::{Anchor, enter};
use super::steps::took;
use super::target::{Target, split, sync_folder};
use super::temporary::{Temporary, free_name, hold};

/// Removes a file, if it still is as `stamp` says.
pub(super) fn remove(path: &Path, stamp: &Stamp) -> Result<(), FileError> {
    let target = Target::new(path, stamp)?;
    let (mut file, _) = target.open(OFlags::RDONLY)?;
    target.check_mark(&mut file)?;
    // Under its temporary name a sweep must not take it for a leftover.
    hold(&file);
    took("check");
    let aside = free_name();
    move_name(&target, &aside)?;
    if let Err(error) = target.check_displaced(&aside) {
        put_back(&target, &aside)?;
        return Err(error);
    }
    unlinkat(&target.folder, &aside, AtFlags::empty()).map_err(|e| target.failed(e))?;
    sync_folder(&target.folder).map_err(|e| target.failed(e))
}

/// Gives a file another name where nothing is, if it still is as `stamp` says. To another file system
/// it is copied, with its mode, owner and attributes, and then removed.
pub(super) fn rename(
    path: &Path,
    stamp: &Stamp,
    to: &Path,
    place: &Anchor,
) -> Result<(), FileError> {
    let target = Target::new(path, stamp)?;
    let (mut file, stat) = target.open(OFlags::RDONLY)?;
    target.check_mark(&mut file)?;
    let failed = |error: std::io::Error| FileError::io(to, error);
    let (_, name) = split(to)?;
    let folder = enter(to, place)?;
    let moved = Target { path, folder, name: target.name, stamp };
    match renameat_with(&target.folder, target.name, &moved.folder, name, RenameFlags::NOREPLACE) {
        // The file system does not know the flag; a link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(&target.folder, target.name, &moved.folder, name, AtFlags::empty())
                .map_err(|e| failed(e.into()))?;
            unlinkat(&target.folder, target.name, AtFlags::empty())
                .map_err(|e| target.failed(e))?;
        }
        Err(Errno::XDEV) => {
            copy(&file, &stat, stamp, &moved.folder, name).map_err(failed)?;
            // Until the old name is gone the copy is only that.
            return remove(path, stamp).inspect_err(|_| {
                unlinkat(&moved.folder, name, AtFlags::empty()).ok();
            });
        }
        result => result.map_err(|e| failed(e.into()))?,
    }
    took("publish");
    if let Err(error) = moved.check_displaced(name) {
        let flags = RenameFlags::NOREPLACE;
        renameat_with(&moved.folder, name, &target.folder, target.name, flags)
            .map_err(|e| failed(e.into()))?;
        return Err(error);
    }
    sync_folder(&moved.folder).map_err(|e| failed(e.into()))?;
    sync_folder(&target.folder).map_err(|e| target.failed(e))
}

/// Puts a durable copy of a file where nothing is.
fn copy(
    file: &File,
    stat: &Stat,
    stamp: &Stamp,
    folder: &OwnedFd,
    name: &OsStr,
) -> std::io::Result<()> {
    let mut temporary = Temporary::new(folder, name, Mode::RUSR | Mode::WUSR)?;
    temporary.write(&stamp.content)?;
    temporary.take_after(file, stat)?;
    temporary.sync()?;
    temporary.publish_new()?;
    Ok(sync_folder(folder)?)
}

fn move_name(target: &Target<'_>, aside: &OsStr) -> Result<(), FileError> {
    let folder = &target.folder;
    match renameat_with(folder, target.name, folder, aside, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            rustix::fs::renameat(folder, target.name, folder, aside)
        }
        result => result,
    }
    .map_err(|e| target.failed(e))
}

/// When something has appeared at the old name meanwhile, both files stay: the one that was moved
/// aside under the name that the error tells.
fn put_back(target: &Target<'_>, aside: &OsString) -> Result<(), FileError> {
    let folder = &target.folder;
    renameat_with(folder, aside, folder, target.name, RenameFlags::NOREPLACE)
        .map_err(|error| FileError::io(&target.path.with_file_name(aside), error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::read::read_for_change;
    use crate::files::replace::anchor;
    use crate::files::steps;

    fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        fs_err::write(base.join("file"), "old").unwrap();
        (dir, base)
    }

    fn stamp(path: &Path) -> Stamp {
        read_for_change(path, 1 << 20).unwrap()
    }

    #[test]
    fn a_file_is_moved_into_folders_that_are_made() {
        let (_dir, base) = folder();
        let (path, to) = (base.join("file"), base.join("a/b/new"));
        rename(&path, &stamp(&path), &to, &anchor(&to).unwrap()).unwrap();
        assert!(!path.exists());
        assert_eq!(fs_err::read(&to).unwrap(), b"old");
    }

    #[test]
    fn a_file_is_moved_to_another_file_system_with_all_it_has() {
        use std::os::unix::fs::MetadataExt as _;

        let (_dir, base) = folder();
        let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
        if other.path().metadata().unwrap().dev() == base.metadata().unwrap().dev() {
            println!("there is one file system only");
            return;
        }
        let (path, to) = (base.join("file"), other.path().join("new/file"));
        rustix::fs::chmod(&path, rustix::fs::Mode::from_raw_mode(0o750)).unwrap();
        rename(&path, &stamp(&path), &to, &anchor(&to).unwrap()).unwrap();
        assert!(!path.exists());
        assert_eq!(fs_err::read(&to).unwrap(), b"old");
        assert_eq!(fs_err::metadata(&to).unwrap().mode() & 0o7777, 0o750);
        // What is there is replaced there no more than elsewhere, and what changed stays.
        fs_err::write(&path, "another").unwrap();
        let place = anchor(&other.path().join("late")).unwrap();
        let (late, before) = (other.path().join("late"), stamp(&path));
        fs_err::write(&late, "theirs").unwrap();
        let error = rename(&path, &before, &late, &place).unwrap_err();
        assert!(matches!(error, FileError::Exists(_)), "{error}");
        let (free, theirs) = (other.path().join("free"), path.clone());
        let place = anchor(&free).unwrap();
        steps::at("publish", move || fs_err::write(&theirs, "at the last moment").unwrap());
        let error = rename(&path, &before, &free, &place).unwrap_err();
        assert!(matches!(error, FileError::Stale(_)), "{error}");
        assert!(!free.exists());
        assert_eq!(fs_err::read(&path).unwrap(), b"at the last moment");
        assert_eq!(fs_err::read(&late).unwrap(), b"theirs");
    }

    #[test]
    fn nothing_is_replaced_by_a_move() {
        let (_dir, base) = folder();
        let (path, to) = (base.join("file"), base.join("to"));
        let place = anchor(&to).unwrap();
        fs_err::write(&to, "theirs").unwrap();
        let error = rename(&path, &stamp(&path), &to, &place).unwrap_err();
        assert!(matches!(error, FileError::Exists(_)), "{error}");
        assert_eq!(fs_err::read(&to).unwrap(), b"theirs");
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
    }

    #[test]
    fn what_changed_is_neither_moved_nor_removed() {
        let (_dir, base) = folder();
        let (path, to) = (base.join("file"), base.join("to"));
        let (before, place) = (stamp(&path), anchor(&to).unwrap());
        fs_err::write(&path, "new").unwrap();
        for result in [remove(&path, &before), rename(&path, &before, &to, &place)] {
            assert!(matches!(result, Err(FileError::Stale(_))), "{result:?}");
        }
        let theirs = path.clone();
        let before = stamp(&path);
        steps::at("check", move || fs_err::write(&theirs, "at the last moment").unwrap());
        assert!(matches!(remove(&path, &before), Err(FileError::Stale(_))));
        assert_eq!(fs_err::read(&path).unwrap(), b"at the last moment");
        assert!(!to.exists());
        remove(&path, &stamp(&path)).unwrap();
        assert_eq!(fs_err::read_dir(&base).unwrap().count(), 0);
    }
}
