//! What the tools of a session share: its project, and from a path of the model to a server for it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_agent::ToolFailure;
use bridle_world::{Placement, Roots, path_text};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use crate::ask::Project;
use crate::definition::Purpose;
use crate::reply::Trouble;
use crate::servers::{Candidate, NoServer};

/// How many changed files are remembered.
const MAX_CHANGED: usize = 1_000;

/// What the tools of a session work with.
pub(crate) struct Desk {
    pub(crate) project: Project,
    pub(crate) roots: Arc<Roots>,
    /// The files that calls of this session have changed.
    changed: Mutex<BTreeSet<PathBuf>>,
    /// The projects of which the person was told that they are not trusted.
    told: Mutex<BTreeSet<PathBuf>>,
    /// A turn has begun: whatever the person did meanwhile, nobody has looked yet.
    unlooked: AtomicBool,
}

/// Why a tool has no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoResult {
    /// There is no server.
    #[error(transparent)]
    NoServer(#[from] NoServer),
    /// The server has no answer.
    #[error(transparent)]
    Trouble(#[from] Trouble),
    /// The call cannot be made like this.
    #[error("{0}")]
    Wrong(String),
}

impl Desk {
    pub(crate) fn new(project: Project, roots: Arc<Roots>) -> Self {
        let (changed, told, unlooked) = (Mutex::default(), Mutex::default(), AtomicBool::new(true));
        Self { project, roots, changed, told, unlooked }
    }

    /// A turn begins: files may have been changed by whoever was at work before.
    pub(crate) fn turn_begins(&self) {
        self.unlooked.store(true, Ordering::Relaxed);
    }

    /// Has the servers that run hear of what has changed since the last turn. What calls of the turn change
    /// they hear anyway.
    pub(crate) async fn catch_up(&self) {
        if self.unlooked.swap(false, Ordering::Relaxed) {
            let running = self.project.servers.running_for(&self.project.roots);
            join_all(running.iter().map(|server| server.look())).await;
        }
    }

    /// The place of a file that the model names.
    ///
    /// # Errors
    /// `Failed` for one that is not there, or not in the session's folders.
    pub(crate) async fn place(&self, text: &str) -> Result<PathBuf, ToolFailure> {
        let (roots, text) = (Arc::clone(&self.roots), text.to_owned());
        let resolving = tokio::task::spawn_blocking(move || {
            let placement = roots.resolve(&text).map_err(|error| format!("{error}."))?;
            match placement {
                Placement::Outside(path) => Err(format!(
                    "{} is outside of the session's folders: servers are not asked about it. Use \
                     `read`.",
                    path_text(&path)
                )),
                Placement::Inside(path) if path.is_file() => Ok(path),
                Placement::Inside(path) => Err(format!("{} is no file.", path_text(&path))),
            }
        });
        let resolved = resolving.await.unwrap_or_else(|error| Err(error.to_string()));
        resolved.map_err(ToolFailure::failed)
    }

    /// A path as the model reads it: relative to the working directory where it lies below it.
    pub(crate) fn shown(&self, path: &Path) -> String {
        path_text(path.strip_prefix(self.roots.cwd()).unwrap_or(path))
    }

    /// Whether a path is in the session's folders.
    pub(crate) fn is_inside(&self, path: &Path) -> bool {
        matches!(self.roots.place(path.to_owned()), Placement::Inside(_))
    }

    /// The server that navigates in a file: the first that can be used.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn navigator(
        &self,
        file: &Path,
        token: &CancellationToken,
    ) -> Result<Candidate, NoResult> {
        let Project { servers, roots, .. } = &self.project;
        let candidates = servers.candidates(file, roots, token).await?;
        let mut failures = Vec::new();
        for candidate in candidates {
            let definition = candidate.server.definition();
            if definition.purpose == Purpose::Diagnostics {
                continue;
            }
            let woken = tokio::select! {
                biased;
                () = token.cancelled() => return Err(Trouble::Cancelled.into()),
                woken = servers.wake(&candidate.server) => woken.map(drop),
            };
            match woken {
                Ok(()) => return Ok(candidate),
                Err(why) => {
                    let install = definition.way_to_get_it();
                    failures.push(format!("{} failed: {why}{install}", definition.name));
                }
            }
        }
        Err(NoResult::Wrong(format!(
            "No language server can be used: {}. Use `search` and `read`",
            failures.join("; ")
        )))
    }

    /// Takes note that a call has changed a file.
    pub(crate) fn changed(&self, path: &Path) {
        let mut changed = lock(&self.changed);
        if changed.len() < MAX_CHANGED {
            changed.insert(path.to_owned());
        }
    }

    /// The files that calls of this session have changed.
    pub(crate) fn all_changed(&self) -> Vec<PathBuf> {
        lock(&self.changed).iter().cloned().collect()
    }

    /// What the person is told once of a project that is not trusted.
    pub(crate) fn told_once(&self, why: &NoResult) -> Option<String> {
        let NoResult::NoServer(NoServer::Untrusted(root)) = why else { return None };
        let root_text = root.display();
        let is_new = lock(&self.told).insert(root.clone());
        is_new.then(|| {
            format!(
                "The model asked a language server about {root_text}. A server runs what the project \
                 brings along, so none is started before you say that you trust it: add \
                 `trusted = [\"{root_text}\"]` under `[lsp]` in config.toml."
            )
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
