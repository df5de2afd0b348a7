//! Empty folders that stand, while a command runs, where nothing may be created: only what exists
//! can be kept from being replaced.
//!
//! Each command keeps a record of those that it relies on, locked as long as it runs. A placeholder
//! goes when no record that is locked names it; the record of a command that was killed with all
//! that watched it is found unlocked, and its placeholders go with the next. Only empty folders are
//! removed, so nothing can be lost.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, flock};
use rustix::io::Errno;

use super::policy::Policy;

/// The lock under which records and placeholders change.
const LOCK: &str = "lock";

/// Ends the names of records.
const RECORD: &str = "placeholders";

/// The longest record, in bytes.
const MAX_RECORD: u64 = 16 * 1024 * 1024;

/// The placeholders of one command.
#[derive(Debug)]
pub(crate) struct Placeholders {
    folder: PathBuf,
    record: fs_err::File,
}

impl Placeholders {
    /// Makes what `policy` needs. A place where none can be made is one where the command cannot
    /// create anything either.
    ///
    /// # Errors
    /// When no record can be kept.
    pub(crate) fn make(policy: &Policy) -> io::Result<Self> {
        let folder = policy.records.clone();
        let _held = lock(&folder)?;
        let Policy { protected, .. } = policy;
        let mut all = protected.absent.clone();
        // What others hold absent is there, so it was found like anything else.
        all.extend(Records::read(&folder)?.needed.into_iter().filter(|held| {
            let mut found = protected.present.iter().chain(&protected.absent);
            found.any(|path| path.starts_with(held))
        }));
        let name = format!("{}-{:x}.{RECORD}", std::process::id(), fastrand::u64(..));
        let mut record = fs_err::File::create_new(folder.join(name))?;
        flock(&record, FlockOperation::NonBlockingLockExclusive)?;
        let paths = all.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]);
        record.write_all(&paths.collect::<Vec<_>>().concat())?;
        for path in &all {
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)).ok();
        }
        Ok(Self { folder, record })
    }

    /// Removes those that nobody else relies on.
    pub(crate) fn remove(self) -> io::Result<()> {
        drop(self.record);
        remove_abandoned(&self.folder)
    }
}

/// Removes the placeholders of commands that run no more, and their records.
///
/// # Errors
/// When the records in `folder` cannot be read. Placeholders that are not empty any more stay.
pub fn remove_abandoned(folder: &Path) -> io::Result<()> {
    let _held = lock(folder)?;
    let Records { needed, abandoned } = Records::read(folder)?;
    let listed = abandoned.iter().flat_map(|(_, listed)| listed);
    let mut listed: Vec<&PathBuf> = listed.filter(|path| !needed.contains(*path)).collect();
    // What is in a folder before the folder.
    listed.sort_unstable();
    for path in listed.into_iter().rev() {
        // Whatever has come into it is somebody's, and keeps it.
        rustix::fs::rmdir(path).ok();
    }
    for (record, _) in abandoned {
        fs_err::remove_file(record)?;
    }
    Ok(())
}

/// What the records of a folder, whose lock is held, say.
#[derive(Default)]
struct Records {
    /// What commands that run rely on.
    needed: HashSet<PathBuf>,
    /// The records of others, and what they relied on.
    abandoned: Vec<(PathBuf, Vec<PathBuf>)>,
}

impl Records {
    fn read(folder: &Path) -> io::Result<Self> {
        let mut found = Self::default();
        for entry in fs_err::read_dir(folder)? {
            let path = entry?.path();
            if path.extension() != Some(OsStr::new(RECORD)) {
                continue;
            }
            let record = fs_err::File::open(&path)?;
            let too_long = record.metadata()?.len() > MAX_RECORD;
            let listed = if too_long { Vec::new() } else { read(&path)? };
            match flock(&record, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => found.abandoned.push((path, listed)),
                Err(Errno::WOULDBLOCK) => found.needed.extend(listed),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

fn read(record: &Path) -> io::Result<Vec<PathBuf>> {
    let bytes = fs_err::read(record)?;
    let paths = bytes.split(|byte| *byte == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| PathBuf::from(OsStr::from_bytes(path))).collect())
}

/// Takes the lock of a folder of records; it is let go of when the file is closed.
fn lock(folder: &Path) -> io::Result<fs_err::File> {
    let path = folder.join(LOCK);
    let file = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sandbox::{Access, Network, Protected};

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        records: PathBuf,
    }

    impl Place {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let (root, records) = (folder.path().join("root"), folder.path().join("records"));
            fs_err::create_dir(&root).unwrap();
            fs_err::create_dir(&records).unwrap();
            Self { _folder: folder, root, records }
        }

        fn make(&self, names: &[&str]) -> Placeholders {
            self.make_for(Protected { absent: self.paths(names), ..Protected::default() })
        }

        fn paths(&self, names: &[&str]) -> Vec<PathBuf> {
            names.iter().map(|name| self.root.join(name)).collect()
        }

        fn make_for(&self, protected: Protected) -> Placeholders {
            let policy = Policy {
                access: Access::WorkspaceWrite,
                roots: vec![self.root.clone()],
                writable: Vec::new(),
                protected,
                masked: Vec::new(),
                temporary: None,
                network: Network::Off,
                records: self.records.clone(),
            };
            Placeholders::make(&policy).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let entries = fs_err::read_dir(&self.root).unwrap();
            let mut names: Vec<String> =
                entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }

        fn records(&self) -> usize {
            fs_err::read_dir(&self.records).unwrap().count() - 1
        }
    }

    #[test]
    fn the_last_that_needs_a_placeholder_removes_it() {
        let place = Place::new();
        let first = place.make(&[".git", ".vscode"]);
        let second = place.make(&[".git", ".idea"]);
        first.remove().unwrap();
        assert_eq!(place.names(), [".git", ".idea"]);
        second.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn what_another_holds_absent_stays_as_long_as_it_was_found() {
        let place = Place::new();
        let first = place.make(&[".git", ".vscode"]);
        // As a look finds it now: `.vscode` is there, and `.git` is a folder without hooks.
        let second = place.make_for(Protected {
            present: place.paths(&[".vscode"]),
            absent: place.paths(&[".git/hooks"]),
            ..Protected::default()
        });
        first.remove().unwrap();
        assert_eq!(place.names(), [".git", ".vscode"]);
        second.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn what_a_killed_command_left_goes_with_the_next_look() {
        let place = Place::new();
        // Closing the record is what the kernel does for a killed process.
        drop(place.make(&[".git"]));
        assert_eq!((place.names(), place.records()), (vec![".git".to_owned()], 1));
        remove_abandoned(&place.records).unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn what_is_not_empty_is_never_removed() {
        let place = Place::new();
        let made = place.make(&[".git", ".vscode"]);
        fs_err::write(place.root.join(".git/config"), "mine").unwrap();
        made.remove().unwrap();
        assert_eq!(place.names(), [".git"]);
    }
}
