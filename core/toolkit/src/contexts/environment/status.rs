//! Whether git sees changes: asked in the background, in the read-only sandbox of the session, with
//! everything off that a repository could make git start. Where nothing can be confined, it is not asked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bridle_agent::{Confinement, Sandboxing};
use bridle_compose::{ActivateError, Scope, Setup};
use bridle_world::process::{CommandSpec, Processes};
use tokio_util::sync::CancellationToken;

use super::git;
use crate::file_tool::FileWorld;
use crate::sandbox::CommandSandbox;

/// How long git may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Neither hooks nor a monitor nor a pager; no configuration but the repository's, no index written, no
/// object fetched, by no protocol, no submodule entered. Only filters cannot be switched off by name, so
/// a repository that has some of its own is not asked.
const SCRIPT: &str = "\
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
export GIT_NO_LAZY_FETCH=1 GIT_ALLOW_PROTOCOL=none GIT_PAGER=cat
git --no-pager config --get-regexp '^filter\\.' >/dev/null 2>&1
[ $? -eq 1 ] || exit 3
exec git --no-pager -c core.fsmonitor=false -c core.hooksPath=/dev/null -c core.untrackedCache=false \
-c status.submoduleSummary=false status --porcelain --no-renames --ignore-submodules=all \
--untracked-files=normal 2>/dev/null
";

/// What git said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Clean,
    Changed,
}

/// What is known of what git says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing was answered yet.
    #[default]
    Outstanding,
    /// It was not asked, or had no answer.
    Nothing,
    /// What it said last.
    Is(Status),
}

/// Asks git, and remembers what it said last.
#[derive(Clone)]
pub(in crate::contexts) struct Statuses {
    processes: Processes,
    scope: Scope,
    token: CancellationToken,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    is_asked: bool,
    last: Answer,
}

impl Statuses {
    pub(super) fn new(processes: Processes, setup: &Setup) -> Result<Self, ActivateError> {
        let token = setup.token().child_token();
        Ok(Self { processes, scope: setup.scope().clone(), token, state: Arc::default() })
    }

    pub(super) fn processes(&self) -> &Processes {
        &self.processes
    }

    /// What was said last.
    pub(super) fn answer(&self) -> Answer {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }

    /// Asks, unless that goes on already. Waits for nothing.
    pub(super) fn ask(&self, world: &FileWorld) {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            if std::mem::replace(&mut state.is_asked, true) {
                return;
            }
        }
        let (this, world) = (self.clone(), world.clone());
        self.scope.tasks().spawn(async move {
            let status = this.status(world).await;
            let mut state = this.state.lock().unwrap_or_else(PoisonError::into_inner);
            let last = status.map_or(Answer::Nothing, Answer::Is);
            *state = State { is_asked: false, last };
        });
    }

    async fn status(&self, world: FileWorld) -> Option<Status> {
        let cwd = world.roots.cwd().to_owned();
        let files = Arc::clone(&world.files);
        let there = cwd.clone();
        let is_repository = tokio::task::spawn_blocking(move || git::head(&*files, &there));
        is_repository.await.ok()??;
        let sandbox = self.scope.get::<CommandSandbox>()?;
        if sandbox.sandboxing().await == Sandboxing::Unavailable {
            return None;
        }
        let confinement = Some(sandbox.policy(Confinement::ReadOnly).await.ok()??);
        let spec = CommandSpec {
            command: SCRIPT.to_owned(),
            cwd,
            timeout: Some(TIMEOUT),
            spool: None,
            confinement,
        };
        let finished = self.processes.run(spec, self.token.clone(), |_| ()).await.ok()?;
        match (finished.exit_code, finished.output.total_bytes()) {
            (Some(0), 0) => Some(Status::Clean),
            (Some(0), _) => Some(Status::Changed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
