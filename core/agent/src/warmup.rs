//! What the first turn of a session waits for, for a moment: tools that are still on their way.

use std::time::Duration;

use async_trait::async_trait;

/// How long it waits, all together.
pub(crate) const LIMIT: Duration = Duration::from_secs(3);

/// Something that is being prepared while a session begins.
#[async_trait]
pub trait Warmup: Send + Sync + 'static {
    /// Completes once it is known what there is; at once when that is known already. Asked before the
    /// tools of the first turn are looked up, which happens all the same when it takes too long.
    ///
    /// # Cancel safety
    /// Must be cancel safe.
    async fn ready(&self);
}
