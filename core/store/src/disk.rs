//! The file system as the store uses it: few operations, each of which can fail, and none of
//! which is durable before its sync. [`RealDisk`] is the machine's; tests put a simulated one
//! under the same code, which forgets what was not synced.

use std::ffi::OsString;
use std::fmt::Debug;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::SystemTime;

use fs_err::{File, OpenOptions};
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;

use crate::folder;
use crate::lock::{Lock, LockError};

/// What a file is opened for. Every one is appended to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    /// It is there.
    Existing,
    /// It is created, or emptied.
    Empty,
    /// It is created; it is an error when it is there.
    New,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A link, a FIFO, a device or a socket.
    Other,
}

/// Folders, files and names.
pub(crate) trait Disk: Debug + Send + Sync {
    /// The names in a folder.
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>>;

    /// What is at the path itself; a link is not followed.
    fn kind(&self, path: &Path) -> io::Result<Kind>;

    /// Whether a folder is at the path.
    fn is_folder(&self, path: &Path) -> bool;

    /// Makes a folder for its owner only; its parent must be there.
    fn make_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> io::Result<()>;

    /// Removes a file, a link or whatever else is no folder.
    fn remove_file(&self, path: &Path) -> io::Result<()>;

    /// When the content of a file or the names in a folder last changed.
    fn modified(&self, path: &Path) -> io::Result<SystemTime>;

    /// How many bytes a file has.
    fn size(&self, path: &Path) -> io::Result<u64>;

    /// Makes the names in a folder durable.
    fn sync_folder(&self, path: &Path) -> io::Result<()>;

    /// Reads a whole file; more than `limit` bytes are [`io::ErrorKind::FileTooLarge`].
    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>>;

    /// Reads `len` bytes from `start`.
    fn read_range(&self, path: &Path, start: u64, len: usize) -> io::Result<Vec<u8>>;

    /// Opens a file for its owner only.
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>>;

    /// A file of this disk that has no name and goes with its handle.
    fn scratch(&self, folder: &Path) -> io::Result<std::fs::File>;

    /// Gives a file another name; what has that name goes.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Gives a file or folder another name, which must be free.
    fn publish(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Takes the lock whose file is at the path; it is held until the guard is dropped.
    fn lock(&self, path: &Path) -> Result<Box<dyn Guard>, LockError>;
}

/// An open file.
pub(crate) trait DiskFile: Send {
    /// Appends; a failure may have written a part.
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Cuts the file.
    fn set_len(&mut self, len: u64) -> io::Result<()>;

    /// Makes content and length durable, not the name.
    fn sync(&mut self) -> io::Result<()>;
}

/// A held lock.
pub(crate) trait Guard: Send + Debug {}

impl Guard for Lock {}

/// The file system of the machine.
#[derive(Debug)]
pub(crate) struct RealDisk;

impl Disk for RealDisk {
    fn names(&self, folder: &Path) -> io::Result<Vec<OsString>> {
        fs_err::read_dir(folder)?.map(|entry| Ok(entry?.file_name())).collect()
    }

    fn kind(&self, path: &Path) -> io::Result<Kind> {
        let kind = fs_err::symlink_metadata(path)?.file_type();
        Ok(match () {
            () if kind.is_file() => Kind::File,
            () if kind.is_dir() => Kind::Folder,
            () => Kind::Other,
        })
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn make_folder(&self, path: &Path) -> io::Result<()> {
        folder::make_private(path)
    }

    fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs_err::remove_dir(path)
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs_err::remove_file(path)
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        Ok(fs_err::symlink_metadata(path)?.len())
    }

    fn modified(&self, path: &Path) -> io::Result<SystemTime> {
        fs_err::symlink_metadata(path)?.modified()
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        match File::open(path)?.sync_all() {
            // Some network and user-space file systems cannot sync a folder at all.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
            result => result,
        }
    }

    fn read(&self, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
        let file = folder::open_regular(path, OpenOptions::new().read(true))?;
        let len = file.metadata()?.len();
        if len > limit {
            let message = format!("{len} bytes are more than {limit}");
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
        }
        let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or_default());
        file.take(limit).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_range(&self, path: &Path, start: u64, len: usize) -> io::Result<Vec<u8>> {
        let mut file = folder::open_regular(path, OpenOptions::new().read(true))?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = vec![0; len];
        file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        options.append(true);
        match how {
            Open::Existing => (),
            Open::Empty => drop(options.create(true)),
            Open::New => drop(options.create_new(true)),
        }
        let file = folder::open_private(path, &mut options)?;
        if how == Open::Empty {
            file.set_len(0)?;
        }
        Ok(Box::new(file))
    }

    fn scratch(&self, folder: &Path) -> io::Result<std::fs::File> {
        folder::open_nameless(folder)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs_err::rename(from, to)
    }

    fn publish(&self, from: &Path, to: &Path) -> io::Result<()> {
        let published = match rustix::fs::renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
        {
            // Not every file system knows how; a second name for the file never takes another's.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                return fs_err::hard_link(from, to).and_then(|()| fs_err::remove_file(from));
            }
            published => published.map_err(io::Error::from),
        };
        published
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", to.display())))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Guard>, LockError> {
        Ok(Box::new(Lock::acquire(path)?))
    }
}

impl DiskFile for File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self, bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        File::set_len(self, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}
