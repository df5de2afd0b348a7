//! The seam through which the driver learns what a file holds before a call changes it.

use std::path::Path;

use async_trait::async_trait;

/// Looks at files for the driver, which keeps what it is told.
#[async_trait]
pub trait FileKeeper: Send + Sync + 'static {
    /// What is at this absolute path now.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn before(&self, path: &Path) -> Before;
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Before {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Its content.
        bytes: Vec<u8>,
        /// Its permission bits.
        mode: u32,
    },
    /// Something that is not kept: too large, no regular file, or not readable.
    Unkept {
        /// Why, for a person.
        reason: String,
    },
}
