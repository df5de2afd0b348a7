//! The one HTTP client of the process, built on first use and off the driver; and secrets.

use std::fmt;
use std::sync::Arc;

/// A key. Its `Debug` shows nothing, and it has no `Display`.
#[derive(Clone)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Wraps a key.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The key, for the one header that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// Shared handle to the process's client; cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct HttpClient {
    _private: (),
}
