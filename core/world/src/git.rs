//! What makes a folder one of git, under any name.

use std::ffi::OsStr;
use std::path::Path;

/// The entries that tell a folder of git from others: where the rest of a linked worktree's is, and those
/// of a repository.
pub(crate) const PARTS: [&str; 5] = ["commondir", "HEAD", "objects", "refs", "config"];

/// Whether a folder that has the entries which `has` says it has is one of git, or lacks so little
/// that it could be made one: git needs no `config`, and any other part may have been moved away and
/// come back. That of a linked worktree has its `HEAD` and says where the rest is.
pub(crate) fn is_git_folder(has: impl Fn(&str) -> bool) -> bool {
    let [common, own @ ..] = PARTS;
    own.iter().filter(|name| has(name)).count() >= 3 || has("HEAD") && has(common)
}

/// Whether `path`, at or below `root`, lies in a folder that is one of git once it exists. Looks at
/// the disk.
pub(crate) fn would_be_in_git(root: &Path, path: &Path) -> bool {
    let folders = path.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
    folders.zip(path.ancestors()).any(|(folder, with)| {
        let name = with.file_name();
        is_git_folder(|part| name == Some(OsStr::new(part)) || folder.join(part).exists())
    })
}
