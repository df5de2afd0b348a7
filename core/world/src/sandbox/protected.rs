//! What stays as it is inside a writable folder: whatever other programs execute or obey.
//!
//! A pure function over one folder, for all of its depth. It reads names, and of git the pointer
//! files; it never follows a link out of the question it was asked. What it finds is bound to
//! paths, and looked up again without following links when it is put in force.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::git_config::{Lead, Leads};
use super::lookout::{Lookout, Memory};
use crate::PROTECTED_NAMES;

/// How many entries of one folder tree are looked at.
const MAX_ENTRIES: usize = 1_000_000;

/// How long a pointer file of git may be, in bytes.
const MAX_POINTER: usize = 8 * 1024;

/// Names that are kept absent directly below a root. Longer lists would fill the folder with
/// placeholders while a command runs; deeper down the watch over changes tells of new ones.
const KEPT_ABSENT: [&str; 13] = [
    ".git",
    ".bridle",
    ".agents",
    ".claude",
    ".codex",
    ".cursor",
    ".gemini",
    ".idea",
    ".vscode",
    ".zed",
    ".mcp.json",
    ".husky",
    ".envrc",
];

/// Below a folder of this name lie other people's packages.
const PACKAGES: &str = "node_modules";

/// Files and folders of a git folder that git executes or obeys.
const OF_GIT: [&str; 3] = ["config", "hooks", "info"];

/// Files that change what a git folder is, and that most do not have.
const POINTERS_OF_GIT: [&str; 3] = ["commondir", "config.worktree", "gitdir"];

/// What stays as it is inside the writable folders.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Protected {
    /// Files, folders and links that exist.
    #[serde(with = "super::paths")]
    pub present: Vec<PathBuf>,
    /// Names that nothing may be created under, where there is nothing or an empty folder.
    /// Placeholders stand there meanwhile.
    #[serde(with = "super::paths")]
    pub absent: Vec<PathBuf>,
    /// Names that only a look afterwards can tell of: a placeholder would break git.
    #[serde(with = "super::paths")]
    pub watched: Vec<PathBuf>,
    /// Where something has a protected name, or the parts of a git folder.
    #[serde(with = "super::paths")]
    pub named: Vec<PathBuf>,
}

/// A folder in which what is protected cannot be found, so that no command may be let write there.
#[derive(Debug, thiserror::Error)]
#[error("{} holds more than {MAX_ENTRIES} files and folders, too many to find what is protected", crate::path_text(.0))]
pub struct TooManyEntries(PathBuf);

impl Protected {
    /// Finds what is protected at and below `root`, as [`Lookout::below`] does, for the first time.
    ///
    /// # Errors
    /// When there is too much to look at all of it.
    pub fn below(root: &Path) -> Result<Self, TooManyEntries> {
        Lookout::default().below(root)
    }

    pub(super) fn search(
        root: &Path,
        memory: &mut Memory,
        home: Option<&Path>,
    ) -> Result<Self, TooManyEntries> {
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
        self.named.extend(other.named);
        self.tidy();
    }

