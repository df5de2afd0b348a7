//! What a user lets language servers do, and which there are; resolved once, at the edge.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::definition::ServerDefinition;

/// A mebibyte, in bytes.
pub const MIB: u64 = 1024 * 1024;

/// The language servers of a process, and their limits.
#[derive(Clone, Debug)]
pub struct LspSettings {
    /// The servers, the preferred first: the built-in table with what the user says over it.
    pub servers: Vec<ServerDefinition>,
    /// Absolute folders whose projects the user trusts: to open a project with a server runs what the
    /// project says. No server is started for a root that is in none of them.
    pub trusted: Vec<PathBuf>,
    /// Whether the result of a call that changed files tells which errors are new since, where the
    /// server of the file runs already.
    pub after_edit: bool,
    /// How many servers may run at once. When another one is wanted, the one that was idle longest ends.
    pub most: usize,
    /// How long a server that nobody asks may stay.
    pub idle_limit: Duration,
    /// How much memory a server may hold with all that it starts, in bytes. One that holds more is ended.
    pub memory_limit: u64,
    /// The file in which it is written down what servers say of themselves; nowhere without it.
    pub log: Option<PathBuf>,
}

impl LspSettings {
    /// These servers with the usual limits, in no folder yet.
    pub fn new(servers: Vec<ServerDefinition>) -> Self {
        Self {
            servers,
            trusted: Vec::new(),
            after_edit: true,
            most: 4,
            idle_limit: Duration::from_secs(600),
            memory_limit: 4096 * MIB,
            log: None,
        }
    }

    /// Whether servers may be started for the project in this canonical folder.
    pub fn trusts(&self, root: &Path) -> bool {
        self.trusted.iter().any(|folder| {
            // A folder that is not there yet, or any more, holds no project.
            fs_err::canonicalize(folder).is_ok_and(|folder| root.starts_with(folder))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_trusted_with_what_is_below_it_and_nothing_beside() {
        let folder = std::env::temp_dir().join(format!("bridle-lsp-trust-{}", std::process::id()));
        let (one, beside) = (folder.join("one"), folder.join("one-more"));
        for path in [&one, &beside] {
            fs_err::create_dir_all(path.join("in")).unwrap();
        }
        let link = folder.join("link");
        fs_err::os::unix::fs::symlink(&one, &link).unwrap();
        let real = fs_err::canonicalize(&one).unwrap();
        let settings = LspSettings { trusted: vec![link], ..LspSettings::new(Vec::new()) };
        assert!(settings.trusts(&real) && settings.trusts(&real.join("in")));
        assert!(!settings.trusts(&fs_err::canonicalize(&beside).unwrap()));
        assert!(!settings.trusts(real.parent().unwrap()));
        fs_err::remove_dir_all(folder).unwrap();
    }
}
