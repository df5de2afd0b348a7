//! One life of a server: started, introduced, shown documents, asked, ended.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, SystemTime};

use bridle_compose::{Clock, TaskSet};
use bridle_world::files::Files;
use bridle_world::process::{Processes, ServerSpec};
use bridle_world::servers::{End, Journal, ServerProcess, Voice};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::answer::shown;
use crate::connection::{Connection, Manners, NoAnswer};
use crate::definition::ServerDefinition;
use crate::documents::{Document, Documents, Shown, Sync, Wire};
use crate::heard::{Heard, Readiness};
use crate::introduction::{ABILITIES, introduction, provider, registered};
use crate::locate::Located;
use crate::position::Encoding;
use crate::roots::is_marked;
use crate::source::{Mark, Source};
use crate::work::Kinds;

/// How long a server may take to say that it is about to end.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);

/// How long it may take to end then.
const EXIT_LIMIT: Duration = Duration::from_secs(1);

/// How often in a row it may say that something inside it broke.
const MAX_FAULTS: u32 = 2;

/// What something that broke inside a server is called.
pub(crate) const INTERNAL_ERROR: i64 = -32603;

const UNKNOWN_METHOD: i64 = -32601;

/// Where servers are started.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) processes: Arc<Processes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskSet,
    pub(crate) journal: Journal,
}

/// A server that answers.
pub(crate) struct Life {
    pub(crate) definition: Arc<ServerDefinition>,
    pub(crate) heard: Arc<Heard>,
    pub(crate) encoding: Encoding,
    /// Who it says it is.
    pub(crate) who: String,
    pub(crate) begun: SystemTime,
    /// Why it does not know the whole project, whatever it says.
    pub(crate) partial: Option<String>,
    pub(crate) clock: Arc<dyn Clock>,
    connection: Connection,
    process: ServerProcess,
    capabilities: Value,
    documents: tokio::sync::Mutex<Documents>,
    first_opened: OnceLock<SystemTime>,
    /// Methods that it has not, whatever it says.
    unsupported: Mutex<HashSet<String>>,
    faults: AtomicU32,
}

