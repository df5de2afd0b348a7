//! What confines the commands of a session: how far that is possible where they run, and what the
//! grant of a call comes to there.
//!
//! The rules are those of the session's mode (`bridle-agent`), the walls those of `bridle-world`;
//! here are only the places: what may be written, what stays as it is, what is not to be read.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{Confinement, Sandboxing, ToolFailure};
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use bridle_world::process::Processes;
use bridle_world::sandbox::{
    Access, DEFAULT_PROCESSES, Lookout, Network, Policy, Protected, Temporary, Tier,
};
use bridle_world::{Roots, key_folders};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::sync::Mutex;

use crate::blocking::blocking;

/// The places of a sandbox, from the user's configuration.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct SandboxConfig {
    /// A folder of Bridle's own, for the `/tmp` of sessions and for records. Without it nothing is
    /// confined.
    folder: Option<PathBuf>,
    /// What commands may write besides the workspace.
    writable: Vec<PathBuf>,
    /// How many processes and threads a command may have at once; without it [`DEFAULT_PROCESSES`].
    max_processes: Option<u32>,
}

/// Puts [`CommandSandbox`] into the scope of a session.
pub(crate) struct SandboxPlugin;

#[async_trait]
impl Plugin for SandboxPlugin {
    const NAME: &'static str = "sandbox";
    type Config = SandboxConfig;
    type Needs = (Arc<Roots>, Arc<Processes>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<CommandSandbox>()]
    }

    async fn activate(
        &self,
        config: SandboxConfig,
        (roots, processes): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let home = std::env::home_dir();
        // Among what is excluded as well, but a link to one of them may be another by now.
        let keys = home.iter().flat_map(|home| key_folders(home));
        let masked = roots.excluded().iter().cloned().chain(keys).collect();
        let temporary = Arc::new(Mutex::new(None::<Temporary>));
        let made = Arc::clone(&temporary);
        // There may be much in it, which nobody waits for on an async thread.
        setup.on_retract("the `/tmp` of commands", move || async move {
            let made = made.lock().await.take();
            Ok(tokio::task::spawn_blocking(|| drop(made)).await?)
        })?;
        let sandbox = CommandSandbox {
            processes: Processes::clone(&processes),
            roots,
            folder: config.folder,
            masked,
            writable: config.writable,
            processes_of_one: config.max_processes.unwrap_or(DEFAULT_PROCESSES),
            temporary,
        };
        Ok(setup.provide(Arc::new(sandbox))?)
    }
}

/// Confines the commands of one session.
pub(crate) struct CommandSandbox {
    processes: Processes,
    roots: Arc<Roots>,
    folder: Option<PathBuf>,
    masked: Vec<PathBuf>,
    writable: Vec<PathBuf>,
    /// How many processes and threads one command may have at once.
    processes_of_one: u32,
    /// Made for the first command that is confined.
    temporary: Arc<Mutex<Option<Temporary>>>,
}

impl CommandSandbox {
    /// How far commands can be confined. Finds out when it is asked for the first time in the
    /// process, by running a few.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn sandboxing(&self) -> Sandboxing {
        if self.folder.is_none() {
            return Sandboxing::Unavailable;
        }
        match self.processes.sandbox().await.tier() {
            Tier::Full => Sandboxing::Full,
            Tier::Landlock => Sandboxing::Partial,
            Tier::None => Sandboxing::Unavailable,
        }
    }

    /// What a command may do that was granted `confinement`; `None` when that is anything.
    ///
    /// # Errors
    /// When the places that it needs cannot be made. The command then must not run.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn policy(
        &self,
        confinement: Confinement,
    ) -> Result<Option<Policy>, ToolFailure> {
        let (access, network) = match confinement {
            Confinement::Unconfined => return Ok(None),
            Confinement::ReadOnly => (Access::ReadOnly, Network::Off),
            Confinement::Workspace { network: false } => (Access::WorkspaceWrite, Network::Off),
            Confinement::Workspace { network: true } => (Access::WorkspaceWrite, Network::On),
        };
        let Some(folder) = self.folder.clone() else {
            return Err(not_confined("there is no folder for Bridle's state"));
        };
        let temporary = Some(self.temporary(folder.clone()).await?);
        let roots: Vec<PathBuf> = self.roots.all().map(Path::to_owned).collect();
        let (writable, masked) = (self.writable.clone(), self.masked.clone());
        let lookout = self.processes.lookout().clone();
        let processes = self.processes_of_one;
        let policy = blocking(move || {
            // What is protected in the whole machine nobody can look for.
            let folders = resolved(&writable).filter(|folder| folder.parent().is_some());
            let writable: Vec<PathBuf> = folders.collect();
            let mut all = Protected::default();
            if access == Access::WorkspaceWrite {
                all = protected(&lookout, roots.iter().chain(&writable))?;
                all.keep_absent(missing(&masked), &[&*roots, &*writable].concat());
            }
            let masked: BTreeSet<PathBuf> = resolved(&masked).collect();
            let (masked, protected) = (masked.into_iter().collect(), all);
            let records = folder;
            Ok(Policy {
                access,
                roots,
                writable,
                protected,
                masked,
                temporary,
                network,
                processes,
                records,
            })
        });
        policy.await.map(Some)
    }

    async fn temporary(&self, folder: PathBuf) -> Result<PathBuf, ToolFailure> {
        let mut held = self.temporary.lock().await;
        // Its folder may be lost while the session goes on.
        if let Some(temporary) = held.as_ref().filter(|it| it.path().is_dir()) {
            return Ok(temporary.path().to_owned());
        }
        let made = blocking(move || {
            Temporary::make(&folder)
                .map_err(|error| not_confined(&format!("its `/tmp` cannot be made: {error}")))
        });
        let path = held.insert(made.await?).path().to_owned();
        Ok(path)
    }
}

/// The places that there are now, where they really are: a mount at a link would hide the link and
/// not what it leads to.
fn resolved(places: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    places.iter().filter_map(|place| fs_err::canonicalize(place).ok())
}

/// The places that there are not now, as they would come to be: below where the folder that there
/// is on the way really is.
fn missing(places: &[PathBuf]) -> impl Iterator<Item = PathBuf> {
    places.iter().filter(|place| fs_err::canonicalize(place).is_err()).filter_map(|place| {
        let there = place.ancestors().skip(1);
        let (folder, real) =
            { there }.find_map(|it| fs_err::canonicalize(it).ok().map(|real| (it, real)))?;
        Some(real.join(place.strip_prefix(folder).ok()?))
    })
}

fn protected<'a>(
    lookout: &Lookout,
    folders: impl Iterator<Item = &'a PathBuf>,
) -> Result<Protected, ToolFailure> {
    let mut protected = Protected::default();
    for folder in folders {
        let found = lookout.below(folder).map_err(|error| not_confined(&error.to_string()))?;
        protected.extend(found);
    }
    Ok(protected)
}

fn not_confined(reason: &str) -> ToolFailure {
    ToolFailure::failed(format!(
        "The command was not run: it cannot be confined, because {reason}. Without a sandbox it \
         runs only with `needs`: [\"unconfined\"] and a `reason`, which asks a person."
    ))
}
