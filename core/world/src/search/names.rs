//! Files by name.

use std::path::{Path, PathBuf};

use tokio_util::sync::CancellationToken;

use super::walk::{PassedOver, PathGlob, walk};
use super::{MAX_TIME, SearchError};
use crate::files::is_reached_without_links;

/// What to look for.
#[derive(Clone, Debug)]
pub struct NamesQuery<'a> {
    /// The folder, resolved.
    pub folder: &'a Path,
    /// Folders that are passed over, resolved.
    pub excluded: &'a [PathBuf],
    /// The glob; without a `/` it is matched against file names at any depth.
    pub glob: &'a str,
    /// The most paths to return.
    pub limit: usize,
}

/// What was found.
#[derive(Clone, Debug)]
pub struct NamesFound {
    /// Absolute paths, sorted. Links are listed and not followed; folders are not listed.
    pub paths: Vec<PathBuf>,
    /// How many there are.
    pub total: usize,
    /// Whether the walk stopped early, so that there may be more than `total`.
    pub at_least: bool,
    /// What could not be looked into.
    pub unreadable: PassedOver,
}

/// Finds files by name. Blocks.
///
/// # Errors
/// [`SearchError`]: `Glob`, or `Cancelled`.
pub fn search_names(
    query: &NamesQuery<'_>,
    token: &CancellationToken,
) -> Result<NamesFound, SearchError> {
    let glob = PathGlob::new(query.glob)?;
    let found = walk(query.folder, query.excluded, token, MAX_TIME, |entry, collector| {
        if glob.matches(query.folder, entry.path()) {
            collector.add(entry.path().to_owned());
        }
    })?;
    let mut paths = found.items;
    paths.sort();
    let total = paths.len();
    paths.truncate(query.limit);
    // The walk goes by names; a folder that was a link for a moment must not tell what is behind it.
    paths.retain(|path| is_reached_without_links(path));
    Ok(NamesFound { paths, total, at_least: found.stopped, unreadable: found.unreadable })
}