    /// Parents before what is in them, nothing twice.
    fn tidy(&mut self) {
        for list in [&mut self.present, &mut self.absent, &mut self.watched, &mut self.named] {
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
    fn all(mut self, memory: &mut Memory) -> Result<Protected, TooManyEntries> {
        self.walk(memory)?;
        let kept = KEPT_ABSENT.iter().map(|name| self.root.join(name));
        self.found.absent.extend(kept.filter(|path| is_absent(path)));
        self.found.tidy();
        Ok(self.found)
    }

    fn walk(&mut self, memory: &mut Memory) -> Result<(), TooManyEntries> {
        let mut folders = vec![self.root.to_owned()];
        while let Some(path) = folders.pop() {
            let Some(folder) = memory.folder(&path) else { continue };
            let left = self.left.checked_sub(folder.entries);
            self.left = left.ok_or_else(|| TooManyEntries(self.root.to_owned()))?;
            for name in &folder.protected {
                self.protect(path.join(name), name);
            }
            if folder.is_git {
                self.found.named.push(path.clone());
                self.git_folder(&path);
                self.led_to(&path, &path);
            }
            // What else a git folder holds is git's.
            if !folder.is_git || path == self.root {
                folders.extend(folder.folders.iter().map(|name| path.join(name)));
            }
        }
        Ok(())
    }

    fn protect(&mut self, path: PathBuf, name: &OsStr) {
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

    /// A folder of git, or the file that says where one is.
    fn git(&mut self, path: PathBuf) {
        let work = path.parent().unwrap_or(&path).to_owned();
        if path.is_dir() && !path.is_symlink() {
            self.git_folder(&path);
            self.led_to(&work, &path);
        } else {
            let target = pointed_to(&path);
            self.found.present.push(path);
            if let Some(target) = &target {
                self.led_to(&work, target);
            }
            // One outside of the root is not writable in the first place.
            if let Some(target) = target.filter(|target| target.starts_with(self.root)) {
                self.git_folder(&target);
            }
        }
    }

    /// The parts of a git folder that git executes or obeys. Objects, refs and the index are not
    /// among them, so that a commit works. Where one of the parts is a link, which could be
    /// replaced, the whole folder stays as it is.
    fn git_folder(&mut self, git: &Path) {
        let links: Vec<PathBuf> =
            OF_GIT.iter().map(|name| git.join(name)).filter(|path| path.is_symlink()).collect();
        if !links.is_empty() {
            self.found.present.push(git.to_owned());
            let targets = links.iter().filter_map(|link| fs_err::canonicalize(link).ok());
            self.found.present.extend(targets.filter(|target| target.starts_with(self.root)));
            return;
        }
        for name in OF_GIT {
            let path = git.join(name);
            let list = match is_nothing(&path) {
                true if name == "config" => &mut self.found.watched,
                true => &mut self.found.absent,
                false => &mut self.found.present,
            };
            list.push(path);
        }
        self.pointers(git);
        for (name, is_folder) in entries(&git.join("worktrees")) {
            if is_folder {
                self.pointers(&git.join("worktrees").join(name));
            }
        }
        self.modules(&git.join("modules"));
    }

    /// What the configuration of a git folder, and the user's, lead to in the root from `work`.
    fn led_to(&mut self, work: &Path, git: &Path) {
        let mut leads = Leads::from(work, self.home);
        let common = fs_err::read_to_string(git.join("commondir"));
        let common = common.map_or_else(|_| git.to_owned(), |text| git.join(text.trim()));
        leads.follow(&common.join("config"));
        leads.follow(&git.join("config.worktree"));
        if let Some(home) = self.home {
            leads.follow(&home.join(".gitconfig"));
            leads.follow(&home.join(".config/git/config"));
        }
        for Lead { path, is_certain } in leads.found {
            // Where it really is, as far as it exists.
            let real = fs_err::canonicalize(&path).or_else(|error| {
                let name = path.file_name().ok_or(error)?;
                Ok::<_, io::Error>(fs_err::canonicalize(path.parent().unwrap_or(&path))?.join(name))
            });
            let Ok(real) = real else { continue };
            // All of the root or of the work would be too much.
            if !real.starts_with(self.root) || work.starts_with(&real) {
                continue;
            }
            if real.is_file() || (is_certain && real.is_dir()) {
                self.found.present.push(real);
            } else if is_certain {
                self.found.watched.push(real);
            }
        }
    }

    /// What redirects git from `git` to another folder.
    fn pointers(&mut self, git: &Path) {
        for path in POINTERS_OF_GIT.map(|name| git.join(name)) {
            let known = !is_absent(&path);
            if known { &mut self.found.present } else { &mut self.found.watched }.push(path);
        }
    }

    /// The git folders of submodules, whose names may have several parts.
    fn modules(&mut self, folder: &Path) {
        for (name, is_folder) in entries(folder) {
            let path = folder.join(name);
            if is_folder && is_bare(&path) {
                self.git_folder(&path);
            } else if is_folder {
                self.modules(&path);
            }
        }
    }
}

/// The names in a folder, and whether each is a folder itself and no link.
fn entries(folder: &Path) -> impl Iterator<Item = (std::ffi::OsString, bool)> + use<> {
    let found = fs_err::read_dir(folder).into_iter().flatten().flatten();
    found.map(|entry| (entry.file_name(), entry.file_type().is_ok_and(|kind| kind.is_dir())))
}

/// Which of [`PROTECTED_NAMES`] the entry `name` of `folder` has.
pub(super) fn protected_name(folder: &Path, name: &OsStr) -> Option<&'static str> {
    // Nearly every name is ruled out by its first letter.
    let dotted = name.as_encoded_bytes().first() == Some(&b'.');
    let within = folder.file_name().filter(|name| name.eq_ignore_ascii_case(".config"));
    if !dotted && within.is_none() {
        return None;
    }
    PROTECTED_NAMES.into_iter().find(|known| match known.split_once('/') {
        Some((_, last)) => within.is_some() && name.eq_ignore_ascii_case(last),
        None => name.eq_ignore_ascii_case(known),
    })
}

/// Whether a protected name counts where it is: in other people's packages, which have all kinds of
/// names in them, nobody but git obeys what it comes across.
pub(super) fn matters(path: &Path) -> bool {
    let is_git = path.file_name().is_some_and(|name| name.eq_ignore_ascii_case(".git"));
    is_git || !path.components().any(|part| part.as_os_str() == PACKAGES)
}

/// Whether a folder has the parts of a git folder.
fn is_bare(folder: &Path) -> bool {
    // The cheapest look first: nearly every folder fails it.
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// Where a `.git` file or link leads.
fn pointed_to(path: &Path) -> Option<PathBuf> {
    let kind = fs_err::metadata(path).ok()?;
    if kind.is_dir() {
        return fs_err::canonicalize(path).ok();
    }
    if !kind.is_file() || kind.len() > MAX_POINTER as u64 {
        return None;
    }
    let text = fs_err::read_to_string(path).ok()?;
    let target = text.strip_prefix("gitdir:")?.trim();
    fs_err::canonicalize(path.parent()?.join(target)).ok()
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
mod tests {
    use super::*;

    /// Makes a tree: `name/` is a folder, `name -> target` a link, `name: text` a file.
    fn tree(lines: &[&str]) -> (tempfile::TempDir, PathBuf) {
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

    const REPOSITORY: [&str; 5] =
        [".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/objects/", ".git/refs/"];

    fn names(root: &Path, list: &[PathBuf]) -> Vec<String> {
        let below = list.iter().map(|path| path.strip_prefix(root).unwrap_or(path));
        below.map(|path| path.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_parts_of_a_repository_that_git_obeys_are_protected_and_the_rest_is_not() {
        let (_folder, root) = tree(&REPOSITORY);
        let found = Protected::below(&root).unwrap();
        assert_eq!(names(&root, &found.present), [".git/config", ".git/hooks"]);
        assert!(names(&root, &found.absent).contains(&".git/info".to_owned()));
        assert_eq!(
            names(&root, &found.watched),
            [".git/commondir", ".git/config.worktree", ".git/gitdir"]
        );
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
    fn what_configurations_of_git_lead_to_is_protected() {
        let (_folder, root) = tree(&[
            ".git/HEAD",
            ".git/hooks/x",
            ".git/info/x",
            ".git/config: [core]\nhooksPath = tools/hooks\nfsmonitor = sh watch.sh\nworktree = ..\n",
            "tools/hooks/pre-commit",
            "watch.sh",
            "inside.conf",
            "other",
        ]);
        let (_home, home) = tree(&[]);
        let text = format!(
            "[include]\npath = {0}/inside.conf\npath = {0}/missing.conf\n[core]\npager = other/none\n",
            root.display()
        );
        fs_err::write(home.join(".gitconfig"), text).unwrap();
        let found = Lookout::of_user(Some(home)).below(&root).unwrap();
        assert_eq!(
            names(&root, &found.present),
            [".git/config", ".git/hooks", ".git/info", "inside.conf", "tools/hooks", "watch.sh"]
        );
        assert!(names(&root, &found.watched).contains(&"missing.conf".to_owned()));
        let found = Protected::below(&root).unwrap();
        assert!(!names(&root, &found.present).contains(&"inside.conf".to_owned()));
    }

    #[test]
    fn a_submodule_is_protected_at_both_of_its_ends() {
        let mut lines = REPOSITORY.to_vec();
        lines.extend([
            ".git/info/",
            "lib/x/.git: gitdir: ../../.git/modules/lib/x\n",
            ".git/modules/lib/x/HEAD",
            ".git/modules/lib/x/config",
            ".git/modules/lib/x/hooks/pre-commit",
            ".git/modules/lib/x/info/exclude",
            ".git/modules/lib/x/objects/",
            ".git/modules/lib/x/refs/",
        ]);
        let (_folder, root) = tree(&lines);
        let found = names(&root, &Protected::below(&root).unwrap().present);
        for name in ["lib/x/.git", ".git/modules/lib/x/config", ".git/modules/lib/x/hooks"] {
            assert!(found.contains(&name.to_owned()), "{name}: {found:?}");
        }
    }

    #[test]
    fn a_pointer_out_of_the_root_protects_the_pointer_only() {
        let (_elsewhere, other) = tree(&REPOSITORY);
        let pointer = format!(".git: gitdir: {}\n", other.join(".git").display());
        let (_folder, root) = tree(&[&pointer]);
        assert_eq!(Protected::below(&root).unwrap().present, [root.join(".git")]);
    }

    #[test]
    fn linked_hooks_keep_the_whole_git_folder_as_it_is_and_their_target_too() {
        let (_folder, root) = tree(&[
            ".git/HEAD",
            ".git/config",
            "shared/hooks/pre-commit",
            ".git/hooks -> ../shared/hooks",
        ]);
        let found = Protected::below(&root).unwrap();
        assert_eq!(names(&root, &found.present), [".git", "shared/hooks"]);
    }

    #[test]
    fn a_bare_repository_is_one_under_any_name() {
        let (_folder, root) =
            tree(&["x.git/HEAD", "x.git/config", "x.git/objects/", "x.git/refs/"]);
        let found = Protected::below(&root).unwrap();
        assert_eq!(names(&root, &found.present), ["x.git/config"]);
        assert!(found.absent.contains(&root.join("x.git/hooks")));
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
