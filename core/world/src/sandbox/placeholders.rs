//! Empty folders that stand, while a command runs, where nothing may be created: only what exists
//! can be kept from being replaced.
//!
//! Each command keeps a record of those that it relies on, locked as long as it runs. A placeholder
//! goes when no record that is locked names it; the record of a command that was killed with all
//! that watched it is found unlocked, and its placeholders go with the next. Only empty folders go,
//! so nothing can be lost. A folder that a command made on the way to one ([`Ways`]) is in no record any more.
//!
//! One that goes is kept beside the records and moved to where the next is needed: to remove a folder
//! takes a hundred times as long as to move it where the file system tells the disk of each block
//! that comes free.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, Mode, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

use super::protected::is_absent;
use super::ways::Ways;

/// The lock under which records and placeholders change.
const LOCK: &str = "lock";

/// Ends the names of records.
const RECORD: &str = "placeholders";

/// The folder of placeholders that wait to be used again.
const SPARE: &str = "spare";

/// How many of them are kept.
const MAX_SPARE: usize = 64;

/// The longest record, in bytes.
const MAX_RECORD: u64 = 16 * 1024 * 1024;

/// A name that no other record has.
pub(super) fn name_of_record() -> String {
    format!("{}-{:x}.{RECORD}", std::process::id(), fastrand::u64(..))
}

/// Where one command's placeholders are on record.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    folder: PathBuf,
    path: PathBuf,
}

impl Record {
    pub(super) fn new(folder: &Path, name: &str) -> Self {
        Self { folder: folder.to_owned(), path: folder.join(name) }
    }

    /// Removes the placeholders of a command that is over and whose processes could not do that, although
    /// one that has not wholly ended may still hold the record. Blocks.
    ///
    /// # Errors
    /// When the records cannot be read.
    pub(crate) fn give_up(&self) -> io::Result<()> {
        let _held = lock(&self.folder)?;
        clear(&self.folder, Some(&self.path))
    }
}

/// The placeholders of one command.
#[derive(Debug)]
pub(crate) struct Placeholders {
    folder: PathBuf,
    record: fs_err::File,
    ways: Option<Ways>,
}

impl Placeholders {
    /// Makes those for `absent` and puts them on `record`. A place where none can be made is one where the
    /// command cannot create anything either.
    ///
    /// # Errors
    /// When no record can be kept.
    pub(crate) fn make(record: Record, absent: &[PathBuf]) -> io::Result<Self> {
        let Record { folder, path: name } = record;
        let _held = lock(&folder)?;
        let held = Records::read(&folder, None)?.needed;
        // Folders on the way to one that are not there either, and those that others hold absent.
        let mut all: Vec<&Path> = absent
            .iter()
            .flat_map(|path| path.ancestors().take_while(|it| held.contains(*it) || is_absent(it)))
            .collect();
        all.sort_unstable();
        all.dedup();
        let ways = Ways::among(&all, absent)?;
        let mut record = fs_err::File::create_new(name)?;
        flock(&record, FlockOperation::NonBlockingLockExclusive)?;
        let paths = all.iter().flat_map(|path| [path.as_os_str().as_bytes(), b"\0"]);
        record.write_all(&paths.collect::<Vec<_>>().concat())?;
        let mut spare = Spare::find(&folder)?;
        all.iter().for_each(|path| spare.make(path));
        Ok(Self { folder, record, ways })
    }

    /// The ways to them, for who watches the command and removes nothing.
    pub(crate) fn into_ways(self) -> Option<Ways> {
        self.ways
    }

    /// Removes those that nobody else relies on.
    pub(crate) fn remove(self) -> io::Result<()> {
        let Self { folder, record, ways } = self;
        let given = ways.map_or_else(|| Ok(HashSet::new()), |ways| ways.given())?;
        let _held = lock(&folder)?;
        if !given.is_empty() {
            strike(&folder, &given)?;
        }
        drop(record);
        clear(&folder, None)
    }
}

/// Removes the placeholders of commands that run no more, and their records.
///
/// # Errors
/// When the records in `folder` cannot be read. Placeholders that are not empty any more stay.
pub fn remove_abandoned(folder: &Path) -> io::Result<()> {
    let _held = lock(folder)?;
    clear(folder, None)
}

