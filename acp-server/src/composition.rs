//! The composition root: the one place that knows every plugin, and puts rows into scopes.
//!
//! [`App`] belongs to the process and owns its scope; [`App::open`] makes the scope of a session
//! below it. It decides nothing about a turn and knows no protocol.

mod bundle;
mod credentials;
mod no_store;
mod plugins;
mod providers;

use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    AgentHandle, Answer, Approver, Asker, FormQuestion, FormReply, Mode, OfferedTools, Question,
    Seated, SessionSeat, UpdateSender, update_queue,
};
use bridle_compose::{EffectFailure, RowState, RowStatus, Scope, TaskSet};
use bridle_lsp::Servers;
use bridle_mcp::{Running, SessionServers};
use bridle_model::{Catalogue, ListedModel};
use bridle_session::{
    EventCount, Header, Parent, Route, Seq, Session, SessionId, Terms, UnixMillis,
};
use bridle_store::{BlobStore, LogWriter, MemoryStore, SessionStore};
use bridle_toolkit::{Listing, Skills};
use bridle_world::process::Processes;

use self::bundle::{Bundle, configured};
use self::no_store::NoStore;
use self::plugins::CurrentSettings;
use self::providers::Providers;
use crate::config::{
    self, CredentialsError, Environment, Overrides, PROVIDERS, Places, Settings, route_fault,
    set_key,
};
use crate::tally::number;

/// What the process is made of, and what its sessions will be made of.
pub struct App {
    environment: Environment,
    overrides: Overrides,
    settings: Arc<CurrentSettings>,
    scope: Scope,
    session_rows: Vec<bridle_compose::Row>,
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
        let known = settings.catalogue.find(route);
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

/// A session to be opened by [`App::open`].
pub struct SessionSeed {
    /// The new or loaded session.
    pub session: Session,
    /// What holds while it is open: its own header, or one with other roots and terms.
    pub header: Arc<Header>,
    /// Its log.
    pub writer: LogWriter,
    /// Who answers questions about calls.
    pub approver: Arc<dyn Approver>,
    /// Who shows the model's own questions.
    pub asker: Arc<dyn Asker>,
    /// Where updates go.
    pub updates: UpdateSender,
    /// The MCP servers that it has.
    pub servers: SessionServers,
}

/// A session with its scope and its running driver.
pub struct OpenSession {
    scope: Scope,
    /// How its parts stood when it was opened.
    pub parts: Vec<RowStatus>,
    /// Talks to the driver.
    pub agent: AgentHandle,
}

impl OpenSession {
    /// Its MCP servers; none where that part is not active.
    pub fn servers(&self) -> Arc<Running> {
        self.scope.get().unwrap_or_default()
    }

    /// Its skills; `None` where that part is not active.
    pub fn skills(&self) -> Option<Arc<Skills>> {
        self.scope.get()
    }

