//! Disk work off the async threads.

use bridle_agent::ToolFailure;

/// Runs blocking work on a thread for it. A panic in it fails this call only.
///
/// # Cancel safety
/// Dropping the future leaves the work running to its end; its result is lost.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolFailure> + Send + 'static,
) -> Result<T, ToolFailure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => {
            tracing::error!(%error, "the body of a tool panicked");
            Err(ToolFailure::failed("The tool failed because of a bug in Bridle; see its log."))
        }
    }
}
