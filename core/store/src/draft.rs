//! A whole log, written under another name so that its own appears at once or not at all.

use std::io;
use std::path::PathBuf;

use crate::StoreError;
use crate::codec::Units;
use crate::disk::{DiskFile, Open};
use crate::folder::sync_names;
use crate::log_folder::LogFolder;
use crate::plant::Plant;
use crate::sink::{CommitError, LogFile};
use crate::version::Generation;

/// An unfinished log. Its folder's lock is held, so it is nobody else's.
pub(crate) struct Draft<'a> {
    folder: &'a LogFolder,
    generation: Generation,
    file: Box<dyn DiskFile>,
    /// How long each unit is.
    units: Vec<usize>,
}

impl<'a> Draft<'a> {
    /// Begins a log; what a killed process has left of one goes.
    pub(crate) fn begin(folder: &'a LogFolder, generation: Generation) -> io::Result<Self> {
        let path = folder.path().join(generation.draft_name());
        let file = folder.disk().open(&path, Open::Empty)?;
        Ok(Self { folder, generation, file, units: Vec::new() })
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(self.generation.draft_name())
    }

    /// Writes one batch of lines; an empty one is none.
    pub(crate) fn write(&mut self, lines: &[u8]) -> io::Result<()> {
        if !lines.is_empty() {
            let unit = self.generation.compression.encode(lines)?;
            self.file.write_all(&unit)?;
            self.units.push(unit.len());
        }
        Ok(())
    }

    /// Makes the content durable.
    pub(crate) fn sync(&mut self) -> io::Result<()> {
        self.file.sync()
    }

    /// Reads every batch back and compares it with what was written, one after the other.
    pub(crate) fn verify(
        &self,
        batches: impl IntoIterator<Item = Result<Vec<u8>, StoreError>>,
    ) -> Result<(), StoreError> {
        let (path, mut start) = (self.path(), 0_u64);
        for (written, len) in batches.into_iter().zip(&self.units) {
            let (written, read) = (written?, self.folder.disk().read_range(&path, start, *len)?);
            let compression = self.generation.compression;
            if Units::new(compression, &read, &|_| true)?.whole().as_deref() != Some(&*written) {
                let message =
                    format!("{}: byte {start} reads otherwise than it was written", path.display());
                return Err(io::Error::new(io::ErrorKind::InvalidData, message).into());
            }
            start = start.saturating_add(*len as u64);
        }
        Ok(())
    }

    /// Gives the log its name, which must be free, and makes that durable. When that fails the
    /// name is taken away again.
    pub(crate) fn publish(self) -> Result<LogFile, CommitError> {
        let (disk, path) = (self.folder.disk(), self.folder.file(self.generation));
        let published = match Plant::PublishOver.is_in() {
            true => disk.rename(&self.path(), &path),
            false => disk.publish(&self.path(), &path),
        };
        published.map_err(CommitError::NotWritten)?;
        if let Err(error) = sync_names(disk, self.folder.path()) {
            if let Err(error) = disk.remove_file(&path) {
                tracing::error!(%error, "a log whose name could not be synced stays");
            }
            return Err(CommitError::Lost(error));
        }
        let len: usize = self.units.iter().sum();
        Ok(LogFile::new(self.file, len as u64))
    }
}
