//! Puts aside what came to stand, while a command ran, where other programs would execute or obey
//! it and no wall could keep it from coming. It gets another name in the same folder, so nothing is
//! lost, whoever made it.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{CWD, Mode, OFlags, RenameFlags, ResolveFlags, openat2, renameat, renameat_with};
use rustix::io::Errno;

/// What was put aside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutAside {
    /// Where it stood.
    pub from: PathBuf,
    /// Where it is now.
    pub to: PathBuf,
}

/// Gives what stands at `path` another name. No link on the way is followed, so that what another
/// command does at the same time cannot make it something else.
pub(super) fn put_aside(path: &Path) -> io::Result<PutAside> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let mut other = OsString::from(name);
    other.push(format!(".put-aside-{:08x}", fastrand::u32(..)));
    let place = open(folder)?;
    match rename(place.as_fd(), Path::new(name), Path::new(&other)) {
        // The command may have made it a folder in which nothing can be renamed.
        Err(Errno::ACCESS | Errno::PERM) => {
            let mode = Mode::from_raw_mode(rustix::fs::fstat(&place)?.st_mode);
            rustix::fs::fchmod(&place, mode | Mode::RWXU)?;
            let renamed = rename(place.as_fd(), Path::new(name), Path::new(&other));
            rustix::fs::fchmod(&place, mode)?;
            renamed?;
        }
        renamed => renamed?,
    }
    Ok(PutAside { from: path.to_owned(), to: folder.join(other) })
}

fn open(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let no_links = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(CWD, folder, flags, Mode::empty(), no_links)?)
}

fn rename(folder: BorrowedFd<'_>, from: &Path, to: &Path) -> rustix::io::Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Not every file system can promise that nothing has the other name, which nobody can guess.
        Err(Errno::INVAL | Errno::NOSYS) => renameat(folder, from, folder, to),
        renamed => renamed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_aside_is_whole_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(folder.path()).unwrap();
        fs_err::create_dir_all(base.join("x/.git")).unwrap();
        fs_err::write(base.join("x/.git/config"), "text").unwrap();
        std::os::unix::fs::symlink("x", base.join("y")).unwrap();
        assert!(put_aside(&base.join("y/.git")).is_err());
        let moved = put_aside(&base.join("x/.git")).unwrap();
        assert!(!base.join("x/.git").exists());
        assert_eq!(fs_err::read_to_string(moved.to.join("config")).unwrap(), "text");
    }
}
