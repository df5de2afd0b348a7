//! What the folders of a session hold, so that what a command changes there can be told and undone.
//!
//! Everything is bounded, and what the bounds leave out is said: how many files are looked at, which of
//! them are kept while commands run, how many changes of one command are recorded. Files that ignore
//! files name are left out: commands write most there, and nobody misses them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bridle_agent::{Before, ChangedFile, Changes};
use bridle_world::Roots;
use bridle_world::files::{ContentHash, FileMark, Files};
use bridle_world::search::survey;
use tokio_util::sync::CancellationToken;

use super::{MAX_KEPT_BYTES, before};

/// The largest file (bytes) whose content is kept while commands run.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// The most content (bytes) that is kept of all files together.
const MAX_TOTAL_BYTES: u64 = 32 * 1024 * 1024;
/// The most changes of one command that are recorded.
const MAX_CHANGES: usize = 100;
/// How long one look takes at most: a command waits for it.
const MAX_TIME: Duration = Duration::from_secs(2);
/// How long the look behind a command that was cancelled takes at most: a person waits for it.
const MAX_TIME_CANCELLED: Duration = Duration::from_millis(250);

/// How long a look may go on.
pub(super) struct Patience {
    token: CancellationToken,
    until: Instant,
}

impl Patience {
    /// A look that nobody needs any more once the token is cancelled.
    pub(super) fn before_command(token: &CancellationToken) -> Self {
        Self { token: token.clone(), until: Instant::now() + MAX_TIME }
    }

    /// The look behind a command, which a cancel may have ended: what it did is still to be told.
    pub(super) fn behind_command(token: &CancellationToken) -> Self {
        if !token.is_cancelled() {
            return Self::before_command(token);
        }
        Self { token: CancellationToken::new(), until: Instant::now() + MAX_TIME_CANCELLED }
    }

    fn time(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    fn is_over(&self) -> bool {
        self.token.is_cancelled() || self.time().is_zero()
    }
}

/// What was there at one moment.
#[derive(Default)]
pub(super) struct Around {
    /// By the bytes of the path, which are compared much faster than its parts.
    files: BTreeMap<OsString, Known>,
    complete: bool,
    folder: PathBuf,
}

#[derive(Clone)]
struct Known {
    mark: FileMark,
    /// What it held, where that is kept.
    content: Option<Arc<Before>>,
}

impl Around {
    /// What is there now; `None` when the look was cancelled. Files that look as they did are not
    /// read again. Blocks.
    pub(super) fn look(
        &self,
        roots: &Roots,
        files: &dyn Files,
        patience: &Patience,
    ) -> Option<Self> {
        let survey = survey(roots.all(), roots.excluded(), patience.time(), &patience.token);
        let found: BTreeMap<OsString, FileMark> = survey
            .files
            .into_iter()
            .filter(|(path, _)| path.to_str().is_some())
            .map(|(path, mark)| (path.into_os_string(), mark))
            .collect();
        let mut room = MAX_TOTAL_BYTES;
        let mut known = BTreeMap::new();
        for (path, mark) in found {
            let old = self.files.get(&path).filter(|old| old.mark == mark).cloned();
            let now = old.unwrap_or_else(|| {
                let fits = mark.bytes <= MAX_FILE_BYTES.min(room) && !patience.is_over();
                let content = fits.then(|| Arc::new(before(files, Path::new(&path))));
                Known { mark, content }
            });
            if now.content.is_some() {
                room = room.saturating_sub(mark.bytes);
            }
            known.insert(path, now);
        }
        (!patience.token.is_cancelled()).then(|| Self {
            files: known,
            complete: survey.complete,
            folder: roots.cwd().to_owned(),
        })
    }

