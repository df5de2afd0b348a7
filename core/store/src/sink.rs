//! Where a writer's batches go: the seam between the queue and the disk.

use std::io;

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

/// The operations on an open log file that can fail halfway. `fs_err::File` is the real one.
pub(crate) trait Disk: Send {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()>;
    fn set_len(&mut self, len: u64) -> io::Result<()>;
    fn sync(&mut self) -> io::Result<()>;
}

impl Disk for fs_err::File {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        io::Write::write_all(self, bytes)
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        fs_err::File::set_len(self, len)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// An open log whose first `len` bytes are complete frames.
pub(crate) struct LogFile {
    disk: Box<dyn Disk>,
    len: u64,
}

impl LogFile {
    /// `disk` appends; its present length is `len`.
    pub(crate) fn new(disk: Box<dyn Disk>, len: u64) -> Self {
        Self { disk, len }
    }

    /// Appends one frame and syncs. A write that fails leaves the log as it was; the sync is
    /// never repeated, because after a failure the kernel may have dropped the pages and would
    /// answer a second one with success.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), CommitError> {
        if let Err(error) = self.disk.write_all(frame) {
            let restored = self.disk.set_len(self.len).and_then(|()| self.disk.sync());
            return Err(match restored {
                Ok(()) => CommitError::NotWritten(error),
                Err(error) => CommitError::Lost(error),
            });
        }
        self.disk.sync().map_err(CommitError::Lost)?;
        self.len = self.len.saturating_add(frame.len() as u64);
        Ok(())
    }
}
