//! Finds out what can be enforced here: by running a confined command, not by asking for features.
//!
//! Kernels, containers and distributions switch parts of namespaces off in ways that show only when
//! they are used. So the strongest walls are tried first, with a command that must be able to write
//! in one place and must not in another, and what went wrong is kept in words.

use std::path::{Path, PathBuf};

use super::confine::{Confinement, Walls};
use super::{Access, Network, Policy, Protected, Tier};
use crate::process::Processes;

/// Writes to both places; only the first may appear.
const COMMAND: &str = "echo inside >allowed/file; echo outside >refused/file; exit 0";

/// What can be enforced on this machine, and why not more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    walls: Option<Walls>,
    cause: Option<String>,
}

impl Sandbox {
    /// Runs canaries under the supervisor of `processes`. Takes about 10 ms; ask
    /// [`Processes::sandbox`], which keeps the answer.
    pub(crate) async fn probe(processes: &Processes, at_most: Tier) -> Self {
        let (all, mut causes): (&[Walls], _) = match at_most {
            Tier::Full => (&[Walls::All, Walls::AllButProcesses, Walls::NoNamespaces], Vec::new()),
            Tier::Landlock => {
                (&[Walls::NoNamespaces], vec!["namespaces are not wanted".to_owned()])
            }
            Tier::None => (&[], vec!["no sandbox is wanted".to_owned()]),
        };
        for walls in all.iter().copied() {
            match Self::stand(processes, walls).await {
                Ok(()) => {
                    let cause = (walls != Walls::All).then(|| causes.join("; "));
                    return Self { walls: Some(walls), cause };
                }
                Err(cause) if causes.contains(&cause) => {}
                Err(cause) => causes.push(cause),
            }
        }
        Self { walls: None, cause: Some(causes.join("; ")) }
    }

    /// How much of a policy can be enforced.
    pub fn tier(&self) -> Tier {
        match self.walls {
            Some(Walls::All | Walls::AllButProcesses) => Tier::Full,
            Some(Walls::NoNamespaces) => Tier::Landlock,
            None => Tier::None,
        }
    }

    /// Why it is not more, in the system's words; none when it is all.
    pub fn cause(&self) -> Option<&str> {
        self.cause.as_deref()
    }

    pub(crate) fn walls(&self) -> Option<Walls> {
        self.walls
    }

    async fn stand(processes: &Processes, walls: Walls) -> Result<(), String> {
        let place = Place::new().map_err(|error| format!("no place to try it: {error}"))?;
        let policy = Policy {
            access: Access::WorkspaceWrite,
            roots: vec![place.0.join("allowed")],
            writable: Vec::new(),
            protected: Protected::default(),
            masked: Vec::new(),
            temporary: None,
            network: Network::Off,
            records: place.0.clone(),
        };
        let confinement = Confinement { policy, walls };
        let ended = processes.run_confined(COMMAND, &place.0, confinement).await;
        let ended = ended.map_err(|error| match error {
            crate::process::ProcessError::Sandbox { reason } => reason,
            error => error.to_string(),
        })?;
        let is_there = |name: &str| place.0.join(name).join("file").exists();
        match (ended.exit_code, is_there("allowed"), is_there("refused")) {
            (Some(0), true, false) => Ok(()),
            (_, _, true) => Err("what should be refused was not".to_owned()),
            _ => Err("what should be allowed was not".to_owned()),
        }
    }
}

/// A folder of one canary, removed afterwards.
struct Place(PathBuf);

impl Place {
    fn new() -> std::io::Result<Self> {
        let folder = fs_err::canonicalize(std::env::temp_dir())?;
        let name = format!("bridle-canary-{}-{:x}", std::process::id(), fastrand::u64(..));
        let place = Self(folder.join(name));
        for path in [place.0.clone(), place.0.join("allowed"), place.0.join("refused")] {
            make_private(&path)?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A leftover in the temporary folder harms nobody.
        fs_err::remove_dir_all(&self.0).ok();
    }
}

fn make_private(path: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::mkdir(path, rustix::fs::Mode::RWXU)?)
}
