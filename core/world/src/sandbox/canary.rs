//! Finds out what can be enforced here: by running a confined command, not by asking for features.
//!
//! Kernels, containers and distributions switch parts of namespaces off in ways that show only when
//! they are used. So the strongest walls are tried first, with a command that must be able to write
//! in one place and must not in another, and what went wrong is kept in words.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::confine::{Confinement, Walls};
use super::process_limit::limit;
use super::{Access, DEFAULT_PROCESSES, Network, Policy, Protected, Tier};
use crate::process::Processes;

/// Writes to both places; only the first may appear.
const COMMAND: &str = "echo inside >allowed/file; echo outside >refused/file; exit 0";

/// What the names of the folders of canaries begin with.
const PREFIX: &str = "bridle-canary-";
/// How old such a folder must be to belong to nobody any more: a canary takes some milliseconds.
const LEFT_AFTER: Duration = Duration::from_secs(3600);
/// The most entries of the temporary folder that are looked at for leftovers.
const MAX_SWEPT: usize = 10_000;

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

    /// Why nothing limits how many processes a confined command has at once; none when something does.
    pub fn unlimited(&self) -> Option<&'static str> {
        limit(self.walls == Some(Walls::All)).err()
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
            processes: DEFAULT_PROCESSES,
            records: place.0.clone(),
        };
        let confinement = Confinement::new(policy, walls);
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
        Self::within(&std::env::temp_dir())
    }

    /// Also removes those of processes that were killed.
    fn within(folder: &Path) -> std::io::Result<Self> {
        let folder = fs_err::canonicalize(folder)?;
        sweep(&folder);
        let name = format!("{PREFIX}{}-{:x}", std::process::id(), fastrand::u64(..));
        let place = Self(folder.join(name));
        for path in [place.0.clone(), place.0.join("allowed"), place.0.join("refused")] {
            make_private(&path)?;
        }
        Ok(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // A later canary tries again.
        fs_err::remove_dir_all(&self.0).ok();
    }
}

fn make_private(path: &Path) -> std::io::Result<()> {
    Ok(rustix::fs::mkdir(path, rustix::fs::Mode::RWXU)?)
}

/// Removes the folders of our own canaries that were killed. What cannot be removed stays.
fn sweep(folder: &Path) {
    let Ok(entries) = fs_err::read_dir(folder) else { return };
    for entry in entries.take(MAX_SWEPT).flatten() {
        let is_one = entry.file_name().as_bytes().starts_with(PREFIX.as_bytes());
        let left = |found: &std::fs::Metadata| {
            found.is_dir()
                && found.uid() == rustix::process::geteuid().as_raw()
                && found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LEFT_AFTER))
        };
        if is_one && fs_err::symlink_metadata(entry.path()).is_ok_and(|found| left(&found)) {
            fs_err::remove_dir_all(entry.path()).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::FileTimes;
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn what_a_killed_process_left_goes_and_what_may_be_in_use_stays() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["bridle-canary-1-old", "bridle-canary-2-new", "another-old"];
        for name in names {
            fs_err::create_dir_all(folder.path().join(name).join("allowed")).unwrap();
        }
        for name in ["bridle-canary-1-old", "another-old"] {
            let long_ago = SystemTime::now() - 2 * LEFT_AFTER;
            let opened = fs_err::File::open(folder.path().join(name)).unwrap();
            opened.file().set_times(FileTimes::new().set_modified(long_ago)).unwrap();
        }
        let place = Place::within(folder.path()).unwrap();
        let left: Vec<_> = names.iter().filter(|name| folder.path().join(name).exists()).collect();
        assert_eq!(left, [&names[1], &names[2]]);
        assert!(place.0.join("allowed").is_dir());
    }
}
