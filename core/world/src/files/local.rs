//! The files of this host's disk.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};

use super::read::Stamp;
use super::replace::{self, Anchor};
use super::{
    FileError, Files, LineWindow, Lines, Listing, NotText, Snapshot, Version, folder, open_regular,
    read,
};

/// Provides [`Files`] from the disk of this host, as it is.
#[derive(Clone, Copy, Debug)]
pub struct LocalFiles;

#[async_trait]
impl Plugin for LocalFiles {
    const NAME: &'static str = "local-files";
    type Config = ();
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn Files>()]
    }

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let files: Arc<dyn Files> = Arc::new(*self);
        Ok(setup.provide(files)?)
    }
}

impl Files for LocalFiles {
    fn list(&self, folder: &Path, limit: usize) -> Result<Listing, FileError> {
        folder::list(folder, limit)
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
        read::read(path, limit)
    }

    fn read_lines(
        &self,
        path: &Path,
        window: &LineWindow,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Result<Lines, NotText>, FileError> {
        let file = open_regular(path)?;
        Lines::read(file, window, cancelled).map_err(|error| FileError::io(path, error))
    }

    fn read_for_change(&self, path: &Path, limit: u64) -> Result<Snapshot, FileError> {
        let (bytes, stamp) = read::read_for_change(path, limit)?;
        let further_names = stamp.links.saturating_sub(1);
        Ok(Snapshot { bytes, version: Version::new(stamp), further_names })
    }

    fn anchor(&self, path: &Path) -> Result<Version, FileError> {
        replace::anchor(path).map(Version::new)
    }

    fn write(&self, path: &Path, version: &Version, bytes: &[u8]) -> Result<(), FileError> {
        if let Some(stamp) = version.mark::<Stamp>() {
            replace::replace(path, stamp, bytes)
        } else if let Some(anchor) = version.mark::<Anchor>() {
            replace::create(path, anchor, bytes)
        } else {
            // Another provider's: what it saw is not what is on the disk.
            Err(FileError::Stale(path.to_owned()))
        }
    }
}
