//! Opening by a resolved path without following any link.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, Stat, fstat, openat, openat2};
use rustix::io::Errno;

use super::FileError;

/// Which file an inode is, whatever it is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    device: u64,
    inode: u64,
}

/// Opens an absolute path; fails with `LOOP` or `NOTDIR` when any component is a link.
pub(super) fn open_without_links(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    match openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) {
        // Kernels and containers without openat2 answer with one of these.
        Err(Errno::NOSYS | Errno::PERM) => open_stepwise(path, flags),
        result => result,
    }
}

/// The same through one `openat` per component.
fn open_stepwise(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let step = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(last) = names.next_back() else {
        return openat(CWD, "/", flags, Mode::empty());
    };
    let mut folder = openat(CWD, "/", step, Mode::empty())?;
    for name in names {
        folder = openat(&folder, name, step, Mode::empty())?;
    }
    openat(&folder, last, flags, Mode::empty())
}

/// Whether something is at a path, and no link on the way to it.
pub(crate) fn is_reached_without_links(path: &Path) -> bool {
    open_without_links(path, OFlags::PATH).is_ok()
}

/// Opens a folder as a place to work relative to.
pub(super) fn open_folder(path: &Path) -> Result<OwnedFd, FileError> {
    open_without_links(path, OFlags::PATH | OFlags::DIRECTORY).map_err(|error| match error {
        Errno::NOTDIR | Errno::LOOP => FileError::Moved(path.to_owned()),
        _ => FileError::io(path, error),
    })
}

/// Opens a regular file for reading, and nothing else: what is there is looked at before it is
/// opened, and the opened file is looked at again.
pub(crate) fn open_regular(path: &Path) -> Result<File, FileError> {
    let place = open_without_links(path, OFlags::PATH).map_err(|e| FileError::io(path, e))?;
    require_regular(&place, path)?;
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_without_links(path, flags).map_err(|e| FileError::io(path, e))?;
    require_regular(&file, path)?;
    Ok(File::from(file))
}

/// The same at once, for a path at which a listing has just shown a regular file. Opening does not
/// wait, whatever is there by now, and a device, whose opening could do something, would have to be
/// put there by root.
pub(crate) fn open_listed(path: &Path) -> Result<(File, Stat), FileError> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open_without_links(path, flags).map_err(|e| FileError::io(path, e))?;
    let stat = require_regular(&file, path)?;
    Ok((File::from(file), stat))
}

/// The metadata of an open regular file; an error names anything else.
pub(super) fn require_regular(fd: impl AsFd, path: &Path) -> Result<Stat, FileError> {
    let stat = fstat(fd).map_err(|e| FileError::io(path, e))?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(stat),
        FileType::Directory => return Err(FileError::Folder(path.to_owned())),
        FileType::Symlink => return Err(FileError::Moved(path.to_owned())),
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown type",
    };
    Err(FileError::Special { path: path.to_owned(), kind })
}

pub(super) fn identity(fd: impl AsFd, path: &Path) -> Result<Identity, FileError> {
    fstat(fd).map(|stat| identity_of(&stat)).map_err(|e| FileError::io(path, e))
}

pub(super) fn identity_of(stat: &Stat) -> Identity {
    Identity { device: stat.st_dev, inode: stat.st_ino }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn no_component_may_be_a_link_either_way_of_opening() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        fs_err::create_dir(base.join("real")).unwrap();
        fs_err::write(base.join("real/file"), "x").unwrap();
        symlink("real", base.join("folder")).unwrap();
        symlink("real/file", base.join("link")).unwrap();
        for open in [open_without_links, open_stepwise] {
            let flags = OFlags::RDONLY | OFlags::NOFOLLOW;
            assert!(open(&base.join("real/file"), flags).is_ok());
            assert!(open(&base.join("folder/file"), flags).is_err());
            assert!(open(&base.join("link"), flags).is_err());
            assert!(open(Path::new("/"), OFlags::PATH).is_ok());
        }
    }

    #[test]
    fn special_files_are_refused_without_blocking() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = fs_err::canonicalize(dir.path()).unwrap().join("fifo");
        rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let error = open_regular(&fifo).unwrap_err();
        assert!(matches!(error, FileError::Special { kind: "a FIFO", .. }), "{error}");
        let error = open_regular(Path::new("/dev/zero")).unwrap_err();
        assert!(matches!(error, FileError::Special { kind: "a device", .. }), "{error}");
        assert!(matches!(open_regular(Path::new("/usr")), Err(FileError::Folder(_))));
    }

    /// One thread flips a folder between itself and a link to the outside; whatever is opened by
    /// the resolved path is never the outside file.
    #[test]
    fn a_racing_link_never_leads_outside() {
        use std::io::Read as _;
        use std::sync::atomic::{AtomicBool, Ordering};

        const READS: usize = 2_000;
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        for (folder, text) in [("real", "inside"), ("outside", "SECRET")] {
            fs_err::create_dir(base.join(folder)).unwrap();
            fs_err::write(base.join(folder).join("f"), text).unwrap();
        }
        let (at, link, real) = (base.join("at"), base.join("link"), base.join("real"));
        symlink("outside", &link).unwrap();
        fs_err::rename(&real, &at).unwrap();
        let stop = AtomicBool::new(false);
        let (mut opened, mut leaked) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let exchange = rustix::fs::RenameFlags::EXCHANGE;
                    rustix::fs::renameat_with(CWD, &at, CWD, &link, exchange).unwrap();
                }
            });
            for _ in 0..READS {
                if let Ok(mut file) = open_regular(&at.join("f")) {
                    let mut text = String::new();
                    file.read_to_string(&mut text).unwrap();
                    opened += 1;
                    leaked += usize::from(text != "inside");
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
        println!("{opened} of {READS} opens reached a file, {leaked} the outside one");
        assert_eq!(leaked, 0);
    }
}
