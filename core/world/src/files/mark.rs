//! What tells without reading that a file may have changed.

use rustix::fs::Stat;

/// What the file system says of one state of a file. Another mark means that something was done to
/// the file; the same one does not prove that nothing was, because times are coarse and a mapped
/// file is written without them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMark {
    /// Its size.
    pub bytes: u64,
    inode: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileMark {
    // The widths of the fields differ from one processor to the next.
    #[allow(clippy::unnecessary_cast)]
    pub(crate) fn of(stat: &Stat) -> Self {
        Self {
            bytes: u64::try_from(stat.st_size).unwrap_or_default(),
            inode: stat.st_ino as u64,
            modified: (stat.st_mtime as i64, stat.st_mtime_nsec as i64),
            changed: (stat.st_ctime as i64, stat.st_ctime_nsec as i64),
        }
    }
}
