//! What stays as it is inside a writable folder: whatever other programs execute or obey.
//!
//! A pure function over one folder, for all of its depth. It reads names, and of git the pointer
//! files; it never follows a link out of the question it was asked. What it finds is bound to
//! paths, and looked up again without following links when it is put in force.

mod git;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use rustix::fs::{Access, AtFlags, CWD};

use super::lookout::{Lookout, Memory};
use crate::protected_names::KEPT_ABSENT;

pub(super) use git::parts_of_git;

/// How many entries of one folder tree are looked at.
const MAX_ENTRIES: usize = 1_000_000;

/// Below a folder of this name lie other people's packages.
const PACKAGES: &str = "node_modules";

/// What stays as it is inside the writable folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// Files, folders and links that exist.
    #[serde(with = "crate::told::all")]
    pub present: Vec<PathBuf>,
    /// Names that nothing may be created under, where there is nothing or an empty folder.
    /// Placeholders stand there meanwhile.
    #[serde(with = "crate::told::all")]
    pub absent: Vec<PathBuf>,
    /// Names that only a look afterwards can tell of: a placeholder would break git.
    #[serde(with = "crate::told::all")]
    pub watched: Vec<PathBuf>,
    /// Folders that are not moved, whatever happens in them: otherwise a git folder could be made
    /// to pass for none.
    #[serde(with = "crate::told::all")]
    pub kept: Vec<PathBuf>,
    /// Where something has a protected name, or the parts of a git folder, or cannot be looked into.
    #[serde(with = "crate::told::all")]
    pub named: Vec<PathBuf>,
}

/// Why what is protected in a folder cannot be found, so that no command may be let write there.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// All of it would take too long.
    #[error("{} holds more than {MAX_ENTRIES} files and folders, too many to find what is protected", crate::path_text(.0))]
    TooManyEntries(PathBuf),
    /// It may not be read or entered.
    #[error("{} cannot be read, so nobody can find what is protected there", crate::path_text(.0))]
    Closed(PathBuf),
}

impl Protected {
    /// Finds what is protected at and below `root`, as [`Lookout::below`] does, for the first time.
    ///
    /// # Errors
    /// As there.
    pub fn below(root: &Path) -> Result<Self, LookError> {
        Lookout::default().below(root)
    }

    pub(super) fn search(
        root: &Path,
        memory: &mut Memory,
        home: Option<&Path>,
    ) -> Result<Self, LookError> {
        Search { root, home, found: Self::default(), left: MAX_ENTRIES }.all(memory)
    }

    /// Adds those of `places`, where nothing is, that a command could make in one of the writable
    /// `folders`.
    pub fn keep_absent(&mut self, places: impl Iterator<Item = PathBuf>, folders: &[PathBuf]) {
        let inside = |place: &PathBuf| folders.iter().any(|folder| place.starts_with(folder));
        self.absent.extend(places.filter(inside));
        self.tidy();
    }

    /// Adds what `other` holds.
    pub fn extend(&mut self, other: Self) {
        self.present.extend(other.present);
        self.absent.extend(other.absent);
        self.watched.extend(other.watched);
        self.kept.extend(other.kept);
        self.named.extend(other.named);
        self.tidy();
    }

    /// Parents before what is in them, nothing twice.
    fn tidy(&mut self) {
        let Self { present, absent, watched, kept, named } = self;
        for list in [present, absent, watched, kept, named] {
            list.sort_unstable();
            list.dedup();
        }
    }
}

/// One look through a folder tree.
struct Search<'a> {
    root: &'a Path,
    home: Option<&'a Path>,
    found: Protected,
    /// How many more entries are looked at.
    left: usize,
}

impl Search<'_> {
    fn all(mut self, memory: &mut Memory) -> Result<Protected, LookError> {
        self.walk(memory)?;
        let kept = KEPT_ABSENT.iter().map(|name| self.root.join(name));
        self.found.absent.extend(kept.filter(|path| is_absent(path)));
        self.found.tidy();
        Ok(self.found)
    }

    fn walk(&mut self, memory: &mut Memory) -> Result<(), LookError> {
        let mut folders = vec![self.root.to_owned()];
        while let Some(path) = folders.pop() {
            let Some(folder) = memory.folder(&path) else { continue };
            if folder.is_closed && path == self.root {
                return Err(LookError::Closed(path));
            }
            if folder.is_closed {
                // Whoever owns it could open it, and change what is in it.
                self.found.named.push(path.clone());
                self.found.present.push(path);
                continue;
            }
            let left = self.left.checked_sub(folder.entries);
            self.left = left.ok_or_else(|| LookError::TooManyEntries(self.root.to_owned()))?;
            for name in &folder.protected {
                self.protect(path.join(name), name);
            }
            if folder.is_git {
                self.found.named.push(path.clone());
                self.found.kept.extend(["objects", "refs"].map(|name| path.join(name)));
                self.git_folder(&path);
                self.led_to(&path, &path);
            }
            // Also of what looks like a git folder: it may be one to hide what is in it.
            folders.extend(folder.folders.iter().map(|name| path.join(name)));
        }
        Ok(())
    }

    fn protect(&mut self, path: PathBuf, name: &OsStr) {
        if !matters(path.strip_prefix(self.root).unwrap_or(&path)) {
            return;
        }
        self.found.named.push(path.clone());
        // It may be the placeholder of another command, which goes with that one.
        if is_nothing(&path) {
            self.found.absent.push(path);
        } else if name.eq_ignore_ascii_case(".git") {
            self.git(path);
        } else {
            self.found.present.push(path);
        }
    }
}

