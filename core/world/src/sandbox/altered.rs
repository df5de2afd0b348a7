//! What is protected, compared before and after a command.
//!
//! The second wall where mounts stand in the way already, the only one where there are no mounts.
//! Of what was changed it tells and restores nothing: whoever changed it meanwhile, the user
//! included, meant to. What is new at a protected name, where no wall stood, is put aside.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::aside::{PutAside, put_aside};
use super::protected::{is_nothing, parts_of_git};
use super::{Access, Lookout, Policy};
use crate::plant::Plant;
use crate::protected_names::protected_name;

/// How many files and folders of one command are compared.
const MAX_ENTRIES: usize = 20_000;

/// What was protected, as it was.
#[derive(Debug)]
pub(crate) struct Snapshot {
    roots: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    present: Vec<(PathBuf, blake3::Hash)>,
    /// Where nothing was, and nothing can have come by the command.
    held: Vec<PathBuf>,
    /// Where nothing was.
    absent: Vec<PathBuf>,
    /// What had a protected name.
    named: BTreeSet<PathBuf>,
}

/// What is not as it was.
#[derive(Debug, Default)]
pub(crate) struct Altered {
    /// Changed, gone, or new.
    pub(crate) paths: Vec<PathBuf>,
    /// New, and not there any more.
    pub(crate) put_aside: Vec<PutAside>,
}

impl Snapshot {
    /// Looks at what `policy` protects; `mounted` when mounts keep what they can. Blocks.
    pub(crate) fn take(policy: &Policy, mounted: bool) -> Self {
        let mut left = MAX_ENTRIES;
        let protected = &policy.protected;
        // A mount holds one name of a file, not another that it has elsewhere.
        let compared = protected.present.iter().filter(|path| !mounted || has_other_names(path));
        let print = |path: &PathBuf| (path.clone(), fingerprint(path, &mut left));
        let present = compared.map(print).collect();
        // A placeholder of another command may stand there.
        let nothing = |list: &[PathBuf]| -> Vec<PathBuf> {
            list.iter().filter(|path| is_nothing(path)).cloned().collect()
        };
        let (mut held, mut absent) = (nothing(&protected.absent), nothing(&protected.watched));
        if !mounted {
            absent.append(&mut held);
        }
        let named = protected.named.iter().filter(|path| !is_nothing(path)).cloned().collect();
        let (roots, writable) = match policy.access {
            Access::ReadOnly => (Vec::new(), Vec::new()),
            Access::WorkspaceWrite => (policy.roots.clone(), policy.writable.clone()),
        };
        Self { roots, writable, present, held, absent, named }
    }

    /// What is not as it was. Puts aside what is new and was in no wall's way. Blocks.
    pub(crate) fn altered(self, lookout: &Lookout) -> Altered {
        let mut left = MAX_ENTRIES;
        let mut paths: Vec<PathBuf> = self
            .present
            .iter()
            .filter(|(path, before)| fingerprint(path, &mut left) != *before)
            .map(|(path, _)| path.clone())
            .collect();
        paths.extend(self.held.iter().filter(|path| !is_nothing(path)).cloned());
        let mut new: BTreeSet<PathBuf> =
            self.absent.iter().filter(|path| !is_nothing(path)).cloned().collect();
        for root in self.roots.iter().chain(&self.writable) {
            match lookout.below(root) {
                Ok(found) => {
                    for path in found.named.into_iter().filter(|path| self.is_new(path)) {
                        let parts: Vec<PathBuf> = parts_of_git(&path).collect();
                        if &path != root && is_protected(&path) {
                            new.insert(path);
                        } else if parts.is_empty() || self.is_in_cache(&path) {
                            paths.push(path);
                        } else {
                            // A folder of git under another name, which may be the root itself.
                            new.extend(parts);
                        }
                    }
                }
                // What is in it cannot be known any more.
                Err(_) => paths.push(root.clone()),
            }
        }
        let mut altered = Altered { paths, put_aside: Vec::new() };
        for path in new {
            // It may have gone with the folder that it was in.
            if is_nothing(&path) {
                continue;
            }
            // Caches hold other people's repositories.
            let stays = Plant::NoAside.is_in() || self.is_in_cache(&path);
            match (!stays).then(|| put_aside(&path)) {
                Some(Ok(moved)) => altered.put_aside.push(moved),
                Some(Err(_)) | None => altered.paths.push(path),
            }
        }
        altered
    }

    /// Whether something has come to a protected name.
    fn is_new(&self, path: &Path) -> bool {
        let known = self.named.contains(path) || self.held.iter().any(|it| it == path);
        !known && !is_nothing(path)
    }

    fn is_in_cache(&self, path: &Path) -> bool {
        !self.roots.iter().any(|root| path.starts_with(root))
    }
}

fn is_protected(path: &Path) -> bool {
    let (folder, name) = (path.parent().unwrap_or(path), path.file_name().unwrap_or_default());
    protected_name(folder, name).is_some()
}

fn has_other_names(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_ok_and(|found| !found.is_dir() && found.nlink() > 1)
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