impl Life {
    /// Starts the server and waits until it has introduced itself. When it does not in time, nothing is
    /// left of it.
    ///
    /// # Errors
    /// Why, with the end of what it wrote to its standard error.
    pub(crate) async fn begin(
        definition: &Arc<ServerDefinition>,
        located: &Located,
        root: &Path,
        host: &Host,
        token: &CancellationToken,
    ) -> Result<Self, String> {
        let variables = definition.environment.pairs.iter();
        let spec = ServerSpec {
            program: located.program.clone().into(),
            arguments: definition.command.iter().skip(1).map(Into::into).collect(),
            environment: variables.map(|(name, value)| (name.into(), value.into())).collect(),
            cwd: root.to_owned(),
            confinement: None,
        };
        let started =
            host.processes.server(spec, token).await.map_err(|error| error.to_string())?;
        let (running, dialogue) = started.ok_or("its start was cancelled")?;
        let name = format!("{} ({})", definition.name, root.display());
        let voice = Voice::new(&name, definition.environment.secrets.clone(), &host.journal);
        let clock = Arc::clone(&host.clock);
        let process =
            ServerProcess::follow(running, voice.clone(), Arc::clone(&clock), &host.tasks);
        let settings = definition.settings_in(root);
        let heard = Arc::new(Heard::new(
            root,
            settings.clone(),
            Kinds { background: definition.background.clone(), checks: definition.checks.clone() },
            voice.clone(),
            Arc::clone(&clock),
        ));
        let listener = Arc::clone(&heard) as _;
        let (input, output) = (dialogue.input, dialogue.output);
        let manners = Manners { cancels: definition.cancels, secrets: voice.secrets().clone() };
        let wire = Arc::clone(&clock);
        let connection = Connection::new(input, output, listener, manners, wire, &host.tasks);
        let params = introduction(root, &located.initialization);
        let limit = definition.start_limit;
        let answer = connection.ask("initialize", Some(params), limit, token).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return Err(unheard(why, &connection, &process, &clock).await),
        };
        let capabilities = answer.get("capabilities").cloned().unwrap_or_default();
        let agreed = capabilities.get("positionEncoding").or_else(|| answer.get("offsetEncoding"));
        let encoding = Encoding::of(agreed.and_then(Value::as_str));
        let sync = Sync::of(capabilities.get("textDocumentSync"));
        let life = Self {
            definition: Arc::clone(definition),
            heard,
            encoding,
            who: who(&answer).unwrap_or_else(|| definition.name.clone()),
            begun: clock.now(),
            partial: partial(definition, root),
            clock,
            connection,
            process,
            capabilities,
            documents: tokio::sync::Mutex::new(Documents::new(sync, encoding)),
            first_opened: OnceLock::new(),
            unsupported: Mutex::default(),
            faults: AtomicU32::new(0),
        };
        // Should it be gone by now, the first question finds out.
        life.tell("initialized", json!({})).await.ok();
        let has_settings = settings.as_object().is_some_and(|settings| !settings.is_empty());
        if has_settings && !life.definition.asks_settings {
            let params = json!({"settings": settings});
            life.tell("workspace/didChangeConfiguration", params).await.ok();
        }
        Ok(life)
    }

    async fn tell(&self, method: &str, params: Value) -> Result<(), NoAnswer> {
        self.connection.tell(method, Some(params)).await
    }

    /// Asks it something.
    ///
    /// # Errors
    /// [`NoAnswer`].
    ///
    /// # Cancel safety
    /// As [`Connection::ask`].
    pub(crate) async fn ask(
        &self,
        method: &str,
        params: Value,
        limit: Duration,
        token: &CancellationToken,
    ) -> Result<Value, NoAnswer> {
        let answer = self.connection.ask(method, Some(params), limit, token).await;
        match &answer {
            Ok(_) => self.faults.store(0, Ordering::Relaxed),
            Err(NoAnswer::Refused { code: INTERNAL_ERROR, .. }) => {
                self.faults.fetch_add(1, Ordering::Relaxed);
            }
            Err(NoAnswer::Refused { code: UNKNOWN_METHOD, .. }) => {
                let mut unsupported =
                    self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
                unsupported.insert(method.to_owned());
            }
            Err(_) => {}
        }
        answer
    }

    /// Whether something inside it broke so often in a row that only another life helps.
    pub(crate) fn is_broken(&self) -> bool {
        self.faults.load(Ordering::Relaxed) >= MAX_FAULTS
    }

    /// Shows it what a file holds now.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn show(
        &self,
        source: &Source,
        language: &str,
        files: &Arc<dyn Files>,
    ) -> Result<Shown, NoAnswer> {
        let wire = Wire { connection: &self.connection, heard: &self.heard };
        // Before it is told: what it does from now on is of the project.
        self.first_opened.get_or_init(|| self.clock.now());
        self.documents.lock().await.show(&wire, source, language, files).await
    }

    /// Tells it that a file which it has open was saved, as it was shown last: some check only then.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn save(&self, source: &Source) -> Result<(), NoAnswer> {
        let wire = Wire { connection: &self.connection, heard: &self.heard };
        self.documents.lock().await.save(&wire, source).await
    }

    /// The documents that it has open, what was used last first.
    pub(crate) async fn open_documents(&self) -> Vec<Document> {
        self.documents.lock().await.all()
    }

    /// The files that it has open as they are on the disk.
    pub(crate) async fn shown_as_they_are(&self) -> HashSet<PathBuf> {
        let known = self.documents.lock().await.marks();
        let look = tokio::task::spawn_blocking(move || {
            known
                .into_iter()
                .filter(|(path, mark)| Mark::of(path) == *mark)
                .map(|(path, _)| path)
                .collect()
        });
        look.await.unwrap_or_default()
    }

    /// Shows it what has changed of the files that it has open.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn refresh(&self, files: &Arc<dyn Files>) -> Result<(), NoAnswer> {
        let wire = Wire { connection: &self.connection, heard: &self.heard };
        self.documents.lock().await.refresh(&wire, files, None).await
    }

    /// Tells it that files have changed, as the protocol has it.
    ///
    /// # Errors
    /// [`NoAnswer::Gone`].
    pub(crate) async fn files_changed(&self, changes: Vec<Value>) -> Result<(), NoAnswer> {
        self.tell("workspace/didChangeWatchedFiles", json!({"changes": changes})).await
    }

    /// Whether it can be asked this.
    pub(crate) fn supports(&self, method: &str) -> bool {
        let unsupported = self.unsupported.lock().unwrap_or_else(PoisonError::into_inner);
        if unsupported.contains(method) {
            return false;
        }
        let provider = self.capabilities.get(provider(method));
        let offers = provider.is_some_and(|it| !matches!(it, Value::Null | Value::Bool(false)));
        offers || self.heard.has_registered(registered(method))
    }

    /// What it wants to be asked for diagnostics by, where it says so.
    pub(crate) fn diagnostic_identifier(&self) -> Option<Value> {
        self.capabilities.get("diagnosticProvider")?.get("identifier").cloned()
    }

    /// What the tools can ask it for.
    pub(crate) fn abilities(&self) -> Vec<String> {
        let known = ABILITIES.iter().filter(|(method, _)| self.supports(method));
        let mut names: Vec<_> = known.map(|(_, name)| (*name).to_owned()).collect();
        if !self.supports("textDocument/diagnostic") {
            names.push("diagnostics when it has some".to_owned());
        }
        names
    }

    /// How far its answers can be trusted now.
    pub(crate) fn readiness(&self) -> Readiness {
        match self.heard.readiness() {
            Readiness::Ready | Readiness::Young if !self.is_warm() => {
                Readiness::Loading("the project".to_owned())
            }
            readiness => readiness,
        }
    }

    /// Whether it says of itself that it is at something, or failed.
    pub(crate) fn has_begun(&self) -> bool {
        matches!(self.readiness(), Readiness::Loading(_) | Readiness::Sick(_))
    }

    /// Whether it could find out by now what it does not say that it is still finding out. What it says of
    /// its work goes before the clock.
    fn is_warm(&self) -> bool {
        let warm_time = self.definition.warm_time;
        let age = |since: &SystemTime| self.clock.now().duration_since(*since).unwrap_or_default();
        warm_time.is_zero()
            || self
                .first_opened
                .get()
                .is_some_and(|since| age(since) >= warm_time || self.heard.has_worked_since(*since))
    }

    /// Whether the one thing that it finds is the right one, although it may not know all yet.
    pub(crate) fn finds_right(&self) -> bool {
        let worked = |since: &SystemTime| self.heard.has_worked_since(*since);
        self.definition.hasty.is_none() || self.first_opened.get().is_some_and(worked)
    }

    /// Waits until nothing can be said to it any more.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&self) {
        tokio::select! {
            () = self.connection.over.cancelled() => {}
            () = self.process.ended() => {}
        }
    }

    /// Whether nothing can be said to it any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.connection.over.is_cancelled() || self.process.has_ended()
    }

    /// What it holds in memory with all that it has started, in bytes, where that can be found out.
    pub(crate) async fn memory(&self) -> Option<u64> {
        self.process.memory().await
    }

    /// Makes it end, and waits for that.
    pub(crate) async fn kill(&self) {
        self.connection.hang_up();
        self.process.end(Duration::ZERO, &self.clock).await;
    }

    /// Ends it: asked to, then told to, then made to. How it had ended, should that have been by itself.
    ///
    /// # Cancel safety
    /// When it is dropped, the server is made to end without waiting.
    pub(crate) async fn end(&self) -> String {
        let ended = self.has_ended();
        if !ended {
            let never = CancellationToken::new();
            // It ends whatever it answers, and strict servers want no parameters.
            self.connection.ask("shutdown", None, SHUTDOWN_LIMIT, &never).await.ok();
            let told = self.connection.tell("exit", None);
            tokio::select! {
                _ = told => {}
                () = self.clock.sleep(EXIT_LIMIT) => {}
            }
        }
        self.connection.hang_up();
        let given_up = self.connection.given_up();
        // It is not waited for that one ends which says nothing that can be understood.
        let patience = if given_up.is_some() { Duration::ZERO } else { EXIT_LIMIT };
        let end = self.process.end(patience, &self.clock).await;
        match ended {
            true => {
                told(given_up, end, None).unwrap_or_else(|| "it ended the conversation".to_owned())
            }
            false => "it was ended".to_owned(),
        }
    }
}