/// Whether a protected name counts where it is below a root: in other people's packages, which have
/// all kinds of names in them, nobody but git obeys what it comes across.
pub(super) fn matters(path: &Path) -> bool {
    let is_git = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    is_git || !path.components().any(|part| part.as_os_str() == PACKAGES)
}

/// Whether all that is in a folder can be looked at.
pub(super) fn is_open(folder: &Path) -> bool {
    let needed = Access::READ_OK | Access::EXEC_OK;
    rustix::fs::accessat(CWD, folder, needed, AtFlags::EACCESS).is_ok()
}

/// Whether nothing has this name, not even a dangling link.
pub(super) fn is_absent(path: &Path) -> bool {
    fs_err::symlink_metadata(path).is_err_and(|error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    })
}

/// Whether there is nothing, or nothing but empty folders: a placeholder of another command may stand
/// there, and in a `.git` that is one, those of a third.
pub(super) fn is_nothing(path: &Path) -> bool {
    holds_nothing(path, 1)
}

fn holds_nothing(path: &Path, depth: usize) -> bool {
    let is_gone = |error: io::Error| {
        matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    };
    match fs_err::symlink_metadata(path) {
        Ok(found) if !found.is_dir() => false,
        Ok(_) => match fs_err::read_dir(path) {
            Ok(mut below) => below.all(|entry| {
                depth > 0 && entry.is_ok_and(|entry| holds_nothing(&entry.path(), depth - 1))
            }),
            // It has gone since.
            Err(error) => is_gone(error),
        },
        Err(error) => is_gone(error),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes a tree: `name/` is a folder, `name -> target` a link, `name: text` a file.
    pub(super) fn tree(lines: &[&str]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let root = fs_err::canonicalize(folder.path()).unwrap();
        for line in lines {
            if let Some((name, target)) = line.split_once(" -> ") {
                std::os::unix::fs::symlink(target, root.join(name)).unwrap();
            } else if let Some(name) = line.strip_suffix('/') {
                fs_err::create_dir_all(root.join(name)).unwrap();
            } else {
                let (name, text) = line.split_once(": ").unwrap_or((line, ""));
                fs_err::create_dir_all(root.join(name).parent().unwrap()).unwrap();
                fs_err::write(root.join(name), text).unwrap();
            }
        }
        (folder, root)
    }

    pub(super) fn names(root: &Path, list: &[PathBuf]) -> Vec<String> {
        let below = list.iter().map(|path| path.strip_prefix(root).unwrap_or(path));
        below.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn every_kept_name_that_is_missing_below_the_root_is_absent() {
        let (_folder, root) = tree(&[".vscode/tasks.json", "src/main.rs"]);
        let found = Protected::below(&root).unwrap();
        assert_eq!(names(&root, &found.present), [".vscode"]);
        assert_eq!(found.absent.len(), KEPT_ABSENT.len() - 1);
        assert!(found.absent.contains(&root.join(".git")));
    }

    #[test]
    fn names_count_at_any_depth_and_in_any_case() {
        let (_folder, root) = tree(&[
            "a/b/c/.vscode/tasks.json",
            "a/b/.MCP.json",
            "vendor/sub/.git/config",
            "vendor/sub/.git/hooks/pre-commit",
            "vendor/sub/.git/info/exclude",
            "home/.config/gh/hosts.yml",
            "gh/hosts.yml",
        ]);
        let found = Protected::below(&root).unwrap();
        assert_eq!(
            names(&root, &found.present),
            [
                "a/b/.MCP.json",
                "a/b/c/.vscode",
                "home/.config/gh",
                "vendor/sub/.git/config",
                "vendor/sub/.git/hooks",
                "vendor/sub/.git/info",
            ]
        );
    }

    #[test]
    fn of_other_peoples_packages_only_repositories_are_protected() {
        let lines =
            ["node_modules/p/.npmrc", "node_modules/p/.vscode/x", "node_modules/p/.git/config"];
        let (_folder, root) = tree(&lines);
        let found = Protected::below(&root).unwrap();
        assert_eq!(names(&root, &found.present), ["node_modules/p/.git/config"]);
        // A workspace may be such a package itself.
        let found = Protected::below(&root.join("node_modules/p")).unwrap();
        assert_eq!(names(&root, &found.present).len(), 3);
    }

    #[test]
    fn a_folder_with_too_long_a_path_is_protected_itself() {
        let (_folder, root) = tree(&[]);
        let mut deep = root.clone();
        while deep.as_os_str().len() <= 3_800 {
            deep.push("d".repeat(100));
            fs_err::create_dir(&deep).unwrap();
        }
        fs_err::create_dir(deep.join("more")).unwrap();
        let found = Protected::below(&root).unwrap();
        assert_eq!((found.present, found.named), (vec![deep.clone()], vec![deep]));
    }

    #[test]
    fn a_look_that_cannot_be_whole_finds_nothing_at_all() {
        let (_folder, root) = tree(&["a", "b", "z/.vscode/tasks.json"]);
        let among = |left| {
            let found = Protected::default();
            Search { root: &root, home: None, found, left }.all(&mut Memory::default())
        };
        assert!(among(3).is_err());
        assert!(among(4).unwrap().present.contains(&root.join("z/.vscode")));
    }

    #[test]
    fn links_are_not_followed_while_looking() {
        let (_elsewhere, other) = tree(&["deep/.vscode/x"]);
        let link = format!("out -> {}", other.display());
        let (_folder, root) = tree(&[&link]);
        assert_eq!(Protected::below(&root).unwrap().present, Vec::<PathBuf>::new());
    }
}
