//! What git has checked out, read from its files: git itself would obey the repository's configuration.

use std::path::Path;

use bridle_world::files::Files;

/// The most bytes of git's own small files that are read.
const FILE_BYTES: u64 = 4 * 1024;

/// What is checked out.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    Branch(String),
    Detached,
    /// The repository keeps it in another form than this one.
    Unknown,
}

/// The head of the repository that a folder lies in; `None` where it lies in none.
pub(super) fn head(files: &dyn Files, cwd: &Path) -> Option<Head> {
    let git = cwd
        .ancestors()
        .map(|folder| folder.join(".git"))
        .find_map(|git| fs_err::canonicalize(git).ok())?;
    let folder = match small_file(files, &git) {
        // A worktree or submodule: the file points to the folder.
        Some(text) => {
            let target = text.strip_prefix("gitdir:")?.trim().to_owned();
            fs_err::canonicalize(git.parent()?.join(target)).ok()?
        }
        None => git,
    };
    let head = small_file(files, &folder.join("HEAD"))?;
    let head = head.trim();
    Some(match head.strip_prefix("ref: refs/heads/") {
        // What stands there where references are kept in tables.
        Some(".invalid") => Head::Unknown,
        Some(branch) => Head::Branch(branch.lines().next()?.to_owned()),
        None if head.starts_with("ref: ") => Head::Unknown,
        None => Head::Detached,
    })
}

fn small_file(files: &dyn Files, path: &Path) -> Option<String> {
    String::from_utf8(files.read(path, FILE_BYTES).ok()?).ok()
}
