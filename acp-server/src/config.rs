//! Settings: where they come from and what they resolve to.
//!
//! Read once at the edge from flags, environment and `config.toml`, in that order of strength;
//! read again only when a client authenticates. A broken file is reported and its readable part
//! is used; nothing here ends the process.

use std::path::PathBuf;

use bridle_agent::Mode;
use bridle_session::Route;

/// What a command line may override.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--model provider/model`.
    pub model: Option<String>,
    /// `--permissions MODE` (of `exec`).
    pub mode: Option<Mode>,
}

/// Everything resolved.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of sessions, blobs and logs, outside any workspace.
    pub state: PathBuf,
    /// The route of a new session; `None` when no provider has a key.
    pub route: Option<Route>,
    /// The mode of a new session.
    pub mode: Mode,
    /// Whether the user's own configuration enables `full-access`.
    pub full_access: bool,
    /// What was wrong with the configuration, for notices and `doctor`.
    pub problems: Vec<String>,
}
