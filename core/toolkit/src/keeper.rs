//! Reads what a file holds before a call changes it, for the driver's checkpoints, and finds what a
//! command changed.

mod around;

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bridle_agent::{Before, Changes, FileKeeper};
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_world::Roots;
use bridle_world::files::{FileError, Files};
use tokio_util::sync::CancellationToken;

use around::{Around, Patience};

/// The largest file (bytes) that is kept: as large as one that a tool changes may be.
const MAX_KEPT_BYTES: u64 = crate::edit::MAX_FILE_BYTES;

/// Looks through the session's files.
struct Keeper {
    roots: Arc<Roots>,
    files: Arc<dyn Files>,
    /// What the folders held when they were looked at last.
    around: Arc<Mutex<Around>>,
}

impl Keeper {
    /// Looks around on a blocking thread and shows what was there before and what is now; `None`
    /// when that was cancelled, or failed.
    async fn look<T: Send + 'static>(
        &self,
        patience: Patience,
        see: impl FnOnce(&Around, &Around, &dyn Files, &Patience) -> T + Send + 'static,
    ) -> Option<T> {
        let (roots, files) = (Arc::clone(&self.roots), Arc::clone(&self.files));
        let around = Arc::clone(&self.around);
        let look = tokio::task::spawn_blocking(move || {
            let mut around = around.lock().unwrap_or_else(PoisonError::into_inner);
            let now = around.look(&roots, &*files, &patience)?;
            let seen = see(&around, &now, &*files, &patience);
            *around = now;
            Some(seen)
        });
        look.await.ok().flatten()
    }
}

#[async_trait]
impl FileKeeper for Keeper {
    async fn before(&self, path: &Path) -> Before {
        let (files, path) = (Arc::clone(&self.files), path.to_owned());
        let look = tokio::task::spawn_blocking(move || before(&*files, &path));
        look.await.unwrap_or_else(|error| Before::Unkept { reason: error.to_string() })
    }

    async fn look_around(&self, token: &CancellationToken) {
        self.look(Patience::before_command(token), |_, _, _, _| ()).await;
    }

    async fn changed(&self, token: &CancellationToken) -> Changes {
        let seen = self.look(Patience::behind_command(token), Around::changes).await;
        seen.unwrap_or_else(|| {
            let reason = "a command ran, and the look at what it changed was cut short";
            let gap = Some((self.roots.cwd().to_owned(), reason.to_owned()));
            Changes { gap, ..Changes::default() }
        })
    }
}

fn before(files: &dyn Files, path: &Path) -> Before {
    match files.read(path, MAX_KEPT_BYTES) {
        Ok(bytes) => {
            // A buffer of an editor may have no file yet.
            let mode = fs_err::symlink_metadata(path)
                .map_or(0o644, |metadata| metadata.permissions().mode() & 0o7777);
            Before::File { bytes, mode }
        }
        Err(FileError::NotFound(_)) => Before::Absent,
        Err(error) => Before::Unkept { reason: error.to_string() },
    }
}

/// Puts the [`FileKeeper`] into a session.
pub(crate) struct CheckpointsPlugin;

#[async_trait]
impl Plugin for CheckpointsPlugin {
    const NAME: &'static str = "checkpoints";
    type Config = ();
    type Needs = (Arc<Roots>, Arc<dyn Files>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn FileKeeper>()]
    }

    async fn activate(
        &self,
        (): (),
        (roots, files): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let keeper: Arc<dyn FileKeeper> = Arc::new(Keeper { roots, files, around: Arc::default() });
        Ok(setup.provide(keeper)?)
    }
}
