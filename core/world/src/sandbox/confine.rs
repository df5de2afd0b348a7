//! Puts a policy in force: first around the supervisor of one command, then in the command's own
//! process before its program is executed.
//!
//! Every step that fails ends in an error and a command that was not started. Nothing is left out
//! because it does not work here: what a machine can do was found out before, by the canary.

use std::ffi::OsStr;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use libc::sock_filter;
use rustix::fs::{FileType, Mode, OFlags, RawDir, open};
use serde::{Deserialize, Serialize};

use super::altered::Snapshot;
use super::bpf;
use super::filter::Filter;
use super::landlock::{KNOWS_SCOPES, REQUIRED, Rights, Ruleset, Scope, version};
use super::listener::{Listener, install};
use super::namespaces::Own;
use super::placeholders::{self, Record};
use super::policy::{Access, Network, Policy};
use super::process_limit::{Limit, limit, limit_namespace, limit_user};
use super::{privileges, set_not_dumpable, view};
use crate::plant::Plant;

/// The walls that stand on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Walls {
    /// Namespaces, Landlock and seccomp.
    All,
    /// The same, but the host's processes can be seen: a new `/proc` cannot be mounted here.
    AllButProcesses,
    /// Landlock and seccomp.
    NoNamespaces,
}

/// A policy and the walls it is put in force with: what the supervisor is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Confinement {
    pub(crate) policy: Policy,
    pub(crate) walls: Walls,
    /// The name of the record of its placeholders.
    record: String,
}

impl Confinement {
    /// `policy`, put in force with `walls` around one command.
    pub(crate) fn new(policy: Policy, walls: Walls) -> Self {
        Self { policy, walls, record: placeholders::name_of_record() }
    }

    /// The namespaces that the supervisor is to be in, if any.
    pub(crate) fn namespaces(&self) -> Option<Own> {
        let network = self.policy.network == Network::Off;
        match self.walls {
            Walls::All => Some(Own { processes: true, network }),
            Walls::AllButProcesses => Some(Own { processes: false, network }),
            Walls::NoNamespaces => None,
        }
    }

    /// Whether placeholders stand while the command runs.
    pub(crate) fn has_placeholders(&self) -> bool {
        let Policy { access, protected, .. } = &self.policy;
        let writes = *access == Access::WorkspaceWrite;
        writes && self.namespaces().is_some() && !protected.absent.is_empty()
    }

    /// Where it is told which placeholders stand while the command runs, if any do.
    pub(crate) fn record(&self) -> Option<Record> {
        let record = || Record::new(&self.policy.records, &self.record);
        self.has_placeholders().then(record)
    }

