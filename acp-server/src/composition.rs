//! The composition root: the one place that names every provider and joins them to a session.
//!
//! [`App`] belongs to the process; [`App::agent_parts`] makes what belongs to one session. It
//! decides nothing about a turn and knows no protocol.

mod no_store;
mod providers;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use bridle_agent::{AgentParts, AgentUpdate, Approver, Mode, Sandboxing};
use bridle_compose::{Clock, SystemClock, TaskSet};
use bridle_model::Catalogue;
use bridle_session::{Header, Route, Session, SessionId, UnixMillis};
use bridle_store::{BlobStore, FileStore, LogWriter, SessionStore};
use bridle_toolkit::ToolWorld;
use bridle_world::Roots;
use bridle_world::process::Processes;
use tokio::sync::mpsc;

use crate::config::{self, Environment, Overrides, PROVIDERS, Places, Settings, route_fault};
use no_store::NoStore;
use providers::Providers;

/// The settings in force, shared with the model source. Replaced as a whole, never changed.
type CurrentSettings = Arc<RwLock<Arc<Settings>>>;

/// The program's providers, shared by all sessions of the process.
pub struct App {
    environment: Environment,
    overrides: Overrides,
    settings: CurrentSettings,
    store: Arc<dyn SessionStore>,
    blobs: Arc<dyn BlobStore>,
    models: Arc<Providers>,
    processes: Processes,
    clock: Arc<dyn Clock>,
    tasks: TaskSet,
}

/// A model that a client can choose.
#[derive(Clone, Debug)]
pub struct ModelChoice {
    /// Which.
    pub route: Route,
    /// The name a person reads.
    pub name: String,
}

impl ModelChoice {
    /// The choice of a route, also of one that cannot answer: then the name says so.
    fn of_route(route: &Route, settings: &Settings) -> Self {
        let known = Catalogue::builtin().find(route);
        let name = if route_fault(route).is_some() {
            format!("{route} (cannot be used)")
        } else {
            let unlisted = || format!("{route} (not in the catalogue: small limits assumed)");
            let name = known.map_or_else(unlisted, |model| model.name.clone());
            let usable = settings.provider(&route.provider).is_some_and(|p| p.is_usable());
            if usable { name } else { format!("{name} (no key)") }
        };
        Self { route: route.clone(), name }
    }
}

/// A session to be started by [`App::agent_parts`].
pub struct SessionSeed {
    /// The new or loaded session.
    pub session: Session,
    /// Its log.
    pub writer: LogWriter,
    /// Who answers questions.
    pub approver: Arc<dyn Approver>,
    /// Where updates go.
    pub updates: mpsc::Sender<AgentUpdate>,
}

impl App {
    /// Reads the configuration and joins the real providers. Needs no home, no file and no
    /// network; what is wrong is in [`Settings::problems`].
    pub fn new(environment: Environment, overrides: Overrides) -> Self {
        let settings = config::load(&environment, &overrides);
        let (store, blobs): (Arc<dyn SessionStore>, Arc<dyn BlobStore>) = match &settings.state {
            Some(state) => {
                let store = FileStore::new(state).with_compression(settings.compression);
                let store = Arc::new(store);
                (Arc::clone(&store) as _, store)
            }
            None => (Arc::new(NoStore), Arc::new(NoStore)),
        };
        let settings: CurrentSettings = Arc::new(RwLock::new(Arc::new(settings)));
        let clock: Arc<dyn Clock> = Arc::new(SystemClock);
        let models = Arc::new(Providers::new(Arc::clone(&settings), Arc::clone(&clock)));
        Self {
            environment,
            overrides,
            settings,
            store,
            blobs,
            models,
            processes: Processes::new(
                Processes::THIS_BINARY.into(),
                bridle_world::process::Environment::from_process(),
            ),
            clock,
            tasks: TaskSet::new(),
        }
    }