/// Does that, in a folder whose lock is held, and takes the record `given_up` for abandoned.
fn clear(folder: &Path, given_up: Option<&Path>) -> io::Result<()> {
    let Records { needed, abandoned } = Records::read(folder, given_up)?;
    let listed = abandoned.iter().flat_map(|(_, listed)| listed);
    let mut listed: Vec<&PathBuf> = listed.filter(|path| !needed.contains(*path)).collect();
    // What is in a folder before the folder.
    listed.sort_unstable();
    let mut spare = Spare::find(folder)?;
    listed.into_iter().rev().for_each(|path| spare.remove(path));
    for (record, _) in abandoned {
        fs_err::remove_file(record)?;
    }
    Ok(())
}

/// Takes what is no placeholder any more out of every record in a folder whose lock is held.
fn strike(folder: &Path, given: &HashSet<PathBuf>) -> io::Result<()> {
    for path in records(folder)? {
        let (bytes, mut at) = (fs_err::read(&path)?, 0);
        let record = fs_err::OpenOptions::new().write(true).open(&path)?;
        for listed in bytes.split(|byte| *byte == 0) {
            if given.contains(Path::new(OsStr::from_bytes(listed))) {
                record.file().write_all_at(&vec![0; listed.len()], at)?;
            }
            at += listed.len() as u64 + 1;
        }
    }
    Ok(())
}

/// The placeholders that commands which run rely on, as far as the records in `folder` can be read, and
/// nothing has come into them. Blocks.
pub fn standing(folder: &Path) -> HashSet<PathBuf> {
    let needed =
        lock(folder).and_then(|_held| Records::read(folder, None)).map(|found| found.needed);
    needed.unwrap_or_default().into_iter().filter(|path| is_empty_folder(path)).collect()
}

/// The placeholders that wait beside the records, whose lock is held.
struct Spare {
    folder: PathBuf,
    waiting: Vec<PathBuf>,
}