    /// What is protected, as it is now: what no mount keeps as it is. Blocks.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.policy, self.namespaces().is_some())
    }

    /// Puts in force what holds for the supervisor as well, and prepares what does not. `terminal` is
    /// that of the command, which it may open again.
    ///
    /// # Errors
    /// When anything cannot be put in force.
    pub(crate) fn enter(&self, terminal: Option<&OwnedFd>) -> io::Result<Lock> {
        let namespaces = self.namespaces();
        let processes = self.policy.processes;
        match limit(namespaces.is_some_and(|own| own.processes)) {
            _ if Plant::NoProcessLimit.is_in() => {}
            Ok(Limit::Namespace) => limit_namespace(processes)?,
            Ok(Limit::User) => limit_user(processes, namespaces.is_none())?,
            Err(_) => {}
        }
        if let Some(own) = namespaces {
            view::make(&self.policy, own.processes)?;
        }
        privileges::drop_all()?;
        // The command has the same user, and could trace it where Landlock did not prevent that.
        set_not_dumpable()?;
        let ruleset = if Plant::NoLandlock.is_in() { None } else { Some(self.ruleset()?) };
        if let (Some(ruleset), Some(terminal)) = (&ruleset, terminal) {
            ruleset.allow_at(terminal.as_fd(), Rights::UseDevice)?;
        }
        let Policy { access, network, .. } = self.policy;
        let filter = Filter { access, network, namespaces: namespaces.is_some(), watched: true };
        Ok(Lock { ruleset, filter, watched: bpf::assemble(&filter.rules()) })
    }

    /// What the command knows as the folder for temporary files, when the policy has one.
    pub(crate) fn temporary(&self) -> Option<&Path> {
        let folder = self.policy.temporary.as_deref()?;
        Some(if self.namespaces().is_some() { Path::new("/tmp") } else { folder })
    }

    /// The folders in which files may be changed.
    pub(super) fn writable(&self) -> impl Iterator<Item = &Path> {
        let policy = &self.policy;
        let all = policy.access == Access::WorkspaceWrite;
        let folders = policy.roots.iter().chain(&policy.writable).filter(move |_| all);
        let temporary = policy.temporary.iter().filter(|_| self.namespaces().is_none());
        let own: &[&str] = match self.namespaces() {
            Some(_) => &["/tmp", "/var/tmp", "/dev/shm"],
            None => &[],
        };
        folders.chain(temporary).map(PathBuf::as_path).chain(own.iter().map(Path::new))
    }

    fn ruleset(&self) -> io::Result<Ruleset> {
        let version = version().unwrap_or_default();
        if version < REQUIRED {
            return Err(io::Error::other("the kernel's Landlock is too old or switched off"));
        }
        if self.policy.network == Network::On
            && self.namespaces().is_some()
            && version < KNOWS_SCOPES
        {
            // Abstract sockets of the host's programs would be in reach.
            return Err(io::Error::other("network needs a newer Landlock here"));
        }
        let scope = match self.policy.network {
            Network::Off if self.namespaces().is_none() => Scope::Everything,
            // A loopback of its own is a network to work with.
            Network::Off | Network::On => Scope::AllButTcp,
        };
        let ruleset = Ruleset::new(version, scope)?;
        self.allow_reads(&ruleset)?;
        for folder in self.writable() {
            ruleset.allow(folder, Rights::Change)?;
        }
        Ok(ruleset)
    }

    /// Everything may be read but devices, and, where no mount covers them, what is masked.
    fn allow_reads(&self, ruleset: &Ruleset) -> io::Result<()> {
        let mut hidden = vec![PathBuf::from("/dev")];
        if self.namespaces().is_none() {
            hidden.extend(self.policy.masked.iter().cloned());
        }
        ruleset.allow(Path::new("/"), Rights::List)?;
        allow_beside(ruleset, Path::new("/"), &hidden)?;
        ruleset.allow(Path::new("/dev"), Rights::List)?;
        for device in ["null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"] {
            ruleset.allow(&Path::new("/dev").join(device), Rights::UseDevice)?;
        }
        Ok(())
    }
}

/// Allows reading of everything in `folder` but `hidden`, going down only where something hidden
/// is further below.
fn allow_beside(ruleset: &Ruleset, folder: &Path, hidden: &[PathBuf]) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = open(folder, flags, Mode::empty())?;
    let mut space = [MaybeUninit::uninit(); 4096];
    let mut entries = RawDir::new(&opened, &mut space);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let (name, kind) = (entry.file_name(), entry.file_type());
        let path = folder.join(OsStr::from_bytes(name.to_bytes()));
        if [c".", c".."].contains(&name) || kind.is_symlink() || hidden.contains(&path) {
            continue;
        }
        if hidden.iter().any(|it| it.starts_with(&path)) {
            ruleset.allow(&path, Rights::List)?;
            allow_beside(ruleset, &path, hidden)?;
        } else if kind == FileType::Unknown {
            ruleset.allow(&path, Rights::Read)?;
        } else {
            ruleset.allow_in(opened.as_fd(), name, kind, Rights::Read)?;
        }
    }
    Ok(())
}

/// What a command's own process still has to put in force, right before its program is executed.
#[derive(Debug)]
pub(crate) struct Lock {
    ruleset: Option<Ruleset>,
    filter: Filter,
    /// What `filter` is to the kernel.
    watched: Vec<sock_filter>,
}

impl Lock {
    /// Locks this thread in, and whatever it starts, for good. Returns who is asked on their behalf, if
    /// anybody is. Landlock first: its own calls need not be allowed afterwards.
    ///
    /// # Errors
    /// When it is not locked in, or not wholly.
    pub(super) fn turn(&self) -> io::Result<Option<Listener>> {
        if let Some(ruleset) = &self.ruleset {
            ruleset.restrict()?;
        }
        match Plant::NoSeccomp.is_in() {
            true => Ok(None),
            false => install(&self.watched, || {
                bpf::assemble(&Filter { watched: false, ..self.filter }.rules())
            }),
        }
    }
}
