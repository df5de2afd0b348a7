//! Which paths the ignore files of a tree leave out.
//!
//! The walker could read ignore files itself, but it opens whatever has the name: a FIFO called
//! `.gitignore` would hang the search for ever. Here they are read like every other file: regular
//! files only, no links, with a size limit.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::files;

/// Ignore files of one folder, weakest first: later rules win.
const IGNORE_FILES: [&str; 3] = [".git/info/exclude", ".gitignore", ".ignore"];
/// Larger ignore files (bytes) are not read.
const MAX_IGNORE_BYTES: u64 = 1024 * 1024;

/// The ignore files met so far, read on first need.
#[derive(Default)]
pub struct Rules {
    folders: RwLock<HashMap<PathBuf, Chain>>,
}

/// What counts in a folder: its own rules and those above it, up to the top of the repository; the
/// nearest first, without the folders that have none.
type Chain = Arc<[Arc<Gitignore>]>;

/// The rules of one folder alone.
struct FolderRules {
    matcher: Option<Gitignore>,
    /// The top of a repository: ignore files above it do not count.
    top: bool,
}

impl Rules {
    /// Whether a file is left out of searches in the folder `root`, which holds it. Blocks.
    pub fn leaves_out(&self, root: &Path, file: &Path) -> bool {
        let below = file.ancestors().take_while(|path| *path != root).collect::<Vec<_>>();
        below.iter().rev().any(|path| self.ignored(path, *path != file))
    }

    /// Whether a path is left out, given that no folder above it is. The nearest folder whose
    /// rules say something decides.
    pub(super) fn ignored(&self, path: &Path, is_folder: bool) -> bool {
        let Some(folder) = path.parent() else { return false };
        let chain = self.of(folder);
        let mut said = chain.iter().map(|matcher| matcher.matched(path, is_folder));
        said.find(|said| !said.is_none()).is_some_and(|said| said.is_ignore())
    }

    fn of(&self, folder: &Path) -> Chain {
        let known = self.folders.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(chain) = known.get(folder) {
            return chain.clone();
        }
        drop(known);
        let FolderRules { matcher, top } = FolderRules::read(folder);
        let above = folder.parent().filter(|_| !top).map(|above| self.of(above));
        let above = above.iter().flat_map(|chain| chain.iter().cloned());
        let chain: Chain = matcher.into_iter().map(Arc::new).chain(above).collect();
        let mut known = self.folders.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(folder.to_owned(), chain.clone());
        chain
    }
}

impl FolderRules {
    fn read(folder: &Path) -> Self {
        let mut builder = GitignoreBuilder::new(folder);
        let mut any = false;
        for name in IGNORE_FILES {
            let path = folder.join(name);
            let Ok(bytes) = files::read(&path, MAX_IGNORE_BYTES) else { continue };
            for line in String::from_utf8_lossy(&bytes).lines() {
                any = true;
                // A malformed line is passed over, as git does.
                if let Err(error) = builder.add_line(Some(path.clone()), line) {
                    tracing::debug!(path = %path.display(), %error, "ignore rule not understood");
                }
            }
        }
        let matcher = if any { builder.build().ok() } else { None };
        let top = fs_err::symlink_metadata(folder.join(".git")).is_ok();
        Self { matcher, top }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_rule_decides_up_to_the_top_of_the_repository() {
        let dir = tempfile::tempdir().unwrap();
        let base = fs_err::canonicalize(dir.path()).unwrap();
        for (path, text) in [
            (".gitignore", "*.txt\n"),
            ("repo/.git/info/exclude", "excluded\n"),
            ("repo/.gitignore", "/build/\n*.log\n\\\n"),
            ("repo/sub/.gitignore", "!keep.log\n"),
            ("repo/sub/.ignore", "local\n"),
        ] {
            let path = base.join(path);
            fs_err::create_dir_all(path.parent().unwrap()).unwrap();
            fs_err::write(path, text).unwrap();
        }
        let rules = Rules::default();
        let ignored = |path: &str, folder| rules.ignored(&base.join("repo").join(path), folder);
        assert!(ignored("build", true) && !ignored("build", false));
        assert!(!ignored("sub/build", true), "anchored");
        assert!(ignored("a.log", false) && ignored("sub/a.log", false));
        assert!(!ignored("sub/keep.log", false));
        assert!(ignored("sub/local", false) && ignored("sub/excluded", false));
        assert!(!ignored("a.txt", false), "the rule is above the repository");
    }
}
