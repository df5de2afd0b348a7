//! The language servers of a process, shared by its sessions: which are for a file, whether they may be
//! started, and how many run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::choice::{language_of, servers_for};
use crate::definition::{Purpose, ServerDefinition};
use crate::life::Host;
use crate::locate::{SearchIn, locate};
use crate::server::{Server, Use};
use crate::settings::LspSettings;
use crate::untold::Change;

/// The language servers of a process, each started when it is first asked.
pub struct Servers {
    settings: watch::Sender<Arc<LspSettings>>,
    host: Host,
    /// By name and root.
    all: Mutex<BTreeMap<(String, PathBuf), Arc<Server>>>,
    /// One start at a time finds out whether there is room.
    room: tokio::sync::Mutex<()>,
    closing: CancellationToken,
}

/// How a server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What a person calls it.
    pub server: String,
    /// The folder of its project.
    pub root: PathBuf,
    /// Whether it runs.
    pub stage: Stage,
    /// What there is to say besides: who it says it is, what it is busy with, why it failed.
    pub detail: String,
}

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being started.
    Starting,
    /// It answers.
    Ready,
    /// It answers, and says that it does not know the project yet.
    Loading,
    /// It does not run; the next question starts it.
    Stopped,
    /// It cannot be used.
    Failed,
}

/// A server that is there for a file.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub(crate) server: Arc<Server>,
    /// The protocol's identifier of the file's language.
    pub(crate) language: String,
}

/// Why there is no server for a file, for the model.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NoServer {
    /// None is known for such files.
    #[error("no language server is known for {0}; use `search` and `read`")]
    Unknown(String),
    /// None of those that are known is there.
    #[error("no language server for {file} is installed ({}); use `search` and `read`", .missing.join("; "))]
    Missing {
        /// The file, or what kind it is.
        file: String,
        /// What is missing, and how a person gets it.
        missing: Vec<String>,
    },
    /// The user has not said that its project may be opened.
    #[error(
        "language servers run what a project brings along, and the user has not said that {} is \
         trusted: add it to `trusted` under [lsp] in config.toml. Use `search` and `read` meanwhile",
        .0.display()
    )]
    Untrusted(PathBuf),
    /// Whoever asked does not wait any more.
    #[error("cancelled")]
    Cancelled,
}

impl Servers {
    pub(crate) fn new(settings: Arc<LspSettings>, host: Host, closing: CancellationToken) -> Self {
        let settings = watch::Sender::new(settings);
        let (all, room) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { settings, host, all, room, closing }
    }

    pub(crate) fn settings(&self) -> Arc<LspSettings> {
        Arc::clone(&self.settings.borrow())
    }

    /// From now on these settings hold. A server that runs as it would not be started now ends. Blocks on
    /// a few lookups of folders.
    pub fn reload(&self, settings: LspSettings) {
        let settings = Arc::new(settings);
        self.settings.send_replace(Arc::clone(&settings));
        for server in self.every() {
            let mut known = settings.servers.iter();
            match known.find(|it| it.name == server.name && settings.trusts(&server.root)) {
                Some(definition) => server.define(definition),
                None => server.dismiss(),
            }
        }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    /// How each one stands that was ever asked, for a person.
    pub fn standing(&self) -> Vec<Standing> {
        self.every().iter().filter_map(|server| server.standing()).collect()
    }

    /// The servers that are there for a file in one of these folders, those that navigate before linters.
    ///
    /// # Errors
    /// Why there are none.
    pub(crate) async fn candidates(
        &self,
        file: &Path,
        roots: &[PathBuf],
        token: &CancellationToken,
    ) -> Result<Vec<Candidate>, NoServer> {
        let path = self.host.processes.search_path(token).await.ok_or(NoServer::Cancelled)?;
        let (settings, file, roots) = (self.settings(), file.to_owned(), roots.to_vec());
        let look = tokio::task::spawn_blocking(move || {
            let home = std::env::home_dir();
            let search =
                SearchIn { path: &path.value, home: home.as_deref(), session_roots: &roots };
            find(&settings, &file, search)
        });
        let found = look.await.map_err(|_| NoServer::Cancelled)??;
        Ok(found.into_iter().map(|found| self.candidate(found)).collect())
    }

    fn candidate(&self, found: Found) -> Candidate {
        let Found { definition, root, located, language } = found;
        let key = (definition.name.clone(), root.clone());
        let mut all = self.lock();
        if let Some(server) = all.get(&key) {
            server.located(located);
            server.define(&definition);
            return Candidate { server: Arc::clone(server), language };
        }
        let (host, settings) = (self.host.clone(), self.settings.subscribe());
        let server = Server::new(definition, root, located, host, settings);
        let server = Arc::new(server);
        self.host.tasks.spawn(Arc::clone(&server).run(self.closing.clone()));
        all.insert(key, Arc::clone(&server));
        Candidate { server, language }
    }

    /// A server, started if it does not run; another one that is idle gives way where there are too many.
    ///
    /// # Errors
    /// Why it cannot be used, for the model.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn wake(&self, server: &Arc<Server>) -> Result<Use, String> {
        if let Some(warm) = server.warm() {
            return Ok(warm);
        }
        let room = self.room.lock().await;
        while !server.runs() {
            let running: Vec<_> = self.every().into_iter().filter(|one| one.runs()).collect();
            if running.len() < self.settings().most {
                break;
            }
            let idle = running.iter().filter_map(|one| Some((one.idle_since()?, one)));
            match idle.min_by_key(|(since, _)| *since) {
                Some((_, longest)) => longest.retire().await,
                None => {
                    return Err(format!(
                        "{} other servers are at work, which is the limit; try again later",
                        running.len()
                    ));
                }
            }
        }
        server.want();
        drop(room);
        server.wake().await
    }