    /// The settings now in force.
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the configuration again (on `authenticate`). Running sessions keep their route; the
    /// keys they use are the new ones. The folder of sessions stays. Blocks on a few small files.
    pub fn reload(&self) {
        let mut settings = config::load(&self.environment, &self.overrides);
        settings.state.clone_from(&self.settings().state);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Whether any provider could answer now.
    pub fn has_credentials(&self) -> bool {
        self.settings().providers.iter().any(config::ProviderSettings::is_usable)
    }

    /// What a person must set so that a provider can answer.
    pub fn credentials_hint(&self) -> String {
        providers::no_route(&self.settings())
    }

    /// The session store. Its methods block: call them off the async threads.
    pub fn store(&self) -> Arc<dyn SessionStore> {
        Arc::clone(&self.store)
    }

    /// The tasks of the process; [`App::close`] ends them.
    pub fn tasks(&self) -> &TaskSet {
        &self.tasks
    }

    /// Where commands run.
    pub fn processes(&self) -> &Processes {
        &self.processes
    }

    /// Ends every task and waits for it.
    ///
    /// # Cancel safety
    /// Cancel safe: a later call waits for the rest.
    pub async fn close(&self) {
        self.tasks.close().await;
    }

    /// The models a client may choose now, the default first unless it cannot work. Never empty:
    /// without a key it lists the catalogue's defaults, and their names say that there is none.
    pub fn models(&self) -> Vec<ModelChoice> {
        let settings = self.settings();
        let usable = |name: &str| settings.provider(name).is_some_and(|p| p.is_usable());
        let catalogue = Catalogue::builtin();
        let offered = catalogue.models().iter().filter(|model| usable(&model.provider));
        let choice = |route: &Route| ModelChoice::of_route(route, &settings);
        let default = settings.route.iter().filter(|route| route_fault(route).is_none());
        let mut choices: Vec<_> = default.map(choice).collect();
        for model in offered {
            let route = model.route();
            if choices.iter().all(|known| known.route != route) {
                choices.push(ModelChoice { route, name: model.name.clone() });
            }
        }
        if choices.is_empty() {
            let defaults = PROVIDERS.iter().filter_map(|p| catalogue.default_for(p.name));
            choices.extend(defaults.map(|model| choice(&model.route())));
        }
        choices
    }

    /// The choice that stands for `route` where it is in force, whether or not a client may choose
    /// it now.
    pub fn model(&self, route: &Route) -> ModelChoice {
        ModelChoice::of_route(route, &self.settings())
    }

    /// The modes a client may choose.
    pub fn modes(&self) -> Vec<Mode> {
        let full_access = self.settings().full_access;
        Mode::ALL.into_iter().filter(|mode| *mode != Mode::FullAccess || full_access).collect()
    }

    /// The header of a session that begins now in `cwd` (absolute, existing; made canonical).
    /// Blocks on a few file lookups.
    ///
    /// # Errors
    /// When `cwd` or an extra root is relative, missing or not a folder, and when there is no
    /// place for sessions; the message is for a person.
    pub fn new_header(
        &self,
        cwd: &Path,
        extra_roots: Vec<PathBuf>,
        origin: &str,
    ) -> Result<Header, String> {
        if self.settings().state.is_none() {
            return Err(Places::no_state().to_owned());
        }
        let extra_roots =
            extra_roots.iter().map(|root| canonical_folder(root)).collect::<Result<_, _>>()?;
        Ok(Header {
            format: Header::FORMAT,
            id: SessionId::new(uuid::Uuid::now_v7().to_string()),
            created_at: UnixMillis::from(self.clock.now()),
            cwd: canonical_folder(cwd)?,
            extra_roots,
            parent: None,
            origin: origin.to_owned(),
            delegation_depth: 0,
        })
    }

    /// Joins a session with tools, model source, prompt, contexts, clock and tasks. Call it on
    /// the runtime: the HTTP client is prepared meanwhile.
    pub fn agent_parts(&self, seed: SessionSeed) -> AgentParts {
        let settings = self.settings();
        let header = seed.session.header();
        let own = [&settings.config, &settings.state].into_iter().flatten().cloned();
        let roots = Roots::new(header.cwd.clone(), header.extra_roots.clone()).excluding(own);
        if let Some(route) = settings.route.clone() {
            let models = Arc::clone(&self.models);
            self.tasks.spawn(async move { models.warm(&route).await });
        }
        let world = ToolWorld { roots: Arc::new(roots), processes: self.processes.clone() };
        AgentParts {
            tools: bridle_toolkit::tools(&world),
            contexts: bridle_toolkit::contexts(&world),
            system_prompt: bridle_toolkit::system_prompt().to_owned(),
            session: seed.session,
            writer: seed.writer,
            blobs: Arc::clone(&self.blobs),
            models: Arc::clone(&self.models) as _,
            approver: seed.approver,
            updates: seed.updates,
            clock: Arc::clone(&self.clock),
            tasks: self.tasks.clone(),
            mode: settings.mode,
            modes: self.modes(),
            route: settings.route.clone(),
            // Commands are confined from the sandbox's issue on; until then each one asks.
            sandboxing: Sandboxing::Unavailable,
            max_steps: settings.max_steps,
        }
    }
}

fn canonical_folder(path: &Path) -> Result<PathBuf, String> {
    if !path.is_absolute() {
        return Err(format!("{} is not an absolute path", path.display()));
    }
    let canonical = fs_err::canonicalize(path).map_err(|error| error.to_string())?;
    if !canonical.is_dir() {
        return Err(format!("{} is not a folder", path.display()));
    }
    Ok(canonical)
}

#[cfg(test)]
mod tests;
