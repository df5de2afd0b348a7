//! Checkpoints: before a call changes a file for the first time in its turn, what the file holds is
//! stored and recorded. `bridle sessions restore` undoes a turn with it.
//!
//! Nobody knows beforehand what a command will change: the folders are looked at before it and behind
//! it, and what it changed is recorded then.
//!
//! A call is not refused because something could not be kept; the record then says so.

use std::path::PathBuf;
use std::sync::Arc;

use bridle_session::{BlobRef, FileBefore, FileKept};
use bridle_store::{BlobStore, StoreError};
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use crate::display::{Display, FileDiff, Location};
use crate::keeper::{Before, ChangedFile, Changes, FileKeeper};
use crate::tool::{Access, ToolFailure, ToolOutcome};

/// How many of the files that a command changed are named with its result.
const MAX_SHOWN: usize = 20;

/// The most text (bytes), old and new, of the changes that are shown there; of the others only the
/// files are named.
const SHOWN_BYTES: usize = 64 * 1024;

/// What a command changed, as a client shows it: editors look again at files that are named.
#[derive(Default)]
pub(super) struct Shown {
    locations: Vec<Location>,
    diffs: Vec<FileDiff>,
    bytes: usize,
}

impl Shown {
    /// Adds it to what is shown of the call, for which `planned` stands when it failed without a
    /// display of its own.
    pub(super) fn show(self, outcome: &mut Result<ToolOutcome, ToolFailure>, planned: &Display) {
        let display = match outcome {
            Ok(outcome) => &mut outcome.display,
            Err(ToolFailure { message, display, .. }) => display
                .get_or_insert_with(|| Display { text: Some(message.clone()), ..planned.clone() }),
        };
        display.locations.extend(self.locations);
        display.diffs.extend(self.diffs);
    }

    /// Takes a change whose text fits and is one.
    fn take(&mut self, path: PathBuf, before: Option<&str>, after: Before) {
        let new_text = match after {
            Before::Absent => Some(String::new()),
            Before::File { bytes, .. } => text(&bytes).map(str::to_owned),
            Before::Unkept { .. } => None,
        };
        let Some(new_text) = new_text else { return };
        let bytes = self.bytes + new_text.len() + before.map_or(0, str::len);
        if bytes <= SHOWN_BYTES {
            self.bytes = bytes;
            self.diffs.push(FileDiff { path, old_text: before.map(str::to_owned), new_text });
        }
    }
}

impl Driver {
    /// Keeps what a call with these accesses would change. The record is not yet durable.
    pub(super) async fn keep_before(
        &mut self,
        accesses: &[Access],
        token: &CancellationToken,
    ) -> Result<(), Halt> {
        let Some(keeper) = self.scope.get::<dyn FileKeeper>() else { return Ok(()) };
        if accesses.iter().any(runs_command) {
            let (keeper, token) = (Arc::clone(&keeper), token.clone());
            let look = self.scope.tasks().spawn(async move { keeper.look_around(&token).await });
            if self.drive(look).await.is_err() {
                tracing::error!("looking around before a command failed");
            }
        }
        for access in accesses {
            let (Access::WriteInside(path) | Access::WriteOutside(path)) = access else { continue };
            // The log can only name a path that is UTF-8.
            if path.to_str().is_none() || self.recorder.session().state().kept.contains(path) {
                continue;
            }
            let before = self.look_before(keeper.clone(), path.clone()).await;
            self.recorder.append(FileKept { path: path.clone(), before, left: None })?;
        }
        Ok(())
    }

    async fn look_before(&mut self, keeper: Arc<dyn FileKeeper>, path: PathBuf) -> FileBefore {
        let before = self.look(keeper, path).await;
        self.stored(before).await
    }

    /// What is there now.
    async fn look(&mut self, keeper: Arc<dyn FileKeeper>, path: PathBuf) -> Before {
        let look = async move { keeper.before(&path).await };
        let handle = self.scope.tasks().spawn(look);
        let failed = |_| Before::Unkept { reason: "Bridle failed to read it".to_owned() };
        self.drive(handle).await.unwrap_or_else(failed)
    }

    async fn stored(&mut self, before: Before) -> FileBefore {
        match before {
            Before::Absent => FileBefore::Absent,
            Before::Unkept { reason } => FileBefore::Unkept { reason },
            Before::File { bytes, mode } => match self.keep_bytes(bytes).await {
                Ok((blob, _)) => FileBefore::File { blob, mode },
                Err(why) => FileBefore::Unkept { reason: format!("it could not be stored: {why}") },
            },
        }
    }

    /// Records what a command that has ended changed, and says what is to be shown of it.
    pub(super) async fn keep_changed(&mut self, token: &CancellationToken) -> Result<Shown, Halt> {
        let mut shown = Shown::default();
        let Some(keeper) = self.scope.get::<dyn FileKeeper>() else { return Ok(shown) };
        let (looker, token) = (Arc::clone(&keeper), token.clone());
        let look = self.scope.tasks().spawn(async move { looker.changed(&token).await });
        let Ok(Changes { files, gap }) = self.drive(look).await else { return Ok(shown) };
        for ChangedFile { path, before, left } in files {
            if shown.locations.len() < MAX_SHOWN {
                shown.locations.push(Location { path: path.clone(), line: None });
                let old = match &before {
                    Before::Absent => Some(None),
                    Before::File { bytes, .. } => text(bytes).map(Some),
                    Before::Unkept { .. } => None,
                };
                let fits = |old: &Option<&str>| old.is_none_or(|old| old.len() <= SHOWN_BYTES);
                if let Some(old) = old.filter(fits) {
                    let after = self.look(Arc::clone(&keeper), path.clone()).await;
                    shown.take(path.clone(), old, after);
                }
            }
            let before = self.stored(before).await;
            self.recorder.append(FileKept { path, before, left })?;
        }
        if let Some((path, reason)) = gap
            && !self.recorder.session().state().kept.contains(&path)
        {
            let before = FileBefore::Unkept { reason };
            self.recorder.append(FileKept { path, before, left: None })?;
        }
        Ok(shown)
    }

    /// Stores bytes durably; says where, if that is a file.
    pub(super) async fn keep_bytes(
        &mut self,
        bytes: Vec<u8>,
    ) -> Result<(BlobRef, Option<PathBuf>), String> {
        let blobs = self.scope.get::<dyn BlobStore>();
        let blobs = blobs.ok_or("no store for it is active")?;
        let put = tokio::task::spawn_blocking(move || {
            let blob = blobs.put(&bytes)?;
            let path = blobs.path(&blob);
            Ok((blob, path))
        });
        let kept: Result<Result<_, StoreError>, _> = self.drive(put).await;
        let kept = kept.map_err(|error| error.to_string())?;
        kept.map_err(|error| {
            tracing::error!(%error, "a blob could not be stored");
            error.to_string()
        })
    }
}

/// What a file holds, if it is text.
fn text(bytes: &[u8]) -> Option<&str> {
    str::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

/// Whether a call may change what only a look around can tell.
pub(super) fn runs_command(access: &Access) -> bool {
    matches!(access, Access::Run { .. })
}
