//! Reads what a file holds before a call changes it, for the driver's checkpoints.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{Before, FileKeeper};
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_world::files::{FileError, Files};

/// The largest file (bytes) that is kept: as large as one that a tool changes may be.
const MAX_KEPT_BYTES: u64 = crate::edit::MAX_FILE_BYTES;

/// Looks through the session's files.
struct Keeper(Arc<dyn Files>);

#[async_trait]
impl FileKeeper for Keeper {
    async fn before(&self, path: &Path) -> Before {
        let (files, path) = (Arc::clone(&self.0), path.to_owned());
        let look = tokio::task::spawn_blocking(move || before(&*files, &path));
        look.await.unwrap_or_else(|error| Before::Unkept { reason: error.to_string() })
    }
}

fn before(files: &dyn Files, path: &PathBuf) -> Before {
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
    type Needs = (Arc<dyn Files>,);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn FileKeeper>()]
    }

    async fn activate(
        &self,
        (): (),
        (files,): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let keeper: Arc<dyn FileKeeper> = Arc::new(Keeper(files));
        Ok(setup.provide(keeper)?)
    }
}
