//! What stays as it is of a folder of git: what git executes or obeys, wherever that lies.

use std::io;
use std::path::{Path, PathBuf};

use super::{Search, is_absent, is_nothing, is_open};
use crate::sandbox::git_config::{Lead, Leads};

/// How long a pointer file of git may be, in bytes.
const MAX_POINTER: usize = 8 * 1024;

/// Files and folders of a git folder that git executes or obeys.
const OF_GIT: [&str; 3] = ["config", "hooks", "info"];

/// Files that change what a git folder is, and that most do not have.
const POINTERS_OF_GIT: [&str; 3] = ["commondir", "config.worktree", "gitdir"];

impl Search<'_> {
    /// A folder of git, or the file that says where one is.
    pub(super) fn git(&mut self, path: PathBuf) {
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
    pub(super) fn git_folder(&mut self, git: &Path) {
        if !is_open(git) {
            self.found.present.push(git.to_owned());
            return;
        }
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
        for tree in self.folders_in(&git.join("worktrees")) {
            self.pointers(&tree);
        }
        self.modules(&git.join("modules"));
    }

    /// What the configuration of a git folder, and the user's, lead to in the root from `work`.
    pub(super) fn led_to(&mut self, work: &Path, git: &Path) {
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

    /// The git folders of submodules, whose names may have several parts. One is known by any of
    /// its parts, whatever else was moved away.
    fn modules(&mut self, folder: &Path) {
        for path in self.folders_in(folder) {
            let is_git = ["HEAD", "config", "objects"].iter().any(|it| !is_absent(&path.join(it)));
            if is_git {
                self.git_folder(&path);
            }
            if !["objects", "refs", "logs", "modules"].iter().any(|it| path.ends_with(it)) {
                self.modules(&path);
            }
        }
    }

    /// The folders in a folder, links not among them. One that cannot be looked into is protected.
    fn folders_in(&mut self, folder: &Path) -> Vec<PathBuf> {
        if !is_absent(folder) && !is_open(folder) {
            self.found.present.push(folder.to_owned());
        }
        let found = fs_err::read_dir(folder).into_iter().flatten().flatten();
        let folders = found.filter(|it| it.file_type().is_ok_and(|kind| kind.is_dir()));
        folders.map(|it| it.path()).collect()
    }
}

/// What there is in a git folder of what git executes or obeys.
pub(in crate::sandbox) fn parts_of_git(folder: &Path) -> impl Iterator<Item = PathBuf> {
    let parts = OF_GIT.iter().chain(&POINTERS_OF_GIT).map(|name| folder.join(name));
    parts.filter(|path| !is_nothing(path))
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

#[cfg(test)]
mod tests {
    use super::super::tests::{names, tree};
    use crate::sandbox::{Lookout, Protected};

    const REPOSITORY: [&str; 5] =
        [".git/HEAD", ".git/config", ".git/hooks/pre-commit", ".git/objects/", ".git/refs/"];

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
    fn what_passes_for_a_git_folder_hides_nothing_and_one_without_a_head_is_one() {
        let (_folder, root) = tree(&[
            "fake/HEAD",
            "fake/objects/deep/.vscode/tasks.json",
            "fake/refs/",
            "x.git/config",
            "x.git/objects/",
            "x.git/refs/",
            ".git/config",
            ".git/modules/a/config",
            ".git/modules/a/HEAD",
            ".git/modules/a/b/config",
            "linked/HEAD",
            "linked/commondir",
        ]);
        let found = Protected::below(&root).unwrap();
        assert_eq!(
            names(&root, &found.present),
            [
                ".git/config",
                ".git/modules/a/b/config",
                ".git/modules/a/config",
                "fake/objects/deep/.vscode",
                "linked/commondir",
                "x.git/config",
            ]
        );
        assert!(names(&root, &found.kept).contains(&"x.git/objects".to_owned()));
    }
}
