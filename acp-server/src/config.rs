//! Settings: where they come from and what they resolve to.
//!
//! Five layers, the later ones stronger: the built-in defaults, `config.toml`, `credentials.toml`,
//! the environment, the command line. They are read once at the edge, and the files again when a
//! client authenticates. A broken file is reported and its readable part is used; nothing here
//! ends the process, and nothing of a workspace is read.

mod credentials;
mod endpoint;
mod environment;
mod file;
mod instructions;
mod listed;
mod lsp;
mod paths;
mod provider;
mod resolve;
mod servers;
mod settings;
mod skills;

pub use credentials::{CredentialsError, set_key};
pub use environment::Environment;
pub use instructions::InstructionsConfig;
pub use listed::Listed;
pub use lsp::LspConfig;
pub use paths::Places;
pub use provider::{KnownProvider, PROVIDERS, supported_names};
pub use resolve::load;
pub(crate) use resolve::route_fault;
pub use servers::{ConfiguredServer, keys_in};
pub use settings::{KeySource, Overrides, ProviderSettings, Row, Settings, Source};
pub use skills::SkillsConfig;
