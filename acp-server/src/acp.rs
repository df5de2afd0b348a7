//! The Agent Client Protocol: the only module that knows the SDK.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::composition::App;

/// Serves one client until its input ends, then closes every session, waits until nothing is
/// left, and returns.
///
/// # Errors
/// When the connection itself fails; a client's bad messages are answered, never an error here.
pub async fn serve(
    app: Arc<App>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
) -> anyhow::Result<()> {
    let _ = (app, input, output);
    todo!()
}
