//! Where commands look for programs is asked for while the model thinks, so that the first command
//! does not wait for the profile of the user's login shell.

use async_trait::async_trait;
use bridle_agent::{PreStep, StepDecision, StepInput};
use bridle_compose::{Around, Next, TaskSet};
use bridle_world::process::Processes;
use tokio_util::sync::CancellationToken;

pub(super) struct Early {
    pub(super) processes: Processes,
    pub(super) tasks: TaskSet,
    /// Cancelled when the session is closed.
    pub(super) token: CancellationToken,
}

#[async_trait]
impl Around<PreStep> for Early {
    async fn around(&self, input: StepInput, next: Next<'_, PreStep>) -> StepDecision {
        let (processes, token) = (self.processes.clone(), self.token.clone());
        self.tasks.spawn(async move { processes.search_path(&token).await });
        next.run(input).await
    }
}
