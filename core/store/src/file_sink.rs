//! Batches into a log file, which comes into being with the first of them.

use std::io;

use crate::StoreError;
use crate::disk::{DiskFile, Guard, Open};
use crate::file::LogFolder;
use crate::folder::{create_private, sync_names};
use crate::frame::Encoder;
use crate::sink::{CommitError, LogFile, Sink};

/// The writer's end of a log on the disk. Holds the lock.
pub(crate) struct FileSink {
    folder: LogFolder,
    encoder: Encoder,
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
    pub(crate) fn unborn(folder: LogFolder, header: Vec<u8>) -> Result<Self, StoreError> {
        Ok(Self { folder, encoder: Encoder::new()?, log: Log::Unborn(header), lock: None })
    }

    /// A log that is there.
    pub(crate) fn open(
        folder: LogFolder,
        log: LogFile,
        lock: Box<dyn Guard>,
    ) -> Result<Self, StoreError> {
        Ok(Self { folder, encoder: Encoder::new()?, log: Log::Open(log), lock: Some(lock) })
    }
}

impl Sink for FileSink {
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError> {
        match &mut self.log {
            Log::Open(_) if lines.is_empty() => Ok(()),
            Log::Open(log) => {
                let frame = self.encoder.encode(lines).map_err(CommitError::NotWritten)?;
                log.append(frame)
            }
            Log::Unborn(header) => {
                let mut bytes =
                    self.encoder.encode(header).map_err(CommitError::NotWritten)?.to_vec();
                if !lines.is_empty() {
                    let batch = self.encoder.encode(lines).map_err(CommitError::NotWritten)?;
                    bytes.extend_from_slice(batch);
                }
                let file = self.create(&bytes)?;
                self.log = Log::Open(LogFile::new(file, bytes.len() as u64));
                Ok(())
            }
        }
    }
}

impl FileSink {
    /// Writes and syncs the first bytes under another name, so that the log's own name appears
    /// with a complete header or not at all.
    fn create(&mut self, bytes: &[u8]) -> Result<Box<dyn DiskFile>, CommitError> {
        let path = self.folder.log();
        let draft = path.with_extension("new");
        let mut file = self.prepare(&draft).map_err(CommitError::NotWritten)?;
        if let Err(error) = file.write_all(bytes) {
            return Err(CommitError::NotWritten(error));
        }
        file.sync().map_err(CommitError::Lost)?;
        self.folder.disk().rename(&draft, &path).map_err(CommitError::NotWritten)?;
        sync_names(self.folder.disk(), self.folder.path()).map_err(CommitError::Lost)?;
        Ok(file)
    }

    /// Makes the folder, takes its lock, and opens the empty draft in it.
    fn prepare(&mut self, draft: &std::path::Path) -> io::Result<Box<dyn DiskFile>> {
        create_private(self.folder.disk(), self.folder.path())?;
        if self.lock.is_none() {
            self.lock = Some(self.folder.lock().map_err(io::Error::other)?);
        }
        match self.folder.check_version() {
            Err(StoreError::NotFound(_)) => (),
            Err(StoreError::Io(error)) => return Err(error),
            Ok(()) | Err(_) => {
                let message = format!("{}: holds a session", self.folder.path().display());
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
            }
        }
        self.folder.disk().open(draft, Open::Empty)
    }
}
