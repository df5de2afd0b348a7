//! Private files and folders: modes hold under any umask, names are durable when synced, and what
//! is not a regular file is never waited for.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::Path;

use fs_err::os::unix::fs::OpenOptionsExt as _;
use fs_err::{File, OpenOptions};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::disk::Disk;
use crate::plant::Plant;
use crate::version::DRAFT;

const FOLDER_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

/// Opens a file that only its owner may read, also when it has just been created under a strange
/// umask.
pub(crate) fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = open_regular(path, options.mode(FILE_MODE))?;
    let mode = file.metadata()?.permissions().mode();
    if mode & 0o777 != FILE_MODE {
        file.set_permissions(std::fs::Permissions::from_mode(FILE_MODE))?;
    }
    Ok(file)
}

/// Opens a regular file and nothing else. A FIFO or a device would make its opener wait, and a link
/// may lead anywhere.
pub(crate) fn open_regular(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path)?;
    if !file.metadata()?.is_file() {
        let message = format!("{}: is not a regular file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    Ok(file)
}

/// Makes a file in a folder that has no name, or at once none any more.
pub(crate) fn open_nameless(folder: &Path) -> io::Result<std::fs::File> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    match rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Not every file system knows how.
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
            let path = folder.join(format!("{}-scratch{DRAFT}", std::process::id()));
            let mut options = OpenOptions::new();
            let file = open_private(&path, options.read(true).write(true).create_new(true))?;
            fs_err::remove_file(&path)?;
            Ok(file.into_parts().0)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes one folder that only its owner may use.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    match std::fs::DirBuilder::new().mode(FOLDER_MODE).create(path) {
        Ok(()) => fs_err::set_permissions(path, std::fs::Permissions::from_mode(FOLDER_MODE)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        Err(error) => Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    }
}

/// Makes the names in a folder durable.
pub(crate) fn sync_names(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    if Plant::NoFolderSync.is_in() {
        return Ok(());
    }
    disk.sync_folder(path)
}
