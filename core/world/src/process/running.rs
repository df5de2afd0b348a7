//! A command that has been started, between a look at what is protected before and one afterwards.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Capture, Finished, ProcessError, call, spool};
use crate::sandbox::altered::{Altered, Snapshot};
use crate::sandbox::{Denial, Lookout};
use crate::supervisor::protocol::Request;

/// A command that has been started. Dropping it ends every process of the command, without
/// waiting for it.
pub struct Running {
    pub(super) call: call::Call,
    pub(super) timeout: Option<Duration>,
    pub(super) spool: Option<Arc<File>>,
    /// What was protected, as it was before.
    pub(super) before: Option<Snapshot>,
    pub(super) lookout: Lookout,
}

impl Running {
    /// Waits until the command runs.
    ///
    /// # Errors
    /// [`ProcessError`] when it cannot.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn started(&mut self) -> Result<(), ProcessError> {
        self.call.started().await
    }

    /// The number of the process that everything the command starts descends from; `None` while it does not
    /// run.
    pub(crate) fn ancestor(&self) -> Option<i32> {
        self.call.group().map(|group| group.as_raw_nonzero().get())
    }

    /// Has `told` hear of each thing that the policy refuses, before whoever asked for it hears that.
    pub fn on_denial(&mut self, told: impl FnMut(&Denial) + Send + 'static) {
        self.call.on_denial(Box::new(told));
    }

    /// Follows the command to its end, as [`Processes::run`] does.
    ///
    /// # Errors
    /// As for [`Processes::run`].
    ///
    /// # Cancel safety
    /// As for [`Processes::run`].
    pub async fn finish(
        self,
        token: CancellationToken,
        on_output: impl FnMut(&Capture) + Send,
    ) -> Result<Finished, ProcessError> {
        let spool = spool::Spool::new(self.spool);
        let finished = self.call.finish(self.timeout, spool, token, on_output).await;
        // Also when the command got rid of its supervisor.
        let altered = match self.before {
            Some(before) => blocking(move || before.altered(&self.lookout)).await?,
            None => Altered::default(),
        };
        let mut finished = finished.inspect_err(|_| {
            if !altered.paths.is_empty() || !altered.put_aside.is_empty() {
                tracing::warn!(?altered, "a command that nobody could follow left this behind");
            }
        })?;
        (finished.altered, finished.put_aside) = (altered.paths, altered.put_aside);
        Ok(finished)
    }
}

/// What is protected, as it is now, where the command is confined.
pub(super) async fn look_before(request: &Request) -> Result<Option<Snapshot>, ProcessError> {
    let Some(confinement) = request.confinement.clone() else { return Ok(None) };
    let folder = PathBuf::from(&request.cwd);
    let look = move || folder.is_dir().then(|| confinement.snapshot()).ok_or(folder);
    // In the sandbox there would be a folder, in which everything is lost afterwards.
    let before = blocking(look).await?.map_err(|path| ProcessError::WorkingDirectory {
        path,
        reason: "it is no folder any more".to_owned(),
    })?;
    Ok(Some(before))
}

/// Looks at files where that holds nobody up.
async fn blocking<T: Send + 'static>(
    look: impl FnOnce() -> T + Send + 'static,
) -> Result<T, ProcessError> {
    let looked = tokio::task::spawn_blocking(look).await;
    looked.map_err(|error| ProcessError::Supervisor { reason: error.to_string() })
}
