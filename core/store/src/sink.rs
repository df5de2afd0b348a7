//! Where a writer's batches go: the seam between the queue and the disk.

use std::io;

use crate::disk::DiskFile;
use crate::plant::Plant;

/// Makes batches durable, one after the other. Owned by one writer thread.
pub(crate) trait Sink: Send {
    /// Makes `lines` (whole event lines, possibly none) durable, and before that whatever the log
    /// still lacks to exist. Returns when it is on the disk.
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError>;
}

/// A batch that is not durable.
#[derive(Debug)]
pub(crate) enum CommitError {
    /// Nothing of it is in the log; it may be tried again.
    NotWritten(io::Error),
    /// What the disk holds is not known any more; nothing may be written.
    Lost(io::Error),
}

/// An open log whose first `len` bytes are complete frames.
pub(crate) struct LogFile {
    disk: Box<dyn DiskFile>,
    len: u64,
}

impl LogFile {
    /// `disk` appends; its present length is `len`.
    pub(crate) fn new(disk: Box<dyn DiskFile>, len: u64) -> Self {
        Self { disk, len }
    }

    /// Appends one frame and syncs. A write that fails leaves the log as it was. A sync that fails
    /// is never repeated, because the kernel may have dropped the pages and would answer a second
    /// one with success; for the same reason it would show the next reader a frame that is not on
    /// the disk, so the frame is taken off again.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), CommitError> {
        if let Err(error) = self.disk.write_all(frame) {
            let restored = self.disk.set_len(self.len).and_then(|()| self.disk.sync());
            return Err(match restored {
                Ok(()) => CommitError::NotWritten(error),
                Err(error) => CommitError::Lost(error),
            });
        }
        if let Err(error) = self.sync() {
            if let Err(error) = self.disk.set_len(self.len) {
                tracing::error!(%error, "a frame that could not be synced stays in the log");
            }
            return Err(CommitError::Lost(error));
        }
        self.len = self.len.saturating_add(frame.len() as u64);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if Plant::EarlyAnswer.is_in() {
            return Ok(());
        }
        let synced = self.disk.sync();
        if Plant::RepeatedSync.is_in() { synced.or_else(|_| self.disk.sync()) } else { synced }
    }
}
