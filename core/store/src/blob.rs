//! Contents that are too large for a log, each under the name of its hash.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
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

/// How much of a file is in memory while it becomes a blob, in bytes.
const PIECE: usize = 256 * 1024;

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

    /// An empty file without a name on the disk of the blobs, for a content that grows. It goes
    /// with its last handle, however the process ends.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    fn scratch(&self) -> Result<File, StoreError>;

    /// Keeps what a file holds, as [`BlobStore::put`] does, without having it in memory. The file
    /// must not change meanwhile.
    ///
    /// # Errors
    /// As for [`BlobStore::put`].
    fn put_file(&self, file: &File) -> Result<BlobRef, StoreError>;

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
    fits(bytes.len() as u64)?;
    Ok(BlobRef { hash: hash(bytes), bytes: bytes.len() as u64 })
}

/// The name of what a file holds.
pub(crate) fn name_of_file(file: &File) -> Result<BlobRef, StoreError> {
    fits(file.metadata()?.len())?;
    let (mut sum, mut bytes) = (Sha256::new(), 0);
    pieces(file, |piece| {
        sum.update(piece);
        bytes += piece.len() as u64;
        Ok(())
    })?;
    Ok(BlobRef { hash: BlobHash::of_digest(&sum.finalize().into()), bytes })
}

/// Gives `each` what a file holds, from its beginning.
pub(crate) fn pieces(file: &File, mut each: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let (mut buffer, mut at) = (vec![0; PIECE], 0);
    loop {
        match file.read_at(&mut buffer, at) {
            Ok(0) => return Ok(()),
            Ok(count) => {
                each(buffer.get(..count).unwrap_or_default())?;
                at += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn fits(bytes: u64) -> io::Result<()> {
    if bytes > MAX_BLOB as u64 {
        let message = format!("a content of {bytes} bytes; {MAX_BLOB} are the most");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(())
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

    /// Always writes, over an equal one too: that one may never have been synced, may be damaged,
    /// and may be about to be collected.
    fn keep_blob(
        &self,
        blob: BlobRef,
        write: impl FnOnce(&mut dyn DiskFile) -> io::Result<()>,
    ) -> Result<BlobRef, StoreError> {
        let (disk, path) = (&*self.root.disk, self.blob_path(&blob.hash));
        let folder = path.parent().unwrap_or(&path);
        self.root.keep(folder)?;
        let (draft, mut file) = self.blob_draft(&path)?;
        let written = write(&mut *file).and_then(|()| file.sync());
        if let Err(error) = written.and_then(|()| disk.rename(&draft, &path)) {
            if let Err(error) = disk.remove_file(&draft) {
                tracing::debug!(%error, "the draft of a blob stays");
            }
            return Err(error.into());
        }
        sync_names(disk, folder)?;
        Ok(blob)
    }
}

impl BlobStore for FileStore {
    fn put(&self, bytes: &[u8]) -> Result<BlobRef, StoreError> {
        self.keep_blob(name(bytes)?, |draft| draft.write_all(bytes))
    }

    fn scratch(&self) -> Result<File, StoreError> {
        let folder = self.root.blobs();
        self.root.keep(&folder)?;
        Ok(self.root.disk.scratch(&folder)?)
    }

    fn put_file(&self, file: &File) -> Result<BlobRef, StoreError> {
        self.keep_blob(name_of_file(file)?, |draft| pieces(file, |piece| draft.write_all(piece)))
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
