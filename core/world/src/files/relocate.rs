//! Taking a file away from its name: to another name, or for good.
//!
//! What turns out to be another file, or to hold something else than its version, is put back.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use rustix::fs::{AtFlags, OFlags, RenameFlags, linkat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::FileError;
use super::read::Stamp;
use super::replace::{Anchor, enter};
use super::steps::took;
use super::target::{Target, split, sync_folder};
use super::temporary::{free_name, hold};

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

/// Gives a file another name where nothing is, if it still is as `stamp` says.
pub(super) fn rename(
    path: &Path,
    stamp: &Stamp,
    to: &Path,
    place: &Anchor,
) -> Result<(), FileError> {
    let target = Target::new(path, stamp)?;
    let (mut file, _) = target.open(OFlags::RDONLY)?;
    target.check_mark(&mut file)?;
    let failed = |error| FileError::io(to, error);
    let (_, name) = split(to)?;
    let folder = enter(to, place)?;
    let moved = Target { path, folder, name: target.name, stamp };
    match renameat_with(&target.folder, target.name, &moved.folder, name, RenameFlags::NOREPLACE) {
        // The file system does not know the flag; a link never replaces either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(&target.folder, target.name, &moved.folder, name, AtFlags::empty())
                .map_err(failed)?;
            unlinkat(&target.folder, target.name, AtFlags::empty())
                .map_err(|e| target.failed(e))?;
        }
        result => result.map_err(failed)?,
    }
    took("publish");
    if let Err(error) = moved.check_displaced(name) {
        let flags = RenameFlags::NOREPLACE;
        renameat_with(&moved.folder, name, &target.folder, target.name, flags).map_err(failed)?;
        return Err(error);
    }
    sync_folder(&moved.folder).map_err(failed)?;
    sync_folder(&target.folder).map_err(|e| target.failed(e))
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
