//! Which folder a server is started in for a file: the root of the file's workspace or package.
//!
//! The way up goes from the file, not from where the session is, and ends at the session's root or at the
//! edge of a repository: a worktree or a clone that lies in another checkout is answered from its own
//! files. All paths are canonical, so that one folder has one server whatever it was called.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use fs_err as fs;

use crate::{Marker, Nesting, ServerDefinition};

/// How much of a marker is read for what it must contain.
const MARKER_LIMIT: u64 = 1 << 20;

/// How much of a `.git` file is read.
const GIT_LIMIT: u64 = 4 << 10;

/// The root for `file`: the folder of its workspace (which one, says `nesting`), else of the nearest
/// package, else the session's root that it lies in. `None` when it lies in none of `session_roots`, links
/// followed. The file need not exist. Blocks.
pub fn root_of(
    file: &Path,
    definition: &ServerDefinition,
    session_roots: &[PathBuf],
) -> Option<PathBuf> {
    Some(Way::of(file, session_roots)?.root(definition))
}

/// The folders from a file's own up to where its project can begin, innermost first.
pub(crate) struct Way {
    folders: Vec<PathBuf>,
    /// The session's root; above all folders when a repository begins before it.
    session_root: PathBuf,
}

impl Way {
    pub(crate) fn of(file: &Path, session_roots: &[PathBuf]) -> Option<Self> {
        let file = canonical(file);
        let roots = session_roots.iter().map(|root| canonical(root));
        let session_root = roots
            .filter(|root| file.starts_with(root))
            .max_by_key(|root| root.components().count())?;
        let mut folders = Vec::new();
        for folder in file.ancestors().skip(1) {
            if !folder.starts_with(&session_root) {
                break;
            }
            folders.push(folder.to_owned());
            if is_repository(folder) {
                break;
            }
        }
        Some(Self { folders, session_root })
    }

    pub(crate) fn root(&self, definition: &ServerDefinition) -> PathBuf {
        let mut workspaces =
            self.folders.iter().filter(|it| is_marked(it, &definition.workspace_markers));
        let workspace = match definition.nesting {
            Nesting::Outermost => workspaces.next_back(),
            Nesting::Innermost => workspaces.next(),
        };
        let mut packages =
            self.folders.iter().filter(|it| is_marked(it, &definition.package_markers));
        // Without a marker a repository inside of the session's root is a root of its own.
        let edge = self.folders.last().unwrap_or(&self.session_root);
        workspace.or_else(|| packages.next()).unwrap_or(edge).clone()
    }

    /// How many folders the nearest marker of any kind is away; `None` without one.
    pub(crate) fn distance(&self, definition: &ServerDefinition) -> Option<usize> {
        self.folders.iter().position(|folder| {
            is_marked(folder, &definition.workspace_markers)
                || is_marked(folder, &definition.package_markers)
        })
    }
}

/// The canonical path; of what does not exist, the canonical folder with the rest behind it.
pub(crate) fn canonical(path: &Path) -> PathBuf {
    for folder in path.ancestors() {
        if let Ok(known) = fs::canonicalize(folder) {
            return match path.strip_prefix(folder) {
                Ok(rest) if rest.as_os_str().is_empty() => known,
                Ok(rest) => known.join(rest),
                Err(_) => known,
            };
        }
    }
    path.to_owned()
}

/// Whether a repository has its files here: a clone, or a worktree of one. A submodule belongs to the
/// repository around it.
fn is_repository(folder: &Path) -> bool {
    let git = folder.join(".git");
    match fs::metadata(&git) {
        Ok(meta) if meta.is_dir() => true,
        Ok(meta) if meta.is_file() => {
            let mut text = Vec::new();
            let read =
                fs::File::open(&git).and_then(|file| file.take(GIT_LIMIT).read_to_end(&mut text));
            read.is_ok() && String::from_utf8_lossy(&text).contains("/worktrees/")
        }
        _ => false,
    }
}

pub(crate) fn is_marked(folder: &Path, markers: &[Marker]) -> bool {
    markers.iter().any(|marker| {
        let is_there = |path: &Path| match &marker.containing {
            Some(beginning) => has_line(path, beginning),
            None => path.exists(),
        };
        match marker.name.contains('*') {
            false => is_there(&folder.join(&marker.name)),
            true => names(folder)
                .any(|name| matches(&marker.name, &name) && is_there(&folder.join(&name))),
        }
    })
}

fn names(folder: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok())
}

fn has_line(path: &Path, beginning: &str) -> bool {
    let Ok(file) = fs::File::open(path) else { return false };
    if !file.metadata().is_ok_and(|meta| meta.is_file()) {
        return false;
    }
    let lines = BufReader::new(file.take(MARKER_LIMIT)).lines();
    lines.map_while(Result::ok).any(|line| line.trim_start().starts_with(beginning))
}

/// Whether a name is like a pattern, in which a `*` stands for any letters.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    loop {
        if matches(tail, rest) {
            return true;
        }
        let mut letters = rest.chars();
        if letters.next().is_none() {
            return false;
        }
        rest = letters.as_str();
    }
}

#[cfg(test)]
mod tests;
