//! The store of a machine without a home: every call says what to set.

use std::fs::File;

use bridle_session::{BlobRef, Header, Session, SessionId};
use bridle_store::{
    BlobStore, Ends, GcPolicy, GcReport, Listing, LogWriter, Opened, ReadLog, SearchQuery,
    SearchResults, SessionStore, StoreError, VerifyReport,
};

use crate::config::Places;

/// Keeps nothing, and says why.
#[derive(Debug)]
pub(super) struct NoStore;

fn refusal() -> StoreError {
    StoreError::Io(std::io::Error::new(std::io::ErrorKind::NotFound, Places::no_state()))
}

impl SessionStore for NoStore {
    fn create(&self, _: &Header) -> Result<LogWriter, StoreError> {
        Err(refusal())
    }

    fn seed(&self, _: &Session) -> Result<LogWriter, StoreError> {
        Err(refusal())
    }

    fn open(&self, _: &SessionId) -> Result<Opened, StoreError> {
        Err(refusal())
    }

    fn read(&self, _: &SessionId) -> Result<ReadLog, StoreError> {
        Err(refusal())
    }

    fn ends(&self, _: &SessionId, _: usize, _: usize) -> Result<Ends, StoreError> {
        Err(refusal())
    }

    fn verify(&self, _: &SessionId) -> Result<VerifyReport, StoreError> {
        Err(refusal())
    }

    fn list(&self) -> Result<Listing, StoreError> {
        Err(refusal())
    }

    fn search(&self, _: &SearchQuery) -> Result<SearchResults, StoreError> {
        Err(refusal())
    }

    fn remove(&self, _: &SessionId) -> Result<(), StoreError> {
        Err(refusal())
    }

    fn collect(&self, _: &GcPolicy) -> Result<GcReport, StoreError> {
        Err(refusal())
    }
}

impl BlobStore for NoStore {
    fn put(&self, _: &[u8]) -> Result<BlobRef, StoreError> {
        Err(refusal())
    }

    fn scratch(&self) -> Result<File, StoreError> {
        Err(refusal())
    }

    fn put_file(&self, _: &File) -> Result<BlobRef, StoreError> {
        Err(refusal())
    }

    fn get(&self, _: &BlobRef) -> Result<Vec<u8>, StoreError> {
        Err(refusal())
    }
}