    /// Ends the driver, waits for everything it started, releases the log, and undoes the rest.
    /// Says what of it failed; the session is closed all the same.
    ///
    /// # Cancel safety
    /// Cancel safe: the closing goes on.
    pub async fn close(&self) -> Vec<EffectFailure> {
        let failures = self.scope.close().await;
        for failure in &failures {
            tracing::error!(%failure, "closing a session");
        }
        failures
    }
}

/// Where it is written down what the MCP servers of a session say of themselves: beside its log, so that
/// it goes with it.
pub fn journal(settings: &Settings, id: &SessionId) -> Option<PathBuf> {
    Some(settings.state.as_ref()?.join("sessions").join(id.as_str()).join("mcp.log"))
}

/// What is wrong with a part, for a person; `None` for one that works or is switched off.
pub fn fault(part: &RowStatus) -> Option<String> {
    match &part.state {
        RowState::Active | RowState::Disabled => None,
        RowState::Failed(reason) => Some(format!("{} could not be activated: {reason}", part.id)),
        RowState::Pending(missing) => {
            let missing: Vec<_> = missing.iter().map(ToString::to_string).collect();
            Some(format!("{} waits for {}", part.id, missing.join(", ")))
        }
    }
}

impl App {
    /// Reads the configuration and puts the rows of the process into their scope. Needs no home,
    /// no file and no network; what is wrong is in [`Settings::problems`].
    pub async fn compose(environment: Environment, overrides: Overrides) -> Self {
        let mut settings = config::load(&environment, &overrides);
        let bundle = Bundle::builtin().unwrap_or_else(|error| {
            settings.problems.push(format!("the built-in rows are not valid: {error}"));
            Bundle { process: Vec::new(), session: Vec::new() }
        });
        let lsp = settings.lsp.clone();
        let settings = Arc::new(CurrentSettings::new(settings));
        let scope = Scope::root("process", plugins::all(), TaskSet::new());
        scope.provide("settings", Arc::clone(&settings)).await;
        scope.provide("lsp-settings", Arc::new(lsp.in_force())).await;
        scope.mount(bundle.process).await;
        Self { environment, overrides, settings, scope, session_rows: bundle.session }
    }

    /// Opens a session: a scope with its rows, the driver among them.
    ///
    /// # Errors
    /// Why there is no driver, for a person. The log is released then.
    pub async fn open(&self, seed: SessionSeed) -> Result<OpenSession, String> {
        let settings = self.settings();
        let configured = settings.servers.iter().filter(|server| server.enabled);
        let servers = seed.servers.beside(configured.map(|server| &server.server));
        let journal = journal(&settings, &seed.header.id);
        let memory = settings.state.as_ref().map(|state| state.join("mcp"));
        let ca_file = settings.ca_file.clone();
        let servers = SessionServers { journal, memory, ca_file, ..servers };
        let seed = SessionSeed { servers, ..seed };
        if let (Some(route), Some(models)) =
            (self.settings().route.clone(), self.scope.get::<Providers>())
        {
            // The HTTP client is prepared while the session is opened.
            self.tasks().spawn(async move { models.warm(&route).await });
        }
        let (scope, parts) = self.scope_of(seed).await;
        if let Some(agent) = scope.get::<AgentHandle>() {
            return Ok(OpenSession { scope, parts, agent: (*agent).clone() });
        }
        let faults: Vec<_> = parts.iter().filter_map(fault).collect();
        scope.close().await;
        Err(format!("the session has no driver: {}", faults.join("; ")))
    }

    /// The scope of a session with its rows, and how they stand.
    async fn scope_of(&self, seed: SessionSeed) -> (Scope, Vec<RowStatus>) {
        let settings = self.settings();
        let SessionSeed { session, header, writer, approver, asker, updates, servers } = seed;
        let (terms, modes) = (header.terms.clone(), self.modes_under(ceiling(&header.terms)));
        let scope = self.scope.child(&format!("session {}", header.id));
        scope.provide("header", header).await;
        if let Some(tools) = terms.tools.clone() {
            scope.provide("offered-tools", Arc::new(OfferedTools(tools))).await;
        }
        scope.provide("approver", approver).await;
        scope.provide("asker", asker).await;
        scope.provide("mcp-servers", Arc::new(servers)).await;
        let seat = SessionSeat::new(Seated { session, writer, updates });
        scope.provide("session", Arc::new(seat)).await;
        let rows = self.session_rows.iter().cloned();
        scope.mount(rows.map(|row| configured(row, &settings, &terms, &modes)).collect()).await;
        let parts = scope.rows().await;
        (scope, parts)
    }

    /// How the parts of the process stand.
    pub async fn parts(&self) -> Vec<RowStatus> {
        self.scope.rows().await
    }

