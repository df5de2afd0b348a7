//! Which files there are, and what tells without reading whether one has changed.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::walk::walk;

/// How long one folder is looked at: a command waits for it.
const MAX_TIME: Duration = Duration::from_secs(2);

/// What tells one state of a file from another without reading it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMark {
    /// Its size.
    pub bytes: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

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
                    && let Ok(metadata) = entry.metadata()
                {
                    let mark = FileMark {
                        bytes: metadata.len(),
                        inode: metadata.ino(),
                        modified: (metadata.mtime(), metadata.mtime_nsec()),
                        changed: (metadata.ctime(), metadata.ctime_nsec()),
                    };
                    collector.add((entry.path().to_owned(), mark));
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
