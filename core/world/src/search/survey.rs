//! Which files there are, and what tells without reading whether one has changed.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::lstat;
use tokio_util::sync::CancellationToken;

use super::walk::walk;
use crate::files::FileMark;

/// The regular files of some folders.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Absolute paths; a file in two of the folders is there twice.
    pub files: Vec<(PathBuf, FileMark)>,
    /// Whether all are there; at most [`super::MAX_COLLECTED`] of each folder are.
    pub complete: bool,
}

/// Looks at all files of these folders, as the searches do, until the time is over or `token` is
/// cancelled. Blocks.
pub fn survey<'a>(
    folders: impl IntoIterator<Item = &'a Path>,
    excluded: &[PathBuf],
    time: Duration,
    token: &CancellationToken,
) -> Survey {
    let begun = Instant::now();
    let mut survey = Survey { complete: true, ..Survey::default() };
    for folder in folders {
        let time = time.saturating_sub(begun.elapsed());
        let found = walk(folder, excluded, token, time, |entry, collector| {
            if entry.file_type().is_some_and(|kind| kind.is_file())
                && let Ok(stat) = lstat(entry.path())
            {
                collector.add((entry.path().to_owned(), FileMark::of(&stat)));
            }
        });
        match found {
            Ok(found) => {
                survey.complete &= !found.stopped;
                survey.files.extend(found.items);
            }
            Err(_) => survey.complete = false,
        }
    }
    survey
}
