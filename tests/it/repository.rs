//! The repository as the tidy tests see it: the files that git tracks.

use std::path::{Path, PathBuf};

/// A tracked file.
pub(crate) struct Tracked {
    /// Its path from the root, with slashes.
    pub(crate) path: String,
    /// Its bytes.
    pub(crate) bytes: Vec<u8>,
}

impl Tracked {
    /// Its text; `None` when it is binary.
    pub(crate) fn text(&self) -> Option<&str> {
        std::str::from_utf8(&self.bytes).ok()
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// The root of the repository.
pub(crate) fn root() -> PathBuf {
    fs_err::canonicalize(Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
}

/// Every tracked file that is there, and new ones that git does not ignore.
pub(crate) fn tracked() -> Vec<Tracked> {
    let output = git(&["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let mut paths: Vec<&str> = output.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let read = |path: &str| Some((path.to_owned(), fs_err::read(root().join(path)).ok()?));
    paths.into_iter().filter_map(read).map(|(path, bytes)| Tracked { path, bytes }).collect()
}

/// The text of a file of the repository; `None` when it is not there.
pub(crate) fn text(path: &str) -> Option<String> {
    fs_err::read_to_string(root().join(path)).ok()
}

#[expect(clippy::disallowed_methods, reason = "the tests start programs as a person would")]
fn git(arguments: &[&str]) -> String {
    let mut command = std::process::Command::new("git");
    let output = command.args(arguments).current_dir(root()).output().expect("git runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8 paths")
}