    /// How the parts of a session would stand that began now in the folder of this process, and the
    /// skills that it would have, found out by opening one that leaves no trace and closing it again.
    pub async fn session_parts(&self) -> (Vec<RowStatus>, Option<Arc<Listing>>) {
        let header = Header {
            format: Header::FORMAT,
            id: SessionId::new(uuid::Uuid::now_v7().to_string()),
            created_at: UnixMillis::from(std::time::SystemTime::now()),
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/")),
            extra_roots: Vec::new(),
            parent: None,
            origin: "trial".to_owned(),
            delegation_depth: 0,
            terms: Default::default(),
        };
        let Ok(writer) = MemoryStore::new().create(&header) else { return Default::default() };
        let (updates, _) = update_queue(1, 0);
        let session = Session::new(header);
        let (approver, asker) = (Arc::new(NobodyToAsk), Arc::new(NobodyToAsk));
        let header = Arc::clone(session.header());
        let servers = SessionServers::default();
        let seed = SessionSeed { session, header, writer, approver, asker, updates, servers };
        let (scope, parts) = self.scope_of(seed).await;
        let skills = match scope.get::<Skills>() {
            Some(skills) => Some(skills.refresh().await),
            None => None,
        };
        scope.close().await;
        (parts, skills)
    }

    /// The settings now in force.
    pub fn settings(&self) -> Arc<Settings> {
        self.settings.get()
    }

    /// Reads the configuration again (on `authenticate`). Running sessions keep their route; the
    /// keys they use are the new ones. The folder of sessions stays. Blocks on a few small files.
    pub fn reload(&self) {
        let mut settings = config::load(&self.environment, &self.overrides);
        settings.state.clone_from(&self.settings().state);
        if let Some(servers) = self.language_servers() {
            servers.reload(settings.lsp.in_force());
        }
        self.settings.set(settings);
    }

    /// Removes the kept key of every provider, and uses none, wherever it is from, until
    /// [`App::reload`]. Blocks on a small file.
    ///
    /// # Errors
    /// When the file could not be changed; no key is used all the same.
    pub fn log_out(&self) -> Result<(), CredentialsError> {
        let mut settings = Settings::clone(&self.settings());
        settings.forget_keys("you logged out; authenticate to use the keys that are left");
        let folder = settings.config.clone();
        self.settings.set(settings);
        let Some(folder) = folder else { return Ok(()) };
        PROVIDERS.iter().try_for_each(|known| set_key(&folder, known.name, None).map(drop))
    }

    /// The folder that stands for the home of this program, where one was named.
    pub fn home(&self) -> Option<&str> {
        self.environment.text("BRIDLE_HOME")
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
        self.scope.get::<dyn SessionStore>().unwrap_or_else(|| Arc::new(NoStore))
    }

    /// Where images of prompts are kept. Its methods block: call them off the async threads.
    pub fn blobs(&self) -> Arc<dyn BlobStore> {
        self.scope.get::<dyn BlobStore>().unwrap_or_else(|| Arc::new(NoStore))
    }

    /// The tasks of the process; [`App::close`] ends them.
    pub fn tasks(&self) -> &TaskSet {
        self.scope.tasks()
    }

    /// Where commands run, unless that part is not active.
    pub fn processes(&self) -> Option<Arc<Processes>> {
        self.scope.get()
    }

    /// The language servers of the process, unless that part is not active.
    pub fn language_servers(&self) -> Option<Arc<Servers>> {
        self.scope.get()
    }

    /// Closes every session that is still open, undoes what the parts of the process set up, ends
    /// every task, and waits for all of it.
    ///
    /// # Cancel safety
    /// Cancel safe: a later call waits for the rest.
    pub async fn close(&self) {
        for failure in self.scope.close().await {
            tracing::error!(%failure, "closing the process");
        }
        self.tasks().close().await;
    }

    /// The models a client may choose now, the default first unless it cannot work. Never empty:
    /// without a key it lists the catalogue's defaults, and their names say that there is none.
    pub fn models(&self) -> Vec<ModelChoice> {
        let settings = self.settings();
        let usable = |name: &str| settings.provider(name).is_some_and(|p| p.is_usable());
        let catalogue = &settings.catalogue;
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

    /// What is known of models now.
    pub fn catalogue(&self) -> Cow<'static, Catalogue> {
        self.settings().catalogue.clone()
    }

