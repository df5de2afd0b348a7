//! Durable replacement and creation.
//!
//! A file is replaced by a temporary neighbour that is written, given the old owner, mode and
//! attributes, synced and renamed; the folder is synced too, so that after a power cut either the
//! old or the new content is there. Where a rename would lose something (other hard links, an
//! owner we may not give, a folder we may not write) the file is written in place, which is not
//! atomic. Before either, the content is compared once more with the version that the change was
//! computed on.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, Stat, fsync, mkdirat, openat};
use rustix::io::Errno;

use super::FileError;
use super::open::{Identity, identity, identity_of, open_folder, require_regular};
use super::read::{Stamp, links, read_all, require_writable};
use super::temporary::Temporary;

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
    let (parent, name) = split(path)?;
    let missing =
        parent.strip_prefix(&anchor.folder).map_err(|_| FileError::Moved(path.to_owned()))?;
    let mut folder = open_folder(&anchor.folder)?;
    if identity(&folder, &anchor.folder)? != anchor.identity {
        return Err(FileError::Moved(path.to_owned()));
    }
    for part in missing.components() {
        folder = enter_or_create(&folder, part.as_os_str()).map_err(failed)?;
    }
    let mut temporary =
        Temporary::new(&folder, name, Mode::from_raw_mode(0o666)).map_err(failed)?;
    temporary.write(bytes).map_err(|e| FileError::io(path, e))?;
    temporary.publish_new().map_err(failed)?;
    sync_folder(&folder).map_err(failed)
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
    let (parent, name) = split(path)?;
    let folder = open_folder(parent)?;
    let target = Target { path, folder: &folder, name, stamp };
    let (_, stat) = target.open(OFlags::RDONLY)?;
    require_writable(&stat, path)?;
    if target.replace_by_rename(&stat, bytes)? { Ok(()) } else { target.write_in_place(bytes) }
}

struct Target<'a> {
    path: &'a Path,
    folder: &'a OwnedFd,
    name: &'a OsStr,
    stamp: &'a Stamp,
}

impl Target<'_> {
    /// Opens the file relative to its folder and checks that it is the one, under no more names.
    fn open(&self, access: OFlags) -> Result<(File, Stat), FileError> {
        let flags = access | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let fd = openat(self.folder, self.name, flags, Mode::empty())
            .map_err(|e| FileError::io(self.path, e))?;
        let stat = require_regular(&fd, self.path)?;
        if identity_of(&stat) != self.stamp.identity {
            return Err(FileError::Moved(self.path.to_owned()));
        }
        if links(&stat) > self.stamp.links.max(1) {
            return Err(FileError::Linked(self.path.to_owned()));
        }
        Ok((File::from(fd), stat))
    }

    fn check_content(&self, file: &mut File) -> Result<(), FileError> {
        let stale = || FileError::Stale(self.path.to_owned());
        let bytes = read_all(file, self.path, self.stamp.len).map_err(|error| match error {
            FileError::TooLarge { .. } => stale(),
            error => error,
        })?;
        if blake3::hash(&bytes) == self.stamp.hash { Ok(()) } else { Err(stale()) }
    }

    /// `false` when the file must be written in place.
    fn replace_by_rename(&self, stat: &Stat, bytes: &[u8]) -> Result<bool, FileError> {
        if stat.st_nlink > 1 {
            return Ok(false);
        }
        let private = Mode::RUSR | Mode::WUSR;
        let mut temporary = match Temporary::new(self.folder, self.name, private) {
            Ok(temporary) => temporary,
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS) => return Ok(false),
            Err(error) => return Err(FileError::io(self.path, error)),
        };
        temporary.write(bytes).map_err(|e| FileError::io(self.path, e))?;
        let (mut current, stat) = self.open(OFlags::RDONLY)?;
        if temporary.take_after(&current, &stat).is_err() {
            return Ok(false);
        }
        self.check_content(&mut current)?;
        match temporary.publish_over() {
            Ok(()) => {}
            // A bind-mounted file cannot be renamed over.
            Err(Errno::BUSY) => return Ok(false),
            Err(error) => return Err(FileError::io(self.path, error)),
        }
        sync_folder(self.folder).map_err(|e| FileError::io(self.path, e))?;
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

fn sync_folder(folder: &OwnedFd) -> rustix::io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = openat(folder.as_fd(), ".", flags, Mode::empty()).and_then(fsync);
    match opened {
        // A folder that may be written but not listed, or a file system that syncs no folders:
        // the content is safe, only the moment at which the name is safe is the kernel's.
        Err(Errno::ACCESS | Errno::INVAL) => Ok(()),
        result => result,
    }
}

