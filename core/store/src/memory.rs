//! A provider of the session store.

use bridle_session::{Header, SessionId};

use crate::{Listing, LogWriter, Opened, ReadLog, SessionStore, StoreError};

/// To be described.
#[derive(Debug)]
pub struct MemoryStore {
    _private: (),
}

impl SessionStore for MemoryStore {
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

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        todo!()
    }
}
