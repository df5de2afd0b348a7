//! What is protected, compared before and after a command.
//!
//! The second wall where mounts stand in the way already, the only one where there are no mounts,
//! and what tells of names that could not be kept absent. It tells and restores nothing: whoever
//! changed something meanwhile, the user included, meant to.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Protected;

/// How many files and folders of one command are compared.
const MAX_ENTRIES: usize = 20_000;

/// What was protected, as it was.
#[derive(Debug)]
pub(crate) struct Snapshot {
    present: Vec<(PathBuf, blake3::Hash)>,
    absent: Vec<PathBuf>,
}

impl Snapshot {
    /// Looks at what `protected` lists.
    pub(crate) fn take(protected: &Protected) -> Self {
        let mut left = MAX_ENTRIES;
        let print = |path: &PathBuf| (path.clone(), fingerprint(path, &mut left));
        let present = protected.present.iter().map(print).collect();
        let absent = protected.absent.iter().chain(&protected.watched);
        // A placeholder of another command may stand there.
        let absent = absent.filter(|path| is_nothing(path)).cloned().collect();
        Self { present, absent }
    }

    /// What is not as it was: changed, gone or new.
    pub(crate) fn altered(self) -> Vec<PathBuf> {
        let mut left = MAX_ENTRIES;
        let mut altered = self.present;
        altered.retain(|(path, before)| fingerprint(path, &mut left) != *before);
        let changed = altered.into_iter().map(|(path, _)| path);
        changed.chain(self.absent.into_iter().filter(|path| !is_nothing(path))).collect()
    }
}

/// A hash over what the system knows of a file, or of a folder and all in it. The time of the last
/// change is part of it and cannot be set, so the content need not be read.
fn fingerprint(path: &Path, left: &mut usize) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new();
    let mut todo = vec![path.to_owned()];
    while let Some(path) = todo.pop() {
        if *left == 0 {
            break;
        }
        *left -= 1;
        hasher.update(path.as_os_str().as_encoded_bytes()).update(b"\0");
        let Ok(found) = fs_err::symlink_metadata(&path) else { continue };
        for number in [found.ino(), found.size(), u64::from(found.mode())] {
            hasher.update(&number.to_le_bytes());
        }
        for number in [found.ctime(), found.ctime_nsec()] {
            hasher.update(&number.to_le_bytes());
        }
        if found.is_dir() {
            let entries = fs_err::read_dir(&path).into_iter().flatten().flatten();
            let mut below: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
            below.sort_unstable();
            todo.extend(below);
        }
    }
    hasher.finalize()
}

/// Whether there is nothing, or nothing but an empty folder.
fn is_nothing(path: &Path) -> bool {
    match fs_err::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            fs_err::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
        }
        Ok(_) => false,
        Err(error) => {
            matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
        }
    }
}