    /// Servers that run for a project in or around one of these folders.
    pub(crate) fn running_for(&self, roots: &[PathBuf]) -> Vec<Arc<Server>> {
        let concerns = |server: &Arc<Server>| {
            server.runs() && roots.iter().any(|root| server.root.starts_with(root))
        };
        self.every().into_iter().filter(concerns).collect()
    }

    /// The servers that run already for a file, with its language.
    pub(crate) fn warm_for(&self, file: &Path) -> Vec<Candidate> {
        let is_for = |server: Arc<Server>| {
            let language = language_of(file, &server.definition())?.to_owned();
            (file.starts_with(&server.root) && server.runs())
                .then_some(Candidate { server, language })
        };
        self.every().into_iter().filter_map(is_for).collect()
    }

    /// A file has changed, whoever changed it: the servers that run are told.
    pub(crate) fn file_changed(&self, path: &Path, change: Change) {
        for server in self.every() {
            server.file_changed(path, change);
        }
    }

    fn every(&self) -> Vec<Arc<Server>> {
        self.lock().values().cloned().collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<(String, PathBuf), Arc<Server>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A server that is there.
struct Found {
    definition: ServerDefinition,
    root: PathBuf,
    located: crate::locate::Located,
    language: String,
}

/// Blocks.
fn find(settings: &LspSettings, file: &Path, search: SearchIn<'_>) -> Result<Vec<Found>, NoServer> {
    let shown = file.extension().map_or_else(
        || file.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        |extension| format!(".{} files", extension.to_string_lossy()),
    );
    let choices = servers_for(file, &settings.servers, search.session_roots);
    if choices.iter().all(|choice| choice.definition.purpose == Purpose::Diagnostics) {
        return Err(NoServer::Unknown(shown));
    }
    let (mut found, mut missing, mut untrusted) = (Vec::new(), Vec::new(), None);
    for choice in choices {
        let definition = choice.definition;
        match locate(definition, search) {
            Ok(_) if !settings.trusts(&choice.root) => {
                untrusted.get_or_insert(choice.root);
            }
            Ok(located) => found.push(Found {
                definition: definition.clone(),
                root: choice.root,
                located,
                language: choice.language.to_owned(),
            }),
            Err(why) => {
                missing.push(format!("{}: {why}{}", definition.name, definition.way_to_get_it()));
            }
        }
    }
    found.sort_by_key(|found| found.definition.purpose == Purpose::Diagnostics);
    match (found.is_empty(), untrusted) {
        (false, _) => Ok(found),
        (true, Some(root)) => Err(NoServer::Untrusted(root)),
        (true, None) => Err(NoServer::Missing { file: shown, missing }),
    }
}