/// Why a server does not know the whole of a project; `None` where it does. Looks at the disk.
fn partial(definition: &ServerDefinition, root: &Path) -> Option<String> {
    let needed = &definition.whole_with;
    let first = needed.first().filter(|_| !is_marked(root, needed))?;
    Some(format!("without {} it knows only the files that it was shown", first.name))
}

/// Ends a server that did not introduce itself; why it did not.
async fn unheard(
    why: NoAnswer,
    connection: &Connection,
    process: &ServerProcess,
    clock: &Arc<dyn Clock>,
) -> String {
    connection.hang_up();
    let patience = if why == NoAnswer::Gone { EXIT_LIMIT } else { Duration::ZERO };
    let given_up = connection.given_up();
    let end = process.end(patience, clock).await;
    // What it says in the wrong place may be why.
    let noise = if given_up.is_some() { None } else { connection.noise() };
    match (why, told(given_up, end, noise)) {
        (NoAnswer::Gone, Some(end)) => end,
        (why, Some(end)) => format!("{why}; {end}"),
        (why, None) => why.to_string(),
    }
}

/// Why it was given up, how it ended, and the last that it wrote; `None` where there is nothing to say.
fn told(given_up: Option<String>, end: End, noise: Option<String>) -> Option<String> {
    let how = end.how.map(|how| how.unwrap_or_else(|error| error.to_string()));
    let wrote = (!end.errors.is_empty()).then(|| format!("it wrote: {}", end.errors));
    let parts: Vec<_> = given_up.into_iter().chain(how).chain(noise).chain(wrote).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn who(answer: &Value) -> Option<String> {
    let info = answer.get("serverInfo")?;
    let name = shown(info.get("name"))?;
    Some(match shown(info.get("version")) {
        Some(version) => format!("{name} {version}"),
        None => name,
    })
}
