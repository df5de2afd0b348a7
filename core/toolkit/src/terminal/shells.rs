//! The shells of one session, by their names.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_agent::{Confinement, ToolFailure};
use bridle_compose::{Clock, TaskSet};
use bridle_world::Roots;
use bridle_world::process::Processes;
use tokio_util::sync::CancellationToken;

use super::shell::{Shell, began_not, in_words};
use crate::sandbox::CommandSandbox;
use crate::shell::report;

/// How many terminals of a session there may be at once.
const MAX_TERMINALS: usize = 4;

pub(super) struct Shells {
    pub(super) roots: Arc<Roots>,
    pub(super) processes: Processes,
    pub(super) sandbox: Arc<CommandSandbox>,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) tasks: TaskSet,
    /// Cancelled when the session is closed: ends every shell.
    pub(super) closing: CancellationToken,
    pub(super) all: Mutex<BTreeMap<String, Arc<Shell>>>,
}

impl Shells {
    /// The shell of this name, ended or not.
    pub(super) fn find(&self, name: &str) -> Option<Arc<Shell>> {
        self.lock().get(name).map(Arc::clone)
    }

    /// The shell of this name, and what is to be said of it when it is a new one, which may do what
    /// is granted for as long as it lives.
    pub(super) async fn open(
        &self,
        name: &str,
        granted: Confinement,
        token: &CancellationToken,
    ) -> Result<(Arc<Shell>, Option<String>), ToolFailure> {
        let before = self.find(name).map(|shell| (shell.state().end, shell));
        let ended = match before {
            Some((None, shell)) => return Ok((shell, None)),
            Some((Some(end), shell)) => Some(in_words(&end, shell.confinement)),
            None => None,
        };
        self.make_room()?;
        let (cwd, clock) = (self.roots.cwd().to_owned(), Arc::clone(&self.clock));
        let news = match ended {
            Some(end) => format!("this is a new shell in {}; the last: {end}", cwd.display()),
            None => format!("this is a new shell in {}", cwd.display()),
        };
        let policy = self.sandbox.policy(granted).await?;
        let started = self.processes.terminal(cwd, policy, token).await.map_err(report::not_run)?;
        let started = started.ok_or_else(began_not)?;
        let (tasks, closing) = (&self.tasks, &self.closing);
        let shell = Shell::begin(started, granted, clock, tasks, closing, token).await?;
        self.lock().insert(name.to_owned(), Arc::clone(&shell));
        Ok((shell, Some(news)))
    }

    /// Ends a shell and forgets it.
    pub(super) async fn close(&self, name: &str) {
        let shell = self.lock().remove(name);
        if let Some(shell) = shell {
            shell.end().await;
        }
    }

    pub(super) async fn end_all(&self) {
        self.closing.cancel();
        let all: Vec<_> = self.lock().values().cloned().collect();
        for shell in all {
            shell.end().await;
        }
    }

    fn make_room(&self) -> Result<(), ToolFailure> {
        let mut all = self.lock();
        all.retain(|_, shell| shell.state().end.is_none());
        if all.len() < MAX_TERMINALS {
            return Ok(());
        }
        let names = all.keys().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        Err(ToolFailure::failed(format!(
            "{MAX_TERMINALS} terminals are open, which is the most; nothing was run. Use one of \
             {names}, or `close` one."
        )))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Shell>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
