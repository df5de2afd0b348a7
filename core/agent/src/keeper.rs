//! The seam through which the driver learns what a file holds before a call changes it.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

/// Looks at files for the driver, which keeps what it is told.
#[async_trait]
pub trait FileKeeper: Send + Sync + 'static {
    /// What is at this absolute path now.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn before(&self, path: &Path) -> Before;

    /// Remembers what the session's folders hold, within limits, before a command runs. Ends soon
    /// after the token is cancelled; the command must not run then.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn look_around(&self, token: &CancellationToken);

    /// What has changed in the session's folders since, and remembers what they hold now. Ends soon
    /// when the token is or gets cancelled; what was not seen then is a gap.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn changed(&self, token: &CancellationToken) -> Changes;
}

/// What a command changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The files, in the order of their paths.
    pub files: Vec<ChangedFile>,
    /// A folder of which not everything can be told, and why.
    pub gap: Option<(PathBuf, String)>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedFile {
    /// Its absolute path.
    pub path: PathBuf,
    /// What was there.
    pub before: Before,
    /// The hash of what is there now; `None` when nothing is.
    pub left: Option<String>,
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
