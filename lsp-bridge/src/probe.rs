//! One server tried out: started, asked who it is, ended.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::Processes;
use bridle_world::servers::{Journal, Voice};
use tokio_util::sync::CancellationToken;

use crate::definition::ServerDefinition;
use crate::life::{Host, Life};
use crate::locate::Located;

/// What a server says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// Its name and version, as far as it tells them.
    pub who: String,
    /// How it counts positions: `utf-8`, `utf-16` or `utf-32`.
    pub encoding: String,
    /// What it can be asked for, as the tools call it.
    pub abilities: Vec<String>,
}

/// Starts the server for the project in `root`, which must be trusted, asks who it is and ends it. What it
/// says of itself, and why it cannot be used, is written down in `log`.
///
/// # Errors
/// Why it cannot be used, for a person, with the end of what it wrote to its standard error.
///
/// # Cancel safety
/// Cancel safe: the server is ended without waiting.
pub async fn probe(
    definition: &ServerDefinition,
    root: &Path,
    log: Option<PathBuf>,
    processes: Arc<Processes>,
    clock: Arc<dyn Clock>,
    tasks: TaskSet,
) -> Result<Introduction, String> {
    let journal = Journal::new(log, Arc::clone(&clock), &tasks);
    let name = format!("{} ({})", definition.name, root.display());
    let voice = Voice::new(&name, definition.environment.secrets.clone(), &journal);
    let host = Host { processes, clock, tasks, journal };
    let definition = Arc::new(definition.clone());
    let program = definition.command.first().map(Into::into).unwrap_or_default();
    let located = Located { program, initialization: definition.initialization.clone() };
    let begun = Life::begin(&definition, &located, root, &host, &CancellationToken::new()).await;
    let life = begun.inspect_err(|why| voice.say(&format!("it was tried out in vain: {why}")))?;
    let introduction = Introduction {
        who: life.who.clone(),
        encoding: life.encoding.name().to_owned(),
        abilities: life.abilities(),
    };
    life.end().await;
    Ok(introduction)
}
