//! Batches into a log file, which comes into being with the first of them.

use std::io;

use crate::StoreError;
use crate::disk::Guard;
use crate::draft::Draft;
use crate::log_folder::LogFolder;
use crate::sink::{CommitError, LogFile, Sink};
use crate::version::Generation;

/// The writer's end of a log on the disk. Holds the lock.
pub(crate) struct FileSink {
    folder: LogFolder,
    generation: Generation,
    log: Log,
    lock: Option<Box<dyn Guard>>,
}

enum Log {
    /// Nothing is on the disk yet; this is the header's line.
    Unborn(Vec<u8>),
    Open(LogFile),
}

impl FileSink {
    /// A log to be created with its first batch.
    pub(crate) fn unborn(folder: LogFolder, generation: Generation, header: Vec<u8>) -> Self {
        Self { folder, generation, log: Log::Unborn(header), lock: None }
    }

    /// A log that is there.
    pub(crate) fn open(
        folder: LogFolder,
        generation: Generation,
        log: LogFile,
        lock: Box<dyn Guard>,
    ) -> Self {
        Self { folder, generation, log: Log::Open(log), lock: Some(lock) }
    }
}

impl Sink for FileSink {
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError> {
        match &mut self.log {
            Log::Open(_) if lines.is_empty() => Ok(()),
            Log::Open(log) => {
                let unit = self.generation.compression.encode(lines);
                log.append(&unit.map_err(CommitError::NotWritten)?)
            }
            Log::Unborn(header) => {
                if self.lock.is_none() {
                    self.lock = Some(self.folder.claim().map_err(not_written)?);
                }
                let mut draft = Draft::begin(&self.folder, self.generation)
                    .and_then(|mut draft| {
                        draft.write(header)?;
                        draft.write(lines)?;
                        Ok(draft)
                    })
                    .map_err(CommitError::NotWritten)?;
                draft.sync().map_err(CommitError::Lost)?;
                self.log = Log::Open(draft.publish()?);
                Ok(())
            }
        }
    }
}

fn not_written(error: StoreError) -> CommitError {
    CommitError::NotWritten(match error {
        StoreError::Io(error) => error,
        error => io::Error::other(error),
    })
}
