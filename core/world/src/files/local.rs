//! The files of this host's disk.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};

use super::open::open_regular;
use super::read::Stamp;
use super::relocate;
use super::replace::{self, Anchor};
use super::{
    ContentHash, FileError, Files, LineWindow, Lines, Listing, NotText, Snapshot, Text, Version,
    folder, read,
};

/// The largest file (bytes) that is read in an encoding other than UTF-8.
const MAX_DECODED_BYTES: u64 = 16 * 1024 * 1024;

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
        let failed = |error| FileError::io(path, error);
        let lines = Lines::read(open_regular(path)?, window, cancelled).map_err(failed)?;
        match &lines {
            Ok(lines) if !lines.lossy => {}
            Err(NotText::Binary) => {}
            // Another encoding is told from the whole file, as for an edit.
            _ => {
                if let Some(decoded) = read_decoded(path, window, cancelled)? {
                    return Ok(Ok(decoded));
                }
            }
        }
        Ok(lines)
    }

    fn read_for_change(&self, path: &Path, limit: u64) -> Result<Snapshot, FileError> {
        let stamp = read::read_for_change(path, limit)?;
        let bytes = stamp.content.clone();
        let (hash, further_names) = (ContentHash::of(&bytes), stamp.links.saturating_sub(1));
        Ok(Snapshot { bytes, hash, version: Version::new(stamp), further_names })
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

    fn remove(&self, path: &Path, version: &Version) -> Result<(), FileError> {
        let stamp = version.mark().ok_or_else(|| FileError::Stale(path.to_owned()))?;
        relocate::remove(path, stamp)
    }

    fn rename(
        &self,
        path: &Path,
        version: &Version,
        to: &Path,
        place: &Version,
    ) -> Result<(), FileError> {
        let stamp = version.mark().ok_or_else(|| FileError::Stale(path.to_owned()))?;
        let place = place.mark().ok_or_else(|| FileError::Stale(to.to_owned()))?;
        relocate::rename(path, stamp, to, place)
    }
}

/// `None` when the file is no text in another encoding than UTF-8, or too large to tell.
fn read_decoded(
    path: &Path,
    window: &LineWindow,
    cancelled: &dyn Fn() -> bool,
) -> Result<Option<Lines>, FileError> {
    let bytes = match read::read(path, MAX_DECODED_BYTES) {
        Ok(bytes) => bytes,
        Err(FileError::TooLarge { .. }) => return Ok(None),
        Err(error) => return Err(error),
    };
    let Ok(text) = Text::parse(&bytes) else { return Ok(None) };
    let lines = Lines::read(text.body.as_bytes(), window, cancelled);
    let lines = lines.map_err(|error| FileError::io(path, error))?;
    let hash = ContentHash::of(&bytes);
    Ok(lines.ok().map(|lines| Lines {
        encoding: text.encoding(),
        hash: lines.hash.map(|_| hash),
        ..lines
    }))
}
