//! Looks at every folder below a root, and remembers what it saw: a folder that has not changed is
//! asked for the time of its last change and not read again.
//!
//! Nobody can set that time, which the kernel renews whenever an entry comes, goes or is replaced.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::Protected;
use super::protected::{LookError, is_open};
use crate::git;
use crate::protected_names::protected_name;

/// How many roots are remembered. With more of them nothing is lost but time.
const MAX_ROOTS: usize = 64;

/// How long the path of a folder may be that is looked into, in bytes: those of what is in it must not
/// be too long for the system.
const MAX_PATH: usize = 3_800;

/// How long ago a folder must have changed for what was read of it to hold for as long as its time
/// stays the same: the clocks of file systems are coarse, and not always this machine's own.
const SETTLED: Duration = Duration::from_secs(2);

/// Finds what is protected, again and again in the same folders. Cheap to clone; clones share what
/// they remember.
#[derive(Clone, Debug, Default)]
pub struct Lookout {
    roots: Arc<Mutex<HashMap<PathBuf, Arc<Mutex<Memory>>>>>,
    /// The user's home, where git has configuration that counts in every repository.
    home: Option<PathBuf>,
}

impl Lookout {
    /// One for the user whose home this is.
    pub(crate) fn of_user(home: Option<PathBuf>) -> Self {
        Self { roots: Arc::default(), home }
    }

    /// Finds what is protected at and below `root`, a resolved folder. A folder that cannot be
    /// looked into is protected itself. Blocks.
    ///
    /// # Errors
    /// When there is too much to look at all of it, or `root` cannot be looked into.
    pub fn below(&self, root: &Path) -> Result<Protected, LookError> {
        let memory = {
            let mut roots = self.roots.lock().unwrap_or_else(PoisonError::into_inner);
            if roots.len() == MAX_ROOTS && !roots.contains_key(root) {
                roots.clear();
            }
            Arc::clone(roots.entry(root.to_owned()).or_default())
        };
        let mut memory = memory.lock().unwrap_or_else(PoisonError::into_inner);
        let found = Protected::search(root, &mut memory, self.home.as_deref());
        memory.forget_unseen();
        found
    }
}

/// What is remembered of the folders below one root.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// From the looks before this one.
    before: HashMap<PathBuf, Folder>,
    /// From this one.
    seen: HashMap<PathBuf, Folder>,
}

/// What a folder holds, as far as it matters.
#[derive(Debug, Default)]
pub(super) struct Folder {
    state: State,
    /// The state changes with the content from here on.
    settled: bool,
    /// How many entries it has.
    pub(super) entries: usize,
    /// Folders in it that have no protected name.
    pub(super) folders: Vec<OsString>,
    /// What has a protected name.
    pub(super) protected: Vec<OsString>,
    /// It has enough of the parts of a git folder.
    pub(super) is_git: bool,
    /// What it holds cannot be known.
    pub(super) is_closed: bool,
}

/// What is another when a folder was changed or replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Memory {
    /// What the folder at `path` holds now; nothing when there is none.
    pub(super) fn folder(&mut self, path: &Path) -> Option<&Folder> {
        let now = SystemTime::now();
        let found = fs_err::symlink_metadata(path).ok().filter(|found| found.is_dir())?;
        let state = State {
            device: found.dev(),
            inode: found.ino(),
            seconds: found.ctime(),
            nanoseconds: found.ctime_nsec(),
        };
        let known = self.before.remove(path).filter(|it| it.settled && it.state == state);
        let folder = match known {
            Some(folder) => folder,
            None => Folder { state, settled: state.is_settled(now), ..read(path)? },
        };
        Some(self.seen.entry(path.to_owned()).or_insert(folder))
    }

    fn forget_unseen(&mut self) {
        self.before = std::mem::take(&mut self.seen);
    }
}

impl State {
    fn is_settled(self, now: SystemTime) -> bool {
        let changed = u64::try_from(self.seconds).map(Duration::from_secs);
        let changed = changed.ok().and_then(|since| UNIX_EPOCH.checked_add(since));
        // Whole seconds, so one more has to have gone by.
        let age = changed.and_then(|changed| now.duration_since(changed).ok());
        age.is_some_and(|age| age > SETTLED + Duration::from_secs(1))
    }
}

fn read(path: &Path) -> Option<Folder> {
    let mut folder = Folder::default();
    let entries = match fs_err::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        Ok(entries) if path.as_os_str().len() <= MAX_PATH && is_open(path) => entries,
        _ => return Some(Folder { is_closed: true, ..folder }),
    };
    let mut parts = HashSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        folder.entries += 1;
        parts.extend(git::PARTS.into_iter().find(|part| name == *part));
        if protected_name(path, &name).is_some() {
            folder.protected.push(name);
        } else if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            folder.folders.push(name);
        }
    }
    folder.is_git = git::is_git_folder(|part| parts.contains(part));
    Some(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that has been as it is for so long that it is settled.
    fn settled(lookout: &Lookout, root: &Path) {
        let roots = lookout.roots.lock().unwrap();
        let mut memory = roots[root].lock().unwrap();
        memory.before.values_mut().for_each(|folder| folder.settled = true);
    }

    #[test]
    fn what_has_changed_is_seen_and_what_has_not_is_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs_err::canonicalize(folder.path()).unwrap();
        fs_err::create_dir_all(root.join("a/b")).unwrap();
        fs_err::create_dir_all(root.join("c")).unwrap();
        let lookout = Lookout::default();
        assert_eq!(lookout.below(&root).unwrap().named, Vec::<PathBuf>::new());
        // A memory that is wrong shows that it is believed.
        {
            let roots = lookout.roots.lock().unwrap();
            let mut memory = roots[&root].lock().unwrap();
            memory.before.get_mut(&root.join("c")).unwrap().protected.push(".envrc".into());
        }
        settled(&lookout, &root);
        fs_err::create_dir(root.join("a/b/.vscode")).unwrap();
        let found = lookout.below(&root).unwrap();
        assert_eq!(found.named, [root.join("a/b/.vscode"), root.join("c/.envrc")]);
        // Another folder under the same name is not the one that is remembered.
        settled(&lookout, &root);
        fs_err::rename(root.join("c"), root.join("d")).unwrap();
        fs_err::create_dir(root.join("c")).unwrap();
        assert_eq!(lookout.below(&root).unwrap().named, [root.join("a/b/.vscode")]);
    }

    #[test]
    fn what_has_just_changed_is_read_again_in_any_case() {
        let folder = tempfile::tempdir().unwrap();
        let root = fs_err::canonicalize(folder.path()).unwrap();
        let lookout = Lookout::default();
        for count in 0..50 {
            fs_err::create_dir(root.join(count.to_string())).unwrap();
            lookout.below(&root).unwrap();
            let name = root.join(count.to_string()).join(".envrc");
            fs_err::write(&name, "").unwrap();
            assert!(lookout.below(&root).unwrap().named.contains(&name), "{count}");
        }
    }
}
