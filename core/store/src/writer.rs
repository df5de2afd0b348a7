//! The write handle of one log: queues events, writes them in order, and flushes on demand.

use std::sync::Arc;

use bridle_session::Event;

use crate::StoreError;

/// The only way to write a log. Holds the lock and the writer thread; both end with it.
#[derive(Debug)]
pub struct LogWriter {
    _private: (),
}

impl LogWriter {
    /// Queues one event. It is written within about 200 ms, or at the next flush.
    ///
    /// # Errors
    /// [`StoreError::Lost`] after a failed sync.
    pub fn append(&self, event: Arc<Event>) -> Result<(), StoreError> {
        let _event = event;
        todo!()
    }

    /// Returns when everything queued before it is on the disk and synced.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a write failed: the log was cut back to its last good length, the
    /// batch stays queued, and the next flush tries again. [`StoreError::Lost`] after a failed
    /// sync.
    ///
    /// # Cancel safety
    /// Cancel safe: the flush itself goes on.
    pub async fn flush(&self) -> Result<(), StoreError> {
        todo!()
    }
}