    /// What is different `now`. Blocks.
    pub(super) fn changes(&self, now: &Self, files: &dyn Files, patience: &Patience) -> Changes {
        let mut changed = Vec::new();
        for (path, known) in &now.files {
            match self.files.get(path) {
                Some(old) if old.mark == known.mark || old.holds_the_same(known) => {}
                // Of a file that is new to an incomplete look nobody knows whether it was there.
                None if !self.complete => {}
                old => changed.push((Path::new(path), old, Some(known))),
            }
        }
        for (path, old) in self.files.iter().filter(|(path, _)| !now.files.contains_key(*path)) {
            // One that is ignored now is still there.
            if !stands(Path::new(path)) {
                changed.push((Path::new(path), Some(old), None));
            }
        }
        changed.sort_by_key(|(path, ..)| *path);
        let mut told = Vec::new();
        for (path, old, known) in changed.iter().take(MAX_CHANGES) {
            if patience.is_over() {
                break;
            }
            let before = old.map_or(Before::Absent, Known::before);
            let left = known.and_then(|known| known.hash(path, files));
            told.push(ChangedFile { path: path.to_path_buf(), before, left });
        }
        let gap = self.gap(now, changed.len() - told.len(), told.len());
        Changes { files: told, gap }
    }

    fn gap(&self, now: &Self, more: usize, kept: usize) -> Option<(PathBuf, String)> {
        let reason = if more > 0 {
            format!("a command changed {more} files more than the {kept} that are kept")
        } else if !self.complete || !now.complete {
            let seen = self.files.len().min(now.files.len());
            format!("commands ran, and only {seen} of its files were looked at")
        } else {
            return None;
        };
        Some((now.folder.clone(), reason))
    }
}

/// Whether there is a regular file at this path, and no link on the way to it.
fn stands(path: &Path) -> bool {
    fs_err::canonicalize(path).is_ok_and(|real| real == path && real.is_file())
}

impl Known {
    fn holds_the_same(&self, other: &Self) -> bool {
        match (self.content.as_deref(), other.content.as_deref()) {
            (Some(Before::File { bytes: a, .. }), Some(Before::File { bytes: b, .. })) => a == b,
            _ => false,
        }
    }

    fn before(&self) -> Before {
        self.content.as_deref().cloned().unwrap_or_else(|| Before::Unkept {
            reason: format!(
                "a command changed it, and before commands only files of up to {} KiB are kept, {} \
                 MiB of them, as far as they can be read in {} s",
                MAX_FILE_BYTES / 1024,
                MAX_TOTAL_BYTES / 1024 / 1024,
                MAX_TIME.as_secs()
            ),
        })
    }

