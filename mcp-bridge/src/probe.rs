//! One server tried out: started, asked what it has, ended.

use std::path::PathBuf;
use std::sync::Arc;

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::{Processes, SearchPath};
use bridle_world::servers::Journal;
use tokio_util::sync::CancellationToken;

use crate::asking::Person;
use crate::config::{Reach, ServerConfig};
use crate::connection::{Connection, Host};
use crate::http;
use crate::listing::Listing;
use crate::tool::name_of;

/// What a server has.
#[derive(Clone, Debug)]
pub struct Found {
    /// Who it says it is: its name and version.
    pub who: String,
    /// The version of the protocol that it speaks.
    pub protocol: String,
    /// The names of its tools that are offered, as models and rules name them.
    pub tools: Vec<String>,
    /// Whether it has resources.
    pub resources: bool,
    /// What was left out and why, for a person.
    pub faults: Vec<String>,
}

/// Why a server cannot be used as it is configured, for a person; `None` when nothing speaks against it.
/// Looks at the disk and starts nothing.
pub fn misconfigured(config: &ServerConfig, path: &SearchPath) -> Option<String> {
    match &config.reach {
        Reach::Stdio { program, .. } => match path.find(program.as_os_str()) {
            Some(_) => None,
            None => Some(format!("there is no program {} to be executed", program.display())),
        },
        Reach::Http { url, headers } => http::address(url, headers).err(),
    }
}

/// Starts the server in the folder `cwd`, or reaches it trusting the certificates in `ca_file` besides
/// those of the system, asks what it has, and ends it.
///
/// # Errors
/// Why it cannot be used, for a person.
///
/// # Cancel safety
/// Cancel safe: the server is ended without waiting.
pub async fn probe(
    config: &ServerConfig,
    cwd: PathBuf,
    ca_file: Option<PathBuf>,
    processes: Arc<Processes>,
    clock: Arc<dyn Clock>,
    tasks: TaskSet,
) -> Result<Found, String> {
    let journal = Journal::new(None, Arc::clone(&clock), &tasks);
    let (person, _nobody) = Person::new(None, Arc::clone(&clock));
    let host = Host { processes, clock, tasks, journal, person, ca_file, folders: [cwd].into() };
    let connection = Connection::open(config, &host, &CancellationToken::new()).await;
    let connection = connection.map_err(|why| config.secrets.blank(&why.text).into_owned())?;
    let listing = tokio::select! {
        listing = Listing::ask(&connection, config) => listing.map_err(|why| why.text),
        () = host.clock.sleep(config.start_limit) => {
            Err("it did not list its tools in time".to_owned())
        }
    };
    let (who, protocol) = connection.introduction().unwrap_or_default();
    let end = connection.close().await;
    let Listing { tools, resources, faults, .. } =
        listing.map_err(|why| config.secrets.blank(&format!("{why}; {end}")).into_owned())?;
    let offered = tools.iter().filter(|tool| config.offers(&tool.name));
    let tools = offered.map(|tool| name_of(&config.name, &tool.name)).collect();
    Ok(Found { who, protocol, tools, resources, faults })
}
