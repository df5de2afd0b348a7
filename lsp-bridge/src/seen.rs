//! Which files of a project are other ones than before, whoever changed them: looked at, not watched. Only
//! marks are compared; nothing is read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bridle_world::files::FileMark;
use bridle_world::search::survey;
use tokio_util::sync::CancellationToken;

use crate::untold::Change;

/// How long one look takes at most: a question waits for it.
const LOOK_TIME: Duration = Duration::from_millis(500);

/// The files of a project at one moment, without those that ignore files name.
pub(crate) struct Seen {
    files: HashMap<PathBuf, FileMark>,
    /// Whether all are there.
    complete: bool,
}

impl Seen {
    /// What is there now. Blocks, for a bounded time.
    pub(crate) fn look(root: &Path) -> Self {
        let found = survey([root], &[], LOOK_TIME, &CancellationToken::new());
        Self { files: found.files.into_iter().collect(), complete: found.complete }
    }

    /// What is different `now`. Of a file that only one of two looks has, one of which was not complete,
    /// nobody knows whether it is new or gone.
    pub(crate) fn changes(&self, now: &Self) -> Vec<(PathBuf, Change)> {
        let change = |(path, mark): (&PathBuf, &FileMark)| match self.files.get(path) {
            Some(before) if before == mark => None,
            Some(_) => Some((path.clone(), Change::Changed)),
            None => self.complete.then(|| (path.clone(), Change::Created)),
        };
        let gone = self.files.keys().filter(|path| now.complete && !now.files.contains_key(*path));
        let gone = gone.map(|path| (path.clone(), Change::Deleted));
        now.files.iter().filter_map(change).chain(gone).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_to_be_new_or_gone_is_not_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["same", "changed", "gone"] {
            fs_err::write(path(name), "1").unwrap();
        }
        let mut before = Seen::look(folder.path());
        fs_err::write(path("changed"), "22").unwrap();
        fs_err::write(path("new"), "1").unwrap();
        fs_err::remove_file(path("gone")).unwrap();
        let mut now = Seen::look(folder.path());
        let told = |before: &Seen, now: &Seen| {
            let mut told = before.changes(now);
            told.sort();
            told
        };
        let changed = (path("changed"), Change::Changed);
        let (gone, new) = ((path("gone"), Change::Deleted), (path("new"), Change::Created));
        assert_eq!(told(&before, &now), [changed.clone(), gone.clone(), new.clone()]);
        now.complete = false;
        assert_eq!(told(&before, &now), [changed.clone(), new]);
        (before.complete, now.complete) = (false, true);
        assert_eq!(told(&before, &now), [changed, gone]);
    }
}
