//! Which servers a session has, and how each is reached.

use std::path::PathBuf;
use std::time::Duration;

use reqwest::Url;

use bridle_world::servers::Secrets;

/// The servers of one session.
#[derive(Clone, Debug, Default)]
pub struct SessionServers {
    /// In the order in which they were named.
    pub servers: Vec<ServerConfig>,
    /// Where it is written down what they say of themselves; nowhere without it.
    pub journal: Option<PathBuf>,
    /// The folder where it is remembered what they offer; nowhere without it.
    pub memory: Option<PathBuf>,
    /// Certificates (PEM) that are trusted besides those of the system.
    pub ca_file: Option<PathBuf>,
}

impl SessionServers {
    /// These servers, and behind them those of `others` that have other names.
    #[must_use]
    pub fn beside<'a>(mut self, others: impl IntoIterator<Item = &'a ServerConfig>) -> Self {
        for other in others {
            if self.servers.iter().all(|server| server.name != other.name) {
                self.servers.push(other.clone());
            }
        }
        self
    }
}

/// One server.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What a person calls it; unique in its session.
    pub name: String,
    /// How it is reached.
    pub reach: Reach,
    /// What of that nobody but the server is to read.
    pub secrets: Secrets,
    /// How long it may take from its start until its tools are known.
    pub start_limit: Duration,
    /// How long a call may go without a sign of life.
    pub idle_limit: Duration,
    /// How long a call may take at most, whatever signs of life there are.
    pub call_limit: Duration,
    /// Its tools that are offered, by their own names; all without it.
    pub allow: Option<Vec<String>>,
    /// Its tools that are not.
    pub deny: Vec<String>,
    /// Whether its calls may overlap.
    pub parallel: bool,
    /// How long it may be without a call until it is ended; the next one starts it again. For ever
    /// without it.
    pub rest_after: Option<Duration>,
}

/// How a server is reached.
#[derive(Clone)]
pub enum Reach {
    /// A program that is spoken with over its standard input and output.
    Stdio {
        /// Its absolute path, or its name on the search path of commands.
        program: PathBuf,
        /// Its arguments.
        arguments: Vec<String>,
        /// What it finds in its environment beside what every command does.
        environment: Vec<(String, String)>,
    },
    /// A server somewhere that is spoken with over HTTP.
    Http {
        /// Its address.
        url: String,
        /// What each request says beside what the protocol does.
        headers: Vec<(String, String)>,
    },
}

impl ServerConfig {
    /// A server with the usual limits, all of whose tools are offered one call at a time.
    pub fn new(name: impl Into<String>, reach: Reach, secrets: Secrets) -> Self {
        Self {
            name: name.into(),
            reach,
            secrets,
            start_limit: Duration::from_secs(30),
            idle_limit: Duration::from_secs(60),
            call_limit: Duration::from_secs(600),
            allow: None,
            deny: Vec::new(),
            parallel: false,
            rest_after: Some(Duration::from_secs(600)),
        }
    }

    /// Whether the tool of this name is to be offered.
    pub(crate) fn offers(&self, tool: &str) -> bool {
        let listed = |names: &[String]| names.iter().any(|name| name == tool);
        self.allow.as_deref().is_none_or(listed) && !listed(&self.deny)
    }
}

/// Without arguments, environment and headers, and of an address only where it is: the rest may be
/// secret.
impl std::fmt::Display for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Stdio { program, .. } => write!(f, "{}", program.display()),
            Self::Http { url, .. } => match Url::parse(url) {
                Ok(url) => write!(f, "{}", url.origin().ascii_serialization()),
                Err(_) => f.write_str("an address that is none"),
            },
        }
    }
}

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}