impl Spare {
    fn find(records: &Path) -> io::Result<Self> {
        let folder = records.join(SPARE);
        match rustix::fs::mkdir(&folder, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        let waiting = fs_err::read_dir(&folder)?.map(|entry| Ok(entry?.path()));
        Ok(Self { waiting: waiting.collect::<io::Result<_>>()?, folder })
    }

    /// Makes an empty folder where nothing is. Where none can be made, a command cannot either.
    fn make(&mut self, path: &Path) {
        let moved = self.waiting.pop().is_some_and(|waiting| move_to(&waiting, path).is_ok());
        // It stays where it is when the place is on another file system.
        if !moved {
            rustix::fs::mkdir(path, Mode::from_raw_mode(0o755)).ok();
        }
    }

    /// Takes an empty folder away. Whatever has come into it is somebody's, and keeps it.
    fn remove(&mut self, path: &Path) {
        if !is_empty_folder(path) {
            return;
        }
        let to = self.folder.join(format!("{:x}", fastrand::u64(..)));
        if self.waiting.len() == MAX_SPARE || move_to(path, &to).is_err() {
            rustix::fs::rmdir(path).ok();
        } else if is_empty_folder(&to) {
            self.waiting.push(to);
        } else if move_to(&to, path).is_err() {
            // What came just now is found beside the records, because there is another one as well.
            move_to(&to, &self.folder.with_extension(format!("{:x}", fastrand::u64(..)))).ok();
        }
    }
}

/// Whether this is a folder, and no link to one, in which nothing is.
pub(super) fn is_empty_folder(folder: &Path) -> bool {
    let is_folder = fs_err::symlink_metadata(folder).is_ok_and(|found| found.is_dir());
    is_folder && fs_err::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

/// Moves a folder to where nothing is.
fn move_to(from: &Path, to: &Path) -> rustix::io::Result<()> {
    renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE)
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
    fn read(folder: &Path, given_up: Option<&Path>) -> io::Result<Self> {
        let mut found = Self::default();
        for path in records(folder)? {
            let record = fs_err::File::open(&path)?;
            let too_long = record.metadata()?.len() > MAX_RECORD;
            let listed = if too_long { Vec::new() } else { read(&path)? };
            match flock(&record, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) | Err(Errno::WOULDBLOCK) if given_up == Some(&path) => {
                    found.abandoned.push((path, listed));
                }
                Ok(()) => found.abandoned.push((path, listed)),
                Err(Errno::WOULDBLOCK) => found.needed.extend(listed),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(found)
    }
}

/// The records in a folder.
fn records(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder)? {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(RECORD)) {
            found.push(path);
        }
    }
    Ok(found)
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
    use crate::sandbox::Protected;

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
            let absent = names.iter().map(|name| self.root.join(name)).collect();
            self.make_for(Protected { absent, ..Protected::default() })
        }

        fn make_for(&self, protected: Protected) -> Placeholders {
            Placeholders::make(self.record(), &protected.absent).unwrap()
        }

        fn record(&self) -> Record {
            Record::new(&self.records, &name_of_record())
        }

        fn names(&self) -> Vec<String> {
            let entries = fs_err::read_dir(&self.root).unwrap();
            let mut names: Vec<String> =
                entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
            names.sort();
            names
        }

        fn records(&self) -> usize {
            fs_err::read_dir(&self.records).unwrap().count() - 2
        }
    }

    #[test]
    fn the_last_that_needs_a_placeholder_removes_it() {
        let place = Place::new();
        let first = place.make(&[".git", ".vscode"]);
        let second = place.make(&[".git", ".idea"]);
        first.remove().unwrap();
        assert_eq!(place.names(), [".git", ".idea"]);
        let standing = |names: &[&str]| names.iter().map(|name| place.root.join(name)).collect();
        assert_eq!(super::standing(&place.records), standing(&[".git", ".idea"]));
        fs_err::write(place.root.join(".idea/own"), "").unwrap();
        assert_eq!(super::standing(&place.records), standing(&[".git"]));
        fs_err::remove_file(place.root.join(".idea/own")).unwrap();
        second.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn what_another_holds_absent_is_relied_on_by_whoever_finds_it() {
        let place = Place::new();
        let first = place.make(&[".git", ".vscode"]);
        let look = Protected::below(&place.root).unwrap();
        let second = place.make_for(look.clone());
        first.remove().unwrap();
        assert!(place.names().contains(&".git".to_owned()));
        second.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
        // Also when it has gone between the look and the command.
        let third = place.make_for(look);
        assert!(place.names().contains(&".git".to_owned()));
        third.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn the_way_to_a_placeholder_goes_with_it_and_empty_folders_of_the_user_stay() {
        let place = Place::new();
        fs_err::create_dir(place.root.join(".idea")).unwrap();
        let made = place.make(&[".config/x/y", ".idea"]);
        assert!(place.root.join(".config/x/y").is_dir());
        made.remove().unwrap();
        assert_eq!((place.names(), place.records()), (vec![".idea".to_owned()], 0));
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
    fn what_is_given_up_goes_while_its_record_is_held_and_nothing_else_does() {
        let place = Place::new();
        let record = place.record();
        let names =
            |names: &[&str]| names.iter().map(|name| place.root.join(name)).collect::<Vec<_>>();
        let held = Placeholders::make(record.clone(), &names(&[".git", ".vscode"])).unwrap();
        let other = place.make(&[".git"]);
        record.give_up().unwrap();
        assert_eq!((place.names(), place.records()), (vec![".git".to_owned()], 1));
        record.give_up().unwrap();
        drop(held);
        other.remove().unwrap();
        assert_eq!((place.names(), place.records()), (Vec::new(), 0));
    }

    #[test]
    fn commands_of_two_state_folders_know_nothing_of_each_other() {
        let place = Place::new();
        let first = place.make(&[".git"]);
        let records = place.root.with_file_name("others");
        fs_err::create_dir(&records).unwrap();
        let other = Record::new(&records, &name_of_record());
        let other = Placeholders::make(other, &[place.root.join(".git")]).unwrap();
        first.remove().unwrap();
        assert_eq!(place.names(), Vec::<String>::new());
        other.remove().unwrap();
    }

    #[test]
    fn what_was_removed_stands_for_the_next_and_for_nothing_that_is_there() {
        let place = Place::new();
        place.make(&[".git", ".vscode"]).remove().unwrap();
        let spare = || fs_err::read_dir(place.records.join(SPARE)).unwrap().count();
        assert_eq!((place.names(), spare()), (Vec::new(), 2));
        fs_err::create_dir(place.root.join(".idea")).unwrap();
        let made = place.make(&[".git", ".idea"]);
        assert_eq!((place.names(), spare()), (vec![".git".to_owned(), ".idea".to_owned()], 1));
        made.remove().unwrap();
        assert_eq!((place.names(), spare()), (vec![".idea".to_owned()], 2));
        std::os::unix::fs::symlink(".idea", place.root.join("link")).unwrap();
        Spare::find(&place.records).unwrap().remove(&place.root.join("link"));
        assert_eq!(place.names(), [".idea", "link"]);
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
