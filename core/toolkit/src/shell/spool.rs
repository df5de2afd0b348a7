//! Where the whole of a large output goes while the command runs, and the blob that it becomes.

use std::fs::File;
use std::sync::Arc;

use bridle_session::BlobRef;
use bridle_store::{BlobStore, StoreError};
use bridle_world::process::Finished;

/// The blob of an output; none where memory has kept it whole, or why there is none.
pub(crate) type Kept = Result<Option<BlobRef>, String>;

pub(crate) struct Spool {
    blobs: Arc<dyn BlobStore>,
    /// For the command; `None` when there can be none.
    pub(crate) file: Option<Arc<File>>,
    fault: Option<String>,
}

impl Spool {
    /// A spool on the disk of the blobs. One that cannot be had is missed only by a large output.
    pub(crate) async fn of(blobs: Arc<dyn BlobStore>) -> Self {
        let store = Arc::clone(&blobs);
        match off_the_runtime(move || store.scratch()).await {
            Ok(file) => Self { blobs, file: Some(Arc::new(file)), fault: None },
            Err(fault) => Self { blobs, file: None, fault: Some(fault) },
        }
    }

    /// Makes the blob of an output that memory has not kept whole.
    pub(crate) async fn kept(self, finished: &Finished) -> Kept {
        if finished.output.omitted_bytes() == 0 {
            return Ok(None);
        }
        if let Some(fault) = self.fault.or_else(|| finished.spooled.fault.clone()) {
            return Err(fault);
        }
        let (blobs, file) = (self.blobs, self.file);
        off_the_runtime(move || file.map(|file| blobs.put_file(&file)).transpose()).await
    }
}

async fn off_the_runtime<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, String> {
    let done = tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?;
    done.map_err(|error| error.to_string())
}
