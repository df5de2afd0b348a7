//! What a look at a file costs nothing to tell: whether it is worth reading again.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The metadata that no change of a file's content leaves as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Signature {
    inode: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl Signature {
    /// That of nothing.
    pub(crate) const NONE: Self =
        Self { inode: (0, 0), size: 0, modified: (0, 0), changed: (0, 0) };

    /// Of what is at a path, links not followed; `None` when nothing is.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let metadata = fs_err::symlink_metadata(path).ok()?;
        Some(Self {
            inode: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        })
    }
}
