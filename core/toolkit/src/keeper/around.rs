//! What the folders of a session hold, so that what a command changes there can be told and undone.
//!
//! Everything is bounded, and what the bounds leave out is said: how many files are looked at, which of
//! them are kept while commands run, how many changes of one command are recorded. Files that ignore
//! files name are left out: commands write most there, and nobody misses them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_agent::{Before, ChangedFile, Changes};
use bridle_world::Roots;
use bridle_world::files::{ContentHash, FileMark, Files};
use bridle_world::search::{MAX_COLLECTED, survey};

use super::{MAX_KEPT_BYTES, before};

/// The largest file (bytes) whose content is kept while commands run.
const MAX_FILE_BYTES: u64 = 256 * 1024;
/// The most content (bytes) that is kept of all files together.
const MAX_TOTAL_BYTES: u64 = 32 * 1024 * 1024;
/// The most changes of one command that are recorded.
const MAX_CHANGES: usize = 100;

/// What was there at one moment.
#[derive(Default)]
pub(super) struct Around {
    files: BTreeMap<PathBuf, Known>,
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
    /// What is there now. Files that look as they did are not read again. Blocks.
    pub(super) fn look(&self, roots: &Roots, files: &dyn Files) -> Self {
        let survey = survey(roots.all(), roots.excluded());
        let mut room = MAX_TOTAL_BYTES;
        let known = survey.files.into_iter().filter(|(path, _)| path.to_str().is_some());
        let known = known.map(|(path, mark)| {
            let known = self.files.get(&path).filter(|known| known.mark == mark).cloned();
            let fits = mark.bytes <= MAX_FILE_BYTES.min(room);
            let known = known.unwrap_or_else(|| {
                let content = fits.then(|| Arc::new(before(files, &path)));
                Known { mark, content }
            });
            if known.content.is_some() {
                room = room.saturating_sub(mark.bytes);
            }
            (path, known)
        });
        let (files, folder) = (known.collect(), roots.cwd().to_owned());
        Self { files, complete: survey.complete, folder }
    }

    /// What is different `now`. Blocks.
    pub(super) fn changes(&self, now: &Self, files: &dyn Files) -> Changes {
        let hash = |path: &Path| {
            let bytes = files.read(path, MAX_KEPT_BYTES).ok()?;
            Some(ContentHash::of(&bytes).to_hex())
        };
        let mut changed = Vec::new();
        for (path, known) in &now.files {
            let before = match self.files.get(path) {
                Some(old) if old.mark == known.mark || old.holds_the_same(known) => continue,
                Some(old) => old.before(),
                None if self.complete => Before::Absent,
                // It may have been there.
                None => continue,
            };
            changed.push(ChangedFile { path: path.clone(), before, left: hash(path) });
        }
        for (path, old) in self.files.iter().filter(|(path, _)| !now.files.contains_key(*path)) {
            if fs_err::symlink_metadata(path).is_err() {
                changed.push(ChangedFile { path: path.clone(), before: old.before(), left: None });
            }
        }
        changed.sort_by(|a, b| a.path.cmp(&b.path));
        let more = changed.len().saturating_sub(MAX_CHANGES);
        changed.truncate(MAX_CHANGES);
        Changes { files: changed, gap: self.gap(now, more) }
    }

    fn gap(&self, now: &Self, more: usize) -> Option<(PathBuf, String)> {
        let reason = if more > 0 {
            format!("a command changed {more} files more than the {MAX_CHANGES} that are kept")
        } else if !self.complete || !now.complete {
            format!("commands ran, and only {MAX_COLLECTED} of its files were looked at")
        } else {
            return None;
        };
        Some((now.folder.clone(), reason))
    }
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
                 MiB of them",
                MAX_FILE_BYTES / 1024,
                MAX_TOTAL_BYTES / 1024 / 1024
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use bridle_world::files::LocalFiles;

    use super::*;
    use crate::testing::Workspace;

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
        let before = Around::default().look(&ws.roots, &LocalFiles);
        ws.put("touched", "t");
        ws.put("edited", "new");
        ws.put("made/deep", "m");
        ws.put("out/x", "y");
        ws.put("large", "small");
        fs_err::remove_file(ws.path("gone")).unwrap();
        let after = before.look(&ws.roots, &LocalFiles);
        let Changes { files, gap } = before.changes(&after, &LocalFiles);
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
        let again = after.look(&ws.roots, &LocalFiles);
        assert_eq!(after.changes(&again, &LocalFiles), Changes::default());
    }

    #[test]
    fn what_the_limits_leave_out_is_said() {
        let ws = Workspace::new(&[]);
        let before = Around::default().look(&ws.roots, &LocalFiles);
        for number in 0..=MAX_CHANGES {
            ws.put(&format!("f{number}"), "x");
        }
        let after = before.look(&ws.roots, &LocalFiles);
        let Changes { files, gap } = before.changes(&after, &LocalFiles);
        let (folder, reason) = gap.unwrap();
        assert_eq!((files.len(), folder.as_path()), (MAX_CHANGES, ws.roots.cwd()));
        assert_eq!(reason, "a command changed 1 files more than the 100 that are kept");
    }
}
