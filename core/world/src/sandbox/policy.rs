//! What a confined command may do, what can be enforced here, and what was refused: plain data.
//!
//! Nothing here decides anything. Whoever owns the permission table makes a [`Policy`]; it travels
//! to the supervisor in the request, and is put in force there before the command exists.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What one command may do. All paths are absolute and resolved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Whether it may change files.
    pub access: Access,
    /// The folders of the session: always to be seen, also when they lie in the machine's `/tmp`.
    #[serde(with = "crate::told::all")]
    pub roots: Vec<PathBuf>,
    /// Further folders that it may change when it may change the roots: caches named by the user.
    #[serde(with = "crate::told::all")]
    pub writable: Vec<PathBuf>,
    /// What stays as it is inside them.
    pub protected: super::Protected,
    /// Files and folders that are not to be read: keys, and Bridle's own home.
    #[serde(with = "crate::told::all")]
    pub masked: Vec<PathBuf>,
    /// The folder that is the command's `/tmp`; an empty one that vanishes without it.
    #[serde(with = "crate::told::optional")]
    pub temporary: Option<PathBuf>,
    /// Whether it reaches the network.
    pub network: Network,
    /// How many processes and threads it may have at once, about; see [`Sandbox::unlimited`].
    ///
    /// [`Sandbox::unlimited`]: super::Sandbox::unlimited
    pub processes: u32,
    /// A folder of Bridle's own where placeholders are on record as long as they exist.
    #[serde(with = "crate::told::one")]
    pub records: PathBuf,
}

/// Which files a confined command may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// None but those in its `/tmp`.
    ReadOnly,
    /// Those below the roots and the further writable folders, too.
    WorkspaceWrite,
}

/// Whether a confined command reaches the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Network {
    /// It does not: there are no sockets but those between its own processes.
    Off,
    /// That of the host.
    On,
}

/// How much of a policy can be enforced on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tier {
    /// Namespaces, Landlock and seccomp: all of it.
    Full,
    /// Landlock and seccomp. Protected paths and metadata of files outside are not covered; what is
    /// masked cannot be read, and its names can.
    Landlock,
    /// Nothing: no command runs under a policy.
    None,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full => "full",
            Self::Landlock => "landlock",
            Self::None => "none",
        })
    }
}

/// Whether the policy stood in a command's way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Verdict {
    /// It did not.
    #[default]
    None,
    /// The command failed, and nobody could watch what it was refused.
    Suspected,
    /// The policy refused this, whatever the command made of it. At most [`MAX_DENIALS`].
    Confirmed {
        /// What, in the order in which it was first tried.
        what: Vec<Denial>,
    },
}

/// How many processes and threads a command may have at once when nobody said otherwise.
pub const DEFAULT_PROCESSES: u32 = 4096;

/// How many different refusals of one command are told.
pub const MAX_DENIALS: usize = 8;

/// One thing that was refused.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Denial {
    /// The network, at this address where one is known.
    Network(Option<SocketAddr>),
    /// A change of this file or folder.
    Path(#[serde(with = "crate::told::one")] PathBuf),
}

impl fmt::Display for Denial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Network(None) => f.write_str("network"),
            Self::Network(Some(address)) => write!(f, "network ({address})"),
            Self::Path(path) => f.write_str(&crate::path_text(path)),
        }
    }
}
