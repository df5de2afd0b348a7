//! A provider of the session store.

use bridle_session::{Header, SessionId};

use crate::{Listing, LogWriter, Opened, ReadLog, SessionStore, StoreError};

/// To be described.
#[derive(Debug)]
pub struct FileStore {
    _private: (),
}

impl SessionStore for FileStore {
    fn create(&self, header: &Header) -> Result<LogWriter, StoreError> {
        let _header = header;
        todo!()
    }
    fn open(&self, id: &SessionId) -> Result<Opened, StoreError> {
        let _id = id;
        todo!()
    }
    fn read(&self, id: &SessionId) -> Result<ReadLog, StoreError> {
        let _id = id;
        todo!()
    }
    fn list(&self) -> Result<Listing, StoreError> {
        todo!()
    }
}

impl FileStore {
    /// A store in `state` (the folder that holds `sessions/`); creates it with mode 0700 when the
    /// first session is flushed.
    pub fn new(state: impl Into<std::path::PathBuf>) -> Self {
        let _state: std::path::PathBuf = state.into();
        todo!()
    }

    /// Where the log of a session is or would be.
    pub fn log_path(&self, id: &SessionId) -> std::path::PathBuf {
        let _id = id;
        todo!()
    }
}
