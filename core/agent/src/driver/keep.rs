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
use crate::keeper::{Before, ChangedFile, Changes, FileKeeper};
use crate::tool::Access;

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
        let look = async move { keeper.before(&path).await };
        let handle = self.scope.tasks().spawn(look);
        match self.drive(handle).await {
            Ok(before) => self.stored(before).await,
            Err(_) => FileBefore::Unkept { reason: "Bridle failed to read it".to_owned() },
        }
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

    /// Records what a command that has ended changed.
    pub(super) async fn keep_changed(&mut self, token: &CancellationToken) -> Result<(), Halt> {
        let Some(keeper) = self.scope.get::<dyn FileKeeper>() else { return Ok(()) };
        let token = token.clone();
        let look = self.scope.tasks().spawn(async move { keeper.changed(&token).await });
        let Ok(Changes { files, gap }) = self.drive(look).await else { return Ok(()) };
        for ChangedFile { path, before, left } in files {
            let before = self.stored(before).await;
            self.recorder.append(FileKept { path, before, left })?;
        }
        if let Some((path, reason)) = gap
            && !self.recorder.session().state().kept.contains(&path)
        {
            let before = FileBefore::Unkept { reason };
            self.recorder.append(FileKept { path, before, left: None })?;
        }
        Ok(())
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

/// Whether a call may change what only a look around can tell.
pub(super) fn runs_command(access: &Access) -> bool {
    matches!(access, Access::Run { .. })
}