fn split(path: &Path) -> Result<(&Path, &OsStr), FileError> {
    path.parent().zip(path.file_name()).ok_or_else(|| FileError::Folder(path.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use rustix::fs::XattrFlags;

    use super::*;
    use crate::files::read::read_for_change;

    const LIMIT: u64 = 1 << 20;

    fn stamp(path: &Path) -> Stamp {
        read_for_change(path, LIMIT).unwrap().1
    }

    fn folder() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        (dir, base)
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs_err::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    fn set_mode(path: &Path, mode: u32) {
        fs_err::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_replacement_keeps_mode_and_attributes_and_leaves_no_neighbour() {
        let (_dir, base) = folder();
        let path = base.join("file");
        fs_err::write(&path, "old").unwrap();
        set_mode(&path, 0o751);
        let attribute = rustix::fs::setxattr(&path, "user.note", b"v", XattrFlags::empty()).is_ok();
        let before = stamp(&path);
        replace(&path, &before, b"new").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"new");
        assert_eq!(fs_err::metadata(&path).unwrap().mode() & 0o7777, 0o751);
        assert_ne!(stamp(&path).identity, before.identity, "renamed, not written in place");
        assert_eq!(names(&base), ["file"]);
        if attribute {
            let mut value = [0_u8; 8];
            let len = rustix::fs::getxattr(&path, "user.note", &mut value[..]).unwrap();
            assert_eq!(&value[..len], b"v");
        }
    }

    #[test]
    fn hard_links_stay_one_file() {
        let (_dir, base) = folder();
        let (path, other) = (base.join("file"), base.join("other"));
        fs_err::write(&path, "a longer old text").unwrap();
        fs_err::hard_link(&path, &other).unwrap();
        let before = stamp(&path);
        replace(&path, &before, b"new").unwrap();
        assert_eq!(fs_err::read(&other).unwrap(), b"new");
        assert_eq!(fs_err::metadata(&other).unwrap().nlink(), 2);
    }

    #[test]
    fn changed_content_is_not_overwritten_either_way_of_writing() {
        for links in [1, 2] {
            let (_dir, base) = folder();
            let path = base.join("file");
            fs_err::write(&path, "old").unwrap();
            if links == 2 {
                fs_err::hard_link(&path, base.join("other")).unwrap();
            }
            let before = stamp(&path);
            for theirs in ["ole", "something longer"] {
                fs_err::write(&path, theirs).unwrap();
                let error = replace(&path, &before, b"new").unwrap_err();
                assert!(matches!(error, FileError::Stale(_)), "{error}");
                assert_eq!(fs_err::read_to_string(&path).unwrap(), theirs);
            }
            assert_eq!(names(&base).len(), links);
        }
    }

    #[test]
    fn another_file_or_a_link_in_its_place_is_refused() {
        let (_dir, base) = folder();
        let (path, secret) = (base.join("file"), base.join("secret"));
        fs_err::write(&path, "old").unwrap();
        fs_err::write(&secret, "old").unwrap();
        let before = stamp(&path);
        fs_err::remove_file(&path).unwrap();
        symlink(&secret, &path).unwrap();
        let error = replace(&path, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::Moved(_)), "{error}");
        fs_err::remove_file(&path).unwrap();
        fs_err::rename(&secret, &path).unwrap();
        let error = replace(&path, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::Moved(_)), "{error}");
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_folder_on_the_way_that_became_a_link_is_refused() {
        let (_dir, base) = folder();
        fs_err::create_dir(base.join("sub")).unwrap();
        fs_err::create_dir(base.join("outside")).unwrap();
        let (file, new) = (base.join("sub/file"), base.join("sub/deep/new"));
        fs_err::write(&file, "old").unwrap();
        let before = stamp(&file);
        let place = anchor(&new).unwrap();
        fs_err::rename(base.join("sub"), base.join("moved")).unwrap();
        symlink("moved", base.join("sub")).unwrap();
        let error = replace(&file, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::Moved(_)), "{error}");
        let error = create(&new, &place, b"new").unwrap_err();
        assert!(matches!(error, FileError::Moved(_)), "{error}");
        assert_eq!(names(&base.join("moved")), ["file"]);
        assert_eq!(fs_err::read(base.join("moved/file")).unwrap(), b"old");
    }

    #[test]
    fn a_name_that_the_file_got_since_is_not_written_through() {
        let (_dir, base) = folder();
        let path = base.join("file");
        fs_err::write(&path, "old").unwrap();
        let before = stamp(&path);
        assert_eq!(before.links, 1);
        fs_err::hard_link(&path, base.join("other")).unwrap();
        let error = replace(&path, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::Linked(_)), "{error}");
        assert_eq!(fs_err::read(base.join("other")).unwrap(), b"old");
    }

    #[test]
    fn a_write_protected_file_stays() {
        let (_dir, base) = folder();
        let path = base.join("file");
        fs_err::write(&path, "old").unwrap();
        let before = stamp(&path);
        set_mode(&path, 0o444);
        let error = replace(&path, &before, b"new").unwrap_err();
        assert!(matches!(error, FileError::WriteProtected { mode: 0o444, .. }), "{error}");
        assert_eq!(fs_err::read(&path).unwrap(), b"old");
    }

    #[test]
    fn creating_makes_folders_and_never_replaces() {
        let (_dir, base) = folder();
        let path = base.join("a/b/file");
        let place = anchor(&path).unwrap();
        create(&path, &place, b"one").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"one");
        assert_eq!(names(&base.join("a/b")), ["file"]);
        assert!(matches!(anchor(&path), Err(FileError::Exists(_))));
        let error = create(&path, &place, b"two").unwrap_err();
        assert!(matches!(error, FileError::Exists(_)), "{error}");
        assert_eq!(fs_err::read(&path).unwrap(), b"one");
        assert_eq!(names(&base.join("a/b")), ["file"]);
    }

    #[test]
    fn a_name_of_the_longest_length_can_be_replaced() {
        let (_dir, base) = folder();
        let path = base.join("n".repeat(255));
        fs_err::write(&path, "old").unwrap();
        let before = stamp(&path);
        replace(&path, &before, b"new").unwrap();
        assert_eq!(fs_err::read(&path).unwrap(), b"new");
    }
}