    /// The hash of what it holds.
    fn hash(&self, path: &Path, files: &dyn Files) -> Option<String> {
        let hash = match self.content.as_deref() {
            Some(Before::File { bytes, .. }) => ContentHash::of(bytes),
            _ => ContentHash::of(&files.read(path, MAX_KEPT_BYTES).ok()?),
        };
        Some(hash.to_hex())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use bridle_agent::FileKeeper as _;
    use bridle_world::files::{
        FileError, LineWindow, Lines, Listing, LocalFiles, NotText, Snapshot, Version,
    };

    use super::super::Keeper;
    use super::*;
    use crate::testing::Workspace;

    fn patience() -> Patience {
        Patience::before_command(&CancellationToken::new())
    }

    fn look(around: &Around, ws: &Workspace) -> Around {
        around.look(&ws.roots, &LocalFiles, &patience()).unwrap()
    }

    fn changes(before: &Around, after: &Around) -> Changes {
        before.changes(after, &LocalFiles, &patience())
    }

    #[test]
    fn what_changes_in_a_folder_is_told_with_what_was_there() {
        let ws = Workspace::new(&[
            ("same", "s"),
            ("touched", "t"),
            ("edited", "old"),
            ("gone", "g"),
            (".gitignore", "out/\n"),
            ("out/x", "x"),
        ]);
        ws.put("large", vec![b'l'; 300_000]);
        let before = look(&Around::default(), &ws);
        ws.put("touched", "t");
        ws.put("edited", "new");
        ws.put("made/deep", "m");
        ws.put("out/x", "y");
        ws.put("large", "small");
        fs_err::remove_file(ws.path("gone")).unwrap();
        let after = look(&before, &ws);
        let Changes { files, gap } = changes(&before, &after);
        let told: Vec<_> = files
            .iter()
            .map(|file| {
                let path = file.path.strip_prefix(ws.roots.cwd()).unwrap().to_str().unwrap();
                let before = match &file.before {
                    Before::Absent => "absent".to_owned(),
                    Before::File { bytes, .. } => String::from_utf8(bytes.clone()).unwrap(),
                    Before::Unkept { .. } => "unkept".to_owned(),
                };
                format!("{path}: {before}, {}", file.left.is_some())
            })
            .collect();
        let expected = [
            "edited: old, true",
            "gone: g, false",
            "large: unkept, true",
            "made/deep: absent, true",
        ];
        assert_eq!((told.as_slice(), gap), (&expected.map(String::from)[..], None));
        let again = look(&after, &ws);
        assert_eq!(changes(&after, &again), Changes::default());
    }

    /// Files whose first read cancels the token.
    struct Cancelling {
        token: CancellationToken,
        reads: AtomicUsize,
    }

    impl Files for Cancelling {
        fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            self.token.cancel();
            LocalFiles.read(path, limit)
        }

        fn list(&self, _: &Path, _: usize) -> Result<Listing, FileError> {
            unreachable!()
        }

        fn read_lines(
            &self,
            _: &Path,
            _: &LineWindow,
            _: &dyn Fn() -> bool,
        ) -> Result<Result<Lines, NotText>, FileError> {
            unreachable!()
        }

        fn read_for_change(&self, _: &Path, _: u64) -> Result<Snapshot, FileError> {
            unreachable!()
        }

        fn anchor(&self, _: &Path) -> Result<Version, FileError> {
            unreachable!()
        }

        fn write(&self, _: &Path, _: &Version, _: &[u8]) -> Result<(), FileError> {
            unreachable!()
        }

        fn remove(&self, _: &Path, _: &Version) -> Result<(), FileError> {
            unreachable!()
        }

        fn rename(&self, _: &Path, _: &Version, _: &Path, _: &Version) -> Result<(), FileError> {
            unreachable!()
        }
    }

    #[tokio::test]
    async fn a_cancel_ends_a_look_and_what_it_did_not_see_is_said() {
        let ws = Workspace::new(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let token = CancellationToken::new();
        let files = Arc::new(Cancelling { token: token.clone(), reads: AtomicUsize::new(0) });
        let keeper = Keeper {
            roots: Arc::clone(&ws.roots),
            files: files.clone(),
            around: Arc::new(Mutex::new(look(&Around::default(), &ws))),
        };
        for path in ["a", "b", "c"] {
            ws.put(path, "two");
        }
        let Changes { files: changed, gap } = keeper.changed(&token).await;
        assert_eq!((changed.len(), files.reads.load(Ordering::Relaxed)), (0, 1));
        let (_, reason) = gap.unwrap();
        assert_eq!(reason, "a command ran, and the look at what it changed was cut short");
        // A command that was cancelled has done something, too, and there is some time to see it.
        let Changes { files: changed, gap } = keeper.changed(&token).await;
        assert_eq!((changed.len(), gap), (3, None));
        ws.put("a", "three");
        keeper.look_around(&token).await;
        assert_eq!(files.reads.load(Ordering::Relaxed), 4, "no command will run");
    }

    #[test]
    fn what_the_limits_leave_out_is_said() {
        let ws = Workspace::new(&[]);
        let before = look(&Around::default(), &ws);
        for number in 0..=MAX_CHANGES {
            ws.put(&format!("f{number}"), "x");
        }
        let after = look(&before, &ws);
        let Changes { files, gap } = changes(&before, &after);
        let (folder, reason) = gap.unwrap();
        assert_eq!((files.len(), folder.as_path()), (MAX_CHANGES, ws.roots.cwd()));
        assert_eq!(reason, "a command changed 1 files more than the 100 that are kept");
    }
}
