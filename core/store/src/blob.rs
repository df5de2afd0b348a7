//! Contents that are too large for a log, each under the name of its hash.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bridle_session::{BlobHash, BlobRef};
use sha2::{Digest as _, Sha256};

use crate::disk::{DiskFile, Open};
use crate::folder::sync_names;
use crate::version::DRAFT;
use crate::{FileStore, StoreError};

/// The most bytes of one blob.
const MAX_BLOB: usize = 64 * 1024 * 1024;

/// How many digits of a hash name the folder of its blob.
const FOLDER_DIGITS: usize = 2;

/// How many names a draft may find taken.
const MAX_DRAFT_NAMES: usize = 1000;

/// Keeps blobs. Methods block on the disk; call them off the async threads.
pub trait BlobStore: Send + Sync + 'static {
    /// Keeps a content; it is durable when this returns. The same content is kept once, and one
    /// that was damaged is whole again. It stays as long as a log names it; until then, for the
    /// age of [`crate::GcPolicy`].
    ///
    /// # Errors
    /// [`StoreError::Io`]; with [`io::ErrorKind::FileTooLarge`] for more than 64 MiB.
    fn put(&self, bytes: &[u8]) -> Result<BlobRef, StoreError>;

    /// The content of a blob.
    ///
    /// # Errors
    /// [`StoreError::NoBlob`]; [`StoreError::DamagedBlob`] when its size or hash is another;
    /// [`StoreError::Io`].
    fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError>;

    /// The absolute path of the file that holds a blob; `None` where it is in no file.
    fn path(&self, _blob: &BlobRef) -> Option<PathBuf> {
        None
    }
}

/// The name of a content.
pub(crate) fn name(bytes: &[u8]) -> Result<BlobRef, StoreError> {
    if bytes.len() > MAX_BLOB {
        let message = format!("a content of {} bytes; {MAX_BLOB} are the most", bytes.len());
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message).into());
    }
    Ok(BlobRef { hash: hash(bytes), bytes: bytes.len() as u64 })
}

fn hash(bytes: &[u8]) -> BlobHash {
    BlobHash::of_digest(&Sha256::digest(bytes).into())
}

/// The content, if it is what was put in.
pub(crate) fn check(blob: &BlobRef, bytes: Vec<u8>) -> Result<Vec<u8>, StoreError> {
    let damaged = |reason| StoreError::DamagedBlob { hash: blob.hash.clone(), reason };
    if bytes.len() as u64 != blob.bytes {
        return Err(damaged(format!("it has {} of {} bytes", bytes.len(), blob.bytes)));
    }
    match hash(&bytes) {
        found if found == blob.hash => Ok(bytes),
        found => Err(damaged(format!("its content has the hash {found}"))),
    }
}

impl FileStore {
    /// The folder of the blobs of a store in `state`.
    pub fn blobs(state: &Path) -> PathBuf {
        state.join("blobs")
    }

    pub(crate) fn blob_path(&self, hash: &BlobHash) -> PathBuf {
        let digits: String = hash.as_str().chars().take(FOLDER_DIGITS).collect();
        self.root.blobs().join(digits).join(hash.as_str())
    }

    /// An empty file beside `path`. Several writers may have the same content at once, and each
    /// needs its own.
    fn blob_draft(&self, path: &Path) -> io::Result<(PathBuf, Box<dyn DiskFile>)> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut taken = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..MAX_DRAFT_NAMES {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let draft = path.with_extension(format!("{}-{number}{DRAFT}", std::process::id()));
            match self.root.disk.open(&draft, Open::New) {
                Ok(file) => return Ok((draft, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = error,
                Err(error) => return Err(error),
            }
        }
        Err(taken)
    }
}

impl BlobStore for FileStore {
    /// Always writes, over an equal one too: that one may never have been synced, may be damaged,
    /// and may be about to be collected.
    fn put(&self, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        let blob = name(bytes)?;
        let (disk, path) = (&*self.root.disk, self.blob_path(&blob.hash));
        let folder = path.parent().unwrap_or(&path);
        self.root.keep(folder)?;
        let (draft, mut file) = self.blob_draft(&path)?;
        let written = file.write_all(bytes).and_then(|()| file.sync());
        if let Err(error) = written.and_then(|()| disk.rename(&draft, &path)) {
            if let Err(error) = disk.remove_file(&draft) {
                tracing::debug!(%error, "the draft of a blob stays");
            }
            return Err(error.into());
        }
        sync_names(disk, folder)?;
        Ok(blob)
    }

    fn get(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let hash = || blob.hash.clone();
        let read = self.root.disk.read(&self.blob_path(&blob.hash), MAX_BLOB as u64);
        let bytes = read.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => StoreError::NoBlob(hash()),
            io::ErrorKind::FileTooLarge | io::ErrorKind::InvalidInput => {
                StoreError::DamagedBlob { hash: hash(), reason: error.to_string() }
            }
            _ => error.into(),
        })?;
        check(blob, bytes)
    }

    fn path(&self, blob: &BlobRef) -> Option<PathBuf> {
        std::path::absolute(self.blob_path(&blob.hash)).ok()
    }
}
