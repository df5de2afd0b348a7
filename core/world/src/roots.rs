//! The folders a session works in, and where a path stands towards them.

use std::path::{Path, PathBuf};

/// The canonical working directory and further roots of a session.
#[derive(Clone, Debug)]
pub struct Roots {
    cwd: PathBuf,
    extra: Vec<PathBuf>,
}

/// Where a resolved path stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Placement {
    /// Under a root, links resolved.
    Inside(PathBuf),
    /// Elsewhere, links resolved.
    Outside(PathBuf),
}

impl Roots {
    /// Roots from canonical, absolute folders.
    pub fn new(cwd: PathBuf, extra: Vec<PathBuf>) -> Self {
        Self { cwd, extra }
    }

    /// The working directory.
    pub fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// All roots, the working directory first.
    pub fn all(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.cwd.as_path()).chain(self.extra.iter().map(PathBuf::as_path))
    }
}
