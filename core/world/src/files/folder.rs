//! What is in a folder.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, OFlags, Stat, readlinkat, statat};

use super::FileError;
use super::open::open_without_links;

/// The most entries of one folder that are read at all.
const MAX_READ: usize = 100_000;

/// One entry of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: OsString,
    /// What it is.
    pub kind: EntryKind,
}

/// What a folder's entry is; links are not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A folder.
    Folder,
    /// A regular file and its size in bytes.
    File(u64),
    /// A link and its text.
    Link(PathBuf),
    /// A FIFO, socket or device.
    Special,
}

/// The entries of a folder.
#[derive(Clone, Debug)]
pub struct Listing {
    /// Folders first, then by name; at most as many as asked for.
    pub entries: Vec<Entry>,
    /// How many entries there are.
    pub total: usize,
    /// Whether the folder has more entries than `total`, which then is where reading stopped.
    pub more: bool,
}

/// Lists a folder, hidden entries included.
pub(super) fn list(path: &Path, limit: usize) -> Result<Listing, FileError> {
    let failed = |error| FileError::io(path, error);
    let folder = open_without_links(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
    let mut names: Vec<(bool, OsString)> = Vec::new();
    let mut more = false;
    for entry in Dir::read_from(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        if names.len() == MAX_READ {
            more = true;
            break;
        }
        let name = OsString::from_vec(name.to_vec());
        let file_type = match entry.file_type() {
            // Some file systems leave the type to a stat.
            FileType::Unknown => statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW)
                .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode)),
            known => known,
        };
        names.push((file_type != FileType::Directory, name));
    }
    names.sort();
    let total = names.len();
    let entries = names
        .into_iter()
        .take(limit)
        .filter_map(|(_, name)| {
            // An entry that vanished since is left out.
            let stat = statat(&folder, &name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(Entry { kind: kind(&folder, &name, &stat), name })
        })
        .collect();
    Ok(Listing { entries, total, more })
}

fn kind(folder: impl std::os::fd::AsFd, name: &std::ffi::OsStr, stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Folder,
        FileType::RegularFile => EntryKind::File(u64::try_from(stat.st_size).unwrap_or_default()),
        FileType::Symlink => {
            let target = readlinkat(folder, name, Vec::new()).unwrap_or_default();
            EntryKind::Link(PathBuf::from(OsString::from_vec(target.into_bytes())))
        }
        _ => EntryKind::Special,
    }
}
