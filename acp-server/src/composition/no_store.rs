//! The store of a machine without a home: every call says what to set.

use bridle_session::{Header, SessionId};
use bridle_store::{Listing, LogWriter, Opened, ReadLog, SessionStore, StoreError};

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

    fn open(&self, _: &SessionId) -> Result<Opened, StoreError> {
        Err(refusal())
    }

    fn read(&self, _: &SessionId) -> Result<ReadLog, StoreError> {
        Err(refusal())
    }

    fn list(&self) -> Result<Listing, StoreError> {
        Err(refusal())
    }
}
