//! Which files there are, and what tells without reading whether one has changed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::lstat;
use tokio_util::sync::CancellationToken;

use super::walk::walk;
use crate::files::FileMark;

/// How long one folder is looked at: a command waits for it.
const MAX_TIME: Duration = Duration::from_secs(2);

/// The regular files of some folders.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// Absolute paths.
    pub files: BTreeMap<PathBuf, FileMark>,
    /// Whether all are there; at most [`super::MAX_COLLECTED`] of each folder are.
    pub complete: bool,
}

/// Looks at all files of these folders, as the searches do. Blocks.
pub fn survey<'a>(folders: impl IntoIterator<Item = &'a Path>, excluded: &[PathBuf]) -> Survey {
    let mut survey = Survey { complete: true, ..Survey::default() };
    for folder in folders {
        let found =
            walk(folder, excluded, &CancellationToken::new(), MAX_TIME, |entry, collector| {
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