    /// What is assumed of the model of `route` because nobody has said what it can take, for a
    /// person; `None` for a model that is known.
    pub fn assumption(&self, route: &Route) -> Option<String> {
        let model = self.settings().catalogue.row(route).filter(|model| model.assumed)?;
        Some(format!(
            "{route} is not in the catalogue: small limits are assumed ({} tokens, answers of {}), \
             and its price is not known; [models.\"{route}\"] in config.toml can say more",
            number(model.window),
            number(model.max_output),
        ))
    }

    /// Asks the endpoint of `provider` which models it offers; `None` where it has no list.
    ///
    /// # Errors
    /// What went wrong, for a person.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn list_models(&self, provider: &str) -> Result<Option<Vec<ListedModel>>, String> {
        let models = self.scope.get::<Providers>();
        let models = models.ok_or_else(|| "the part `models` is not active".to_owned())?;
        models.list(provider).await.map_err(|failure| failure.message)
    }

    /// The modes a client may choose in a session with this ceiling.
    pub fn modes_under(&self, ceiling: Mode) -> Vec<Mode> {
        let full_access = self.settings().full_access;
        let all = Mode::ALL.into_iter().filter(|mode| *mode <= ceiling);
        all.filter(|mode| *mode != Mode::FullAccess || full_access).collect()
    }

    /// The header of a session that begins now in `cwd` (absolute, existing; made canonical), with
    /// further canonical roots.
    /// Blocks on a few file lookups.
    ///
    /// # Errors
    /// When `cwd` is relative, missing or not a folder, and when there is no place for sessions; the
    /// message is for a person.
    pub fn new_header(
        &self,
        cwd: &Path,
        extra_roots: Vec<PathBuf>,
        origin: &str,
    ) -> Result<Header, String> {
        if self.settings().state.is_none() {
            return Err(Places::no_state().to_owned());
        }
        Ok(Header {
            format: Header::FORMAT,
            id: SessionId::new(uuid::Uuid::now_v7().to_string()),
            created_at: UnixMillis::from(std::time::SystemTime::now()),
            cwd: canonical_folder(cwd)?,
            extra_roots,
            parent: None,
            origin: origin.to_owned(),
            delegation_depth: 0,
            terms: Default::default(),
        })
    }
}

/// The mode that a session with these terms cannot go above. A ceiling that this version does not
/// know is the lowest.
pub fn ceiling(terms: &Terms) -> Mode {
    let declared = terms.ceiling.as_deref();
    declared.map_or(Mode::FullAccess, |id| Mode::from_id(id).unwrap_or(Mode::ReadOnly))
}

/// For a session that nobody talks to.
struct NobodyToAsk;

#[async_trait]
impl Approver for NobodyToAsk {
    async fn ask(&self, _: Question) -> Answer {
        Answer::NoApprover
    }
}

#[async_trait]
impl Asker for NobodyToAsk {
    async fn ask(&self, _: Vec<FormQuestion>) -> FormReply {
        FormReply::NoForms
    }
}

/// The header of a fork of the session with `parent`, cut behind the event `at`.
pub fn fork_header(parent: &Header, at: Seq) -> Header {
    Header {
        format: Header::FORMAT,
        id: SessionId::new(uuid::Uuid::now_v7().to_string()),
        created_at: UnixMillis::from(std::time::SystemTime::now()),
        parent: Some(Parent { id: parent.id.clone(), inherited: EventCount(at.next().0) }),
        origin: "fork".to_owned(),
        ..parent.clone()
    }
}

/// The canonical name of a folder.
///
/// # Errors
/// When it is relative, missing or not a folder; for a person.
pub fn canonical_folder(path: &Path) -> Result<PathBuf, String> {
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
