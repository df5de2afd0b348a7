//! Batches into a log file, which comes into being with the first of them.

use std::io::{self, Write as _};

use fs_err::{File, OpenOptions};

use crate::StoreError;
use crate::file::LogFolder;
use crate::folder::{create_private, open_private, sync_folder};
use crate::frame::Encoder;
use crate::lock::Lock;
use crate::sink::{CommitError, LogFile, Sink};

/// The writer's end of a log on the disk. Holds the lock.
pub(crate) struct FileSink {
    folder: LogFolder,
    encoder: Encoder,
    log: Log,
    lock: Option<Lock>,
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
    pub(crate) fn open(folder: LogFolder, log: LogFile, lock: Lock) -> Result<Self, StoreError> {
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
                self.log = Log::Open(LogFile::new(Box::new(file), bytes.len() as u64));
                Ok(())
            }
        }
    }
}

impl FileSink {
    /// Writes and syncs the first bytes under another name, so that the log's own name appears
    /// with a complete header or not at all.
    fn create(&mut self, bytes: &[u8]) -> Result<File, CommitError> {
        let path = self.folder.log();
        let draft = path.with_extension("new");
        let mut file = self.prepare(&draft).map_err(CommitError::NotWritten)?;
        if let Err(error) = file.write_all(bytes) {
            return Err(CommitError::NotWritten(error));
        }
        file.sync_all().map_err(CommitError::Lost)?;
        fs_err::rename(&draft, &path).map_err(CommitError::NotWritten)?;
        sync_folder(self.folder.path()).map_err(CommitError::Lost)?;
        Ok(file)
    }

    /// Makes the folder, takes its lock, and opens the empty draft in it.
    fn prepare(&mut self, draft: &std::path::Path) -> io::Result<File> {
        create_private(self.folder.path())?;
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
        let file = open_private(draft, OpenOptions::new().append(true).create(true))?;
        file.set_len(0)?;
        Ok(file)
    }
}
