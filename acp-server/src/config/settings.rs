//! What the layers resolve to, and where each value came from.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use bridle_agent::{Mode, RulesConfig};
use bridle_model::{Catalogue, Effort, Secret};
use bridle_session::Route;
use bridle_store::Compression;
use bridle_world::sandbox::Tier;

use super::instructions::InstructionsConfig;
use super::lsp::LspConfig;
use super::servers::ConfiguredServer;
use super::skills::SkillsConfig;

/// What a command line may override.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// `--model provider/model`.
    pub model: Option<String>,
    /// `--thinking LEVEL` (of `exec`).
    pub thinking: Option<Effort>,
    /// `--permissions MODE` (of `exec`).
    pub mode: Option<Mode>,
}

/// Everything resolved.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The folder of sessions, blobs and logs, outside any workspace; `None` when no variable
    /// says where a home is.
    pub state: Option<PathBuf>,
    /// The folder of `config.toml`; `None` as for `state`.
    pub config: Option<PathBuf>,
    /// The route of a new session, also when it cannot work (then the prompt says why); `None`
    /// when none is chosen and no provider has a key.
    pub route: Option<Route>,
    /// The thinking level of a new session; `None` for the model's own choice.
    pub thinking: Option<Effort>,
    /// Who answers when the chosen route does not.
    pub fallback: Option<Route>,
    /// What is known of models: the built-in catalogue, what endpoints listed, and what the user
    /// says differently.
    pub catalogue: Cow<'static, Catalogue>,
    /// Certificates that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// The mode of a new session.
    pub mode: Mode,
    /// Whether the user's own configuration enables `full-access`.
    pub full_access: bool,
    /// Whether models are offered the tool `apply_patch`.
    pub apply_patch: bool,
    /// Whether models are offered the tool `terminal`.
    pub terminal: bool,
    /// How commands are confined.
    pub sandbox: SandboxSettings,
    /// How long a model provider may send nothing, pings included, before a request is given up.
    pub idle_timeout: Duration,
    /// The limits of turns and sessions, by their names in `[budget]`.
    pub budget: serde_json::Map<String, serde_json::Value>,
    /// How conversations are shortened, by the names in `[compaction]`.
    pub compaction: serde_json::Map<String, serde_json::Value>,
    /// The form of new session logs.
    pub compression: Compression,
    /// The user's permission rules.
    pub permissions: RulesConfig,
    /// The MCP servers of every session, by name.
    pub servers: Vec<ConfiguredServer>,
    /// Which files hold instructions.
    pub instructions: InstructionsConfig,
    /// The language servers.
    pub lsp: LspConfig,
    /// Where skills are.
    pub skills: SkillsConfig,
    /// The known providers, in the order in which a key is looked for.
    pub providers: Vec<ProviderSettings>,
    /// What was wrong with the configuration, for notices and `doctor`: place, fault, hint.
    pub problems: Vec<String>,
    /// Every value as text with its source, for `config show`. Keys are never among the values.
    pub rows: Vec<Row>,
}

impl Settings {
    /// The folder of what confined commands need while they run.
    pub fn sandbox_folder(&self) -> Option<PathBuf> {
        self.state.as_ref().map(|state| state.join("sandbox"))
    }

    /// Takes the key from every provider, for a reason that a person reads.
    pub fn forget_keys(&mut self, reason: &str) {
        for provider in &mut self.providers {
            provider.key = None;
            provider.key_source = None;
            provider.withheld = Some(reason.to_owned());
        }
    }

    /// The settings of one provider.
    pub fn provider(&self, name: &str) -> Option<&ProviderSettings> {
        self.providers.iter().find(|provider| provider.name == name)
    }
}

/// `[sandbox]`.
#[derive(Clone, Debug)]
pub struct SandboxSettings {
    /// The strongest walls that are tried.
    pub at_most: Tier,
    /// Absolute folders that commands may write besides the workspace.
    pub writable: Vec<PathBuf>,
    /// How many processes and threads one command may have at once.
    pub max_processes: u32,
}

/// One provider.
#[derive(Clone, Debug)]
pub struct ProviderSettings {
    /// Its name in routes.
    pub name: &'static str,
    /// Whether this version speaks its wire.
    pub supported: bool,
    /// Its key, if there is one that may be sent to `base_url`.
    pub key: Option<KeySource>,
    /// Where the key came from.
    pub key_source: Option<Source>,
    /// Why a key that is there may not be sent to `base_url`.
    pub withheld: Option<String>,
    /// Its base URL without a slash at the end; `None` where none is known.
    pub base_url: Option<String>,
}

impl ProviderSettings {
    /// Whether it could answer: this version speaks its wire, and there is a key.
    pub fn is_usable(&self) -> bool {
        self.supported && self.key.is_some()
    }
}

/// What yields a key.
#[derive(Clone, Debug)]
pub enum KeySource {
    /// The key itself.
    Key(Secret),
    /// A command that prints it: the program and its arguments.
    Command(Vec<String>),
}

/// One line of `config show`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The key as `config.toml` spells it, with dots.
    pub key: String,
    /// The value; for a secret the words `(set)`.
    pub value: String,
    /// Which layer it came from.
    pub source: Source,
}

/// The layer and the place in it that a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The defaults inside the program.
    BuiltIn,
    /// The model catalogue inside the program.
    Catalogue,
    /// A file, and the line in it, from 1.
    File {
        /// Which file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(String),
    /// A flag of the command line.
    Flag(&'static str),
    /// Derived: the catalogue's default for the first provider that has a key.
    FirstKey,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::Catalogue => f.write_str("model catalogue"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Variable(name) => write!(f, "variable {name}"),
            Self::Flag(name) => write!(f, "flag {name}"),
            Self::FirstKey => f.write_str("default of the first provider that has a key"),
        }
    }
}
