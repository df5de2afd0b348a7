//! One life of a server: reached, initialised, asked, ended.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::{ProcessError, Processes, ServerSpec};
use bridle_world::servers::{End, Journal, ServerProcess, Voice, written_out};
use rmcp::model::{ClientRequest, CustomRequest, ProtocolVersion};
use rmcp::service::{
    ClientInitializeError, Peer, PeerRequestOptions, RoleClient, RunningService, serve_client,
};
use serde_json::Value;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinHandle;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::asking::Person;
use crate::config::{Reach, ServerConfig};
use crate::http;
use crate::listener::Listener;
use crate::pipes::Pipes;
use crate::request::{Asked, Fault};

/// How long a server may take to end once nothing more is said to it.
pub(crate) const POLITE_LIMIT: Duration = Duration::from_millis(200);

/// Where servers are started.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) processes: Arc<Processes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskSet,
    pub(crate) journal: Journal,
    /// Whom they may ask.
    pub(crate) person: Person,
    /// Certificates that are trusted besides those of the system.
    pub(crate) ca_file: Option<PathBuf>,
    /// The session's folders; servers run in the first.
    pub(crate) folders: Arc<[PathBuf]>,
}

/// A server that answers.
pub(crate) struct Connection {
    peer: Peer<RoleClient>,
    listener: Listener,
    /// Where it is a program of ours.
    process: Option<ServerProcess>,
    /// Ends the conversation; dropped, too.
    closing: CancellationToken,
    _closes: DropGuard,
    /// Cancelled once nothing can be said any more.
    over: CancellationToken,
    /// The conversation. `None` once it was waited for.
    conversation: Mutex<Option<JoinHandle<()>>>,
    clock: Arc<dyn Clock>,
}

/// Why a server cannot be used, for a person.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{text}")]
pub(crate) struct Unavailable {
    pub(crate) text: String,
    pub(crate) remedy: Remedy,
    /// Only the end of the conversation was noticed: how the server ended says more.
    is_end: bool,
}

/// What may help.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Trying again.
    #[default]
    Again,
    /// A person has to log in.
    LogIn,
    /// Nothing but another configuration.
    Configure,
}

impl Unavailable {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), remedy: Remedy::default(), is_end: false }
    }

    /// As it is configured it can never be used.
    pub(crate) fn misconfigured(text: impl Into<String>) -> Self {
        Self { remedy: Remedy::Configure, ..Self::new(text) }
    }

    /// The conversation has ended.
    fn end(text: impl Into<String>) -> Self {
        Self { is_end: true, ..Self::new(text) }
    }

    pub(crate) fn cancelled() -> Self {
        Self::new("cancelled")
    }
}

impl From<ProcessError> for Unavailable {
    fn from(error: ProcessError) -> Self {
        let text = error.to_string();
        match error {
            // A program that is not there does not come by itself.
            ProcessError::Program { .. } | ProcessError::WorkingDirectory { .. } => {
                Self::misconfigured(text)
            }
            ProcessError::Sandbox { .. } | ProcessError::Supervisor { .. } => Self::new(text),
        }
    }
}

/// The whole reason: how it ended goes before what was noticed of that, but not before what it was ended for.
fn explained(noticed: Unavailable, end: End) -> Unavailable {
    let why = match end.how {
        Some(Ok(how)) if noticed.is_end => Unavailable::new(how),
        Some(Err(error)) => error.into(),
        Some(Ok(_)) | None => noticed,
    };
    match end.errors.is_empty() {
        true => why,
        false => Unavailable { text: format!("{why}; it wrote: {}", end.errors), ..why },
    }
}

impl Connection {
    /// Reaches the server and waits until it has introduced itself. When it does not in time, or cannot
    /// be understood, nothing is left of it.
    ///
    /// # Errors
    /// [`Unavailable`], with the end of what it wrote to its standard error.
    pub(crate) async fn open(
        config: &ServerConfig,
        host: &Host,
        token: &CancellationToken,
    ) -> Result<Self, Unavailable> {
        let voice = Voice::new(&config.name, config.secrets.clone(), &host.journal);
        let listener = Listener::new(voice.clone(), host);
        let (service, process) = match &config.reach {
            Reach::Stdio { program, arguments, environment } => {
                let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
                let spec = ServerSpec {
                    program: program.into(),
                    arguments: arguments.iter().map(Into::into).collect(),
                    environment: pairs.collect(),
                    cwd: host.folders.first().cloned().unwrap_or_default(),
                    confinement: None,
                };
                let started = host.processes.server(spec, token).await?;
                let (running, dialogue) = started.ok_or_else(Unavailable::cancelled)?;
                let process =
                    ServerProcess::follow(running, voice, Arc::clone(&host.clock), &host.tasks);
                let pipes = Pipes::new(config.name.as_str().into(), dialogue);
                let serving = serve_client(listener.clone(), pipes);
                match introduced(serving, config, host, token).await {
                    Ok(service) => (service, Some(process)),
                    Err(why) => {
                        return Err(explained(why, process.end(POLITE_LIMIT, &host.clock).await));
                    }
                }
            }
            Reach::Http { url, headers } => {
                let (url, headers) = (url.clone(), headers.clone());
                let (clock, ca_file) = (Arc::clone(&host.clock), host.ca_file.clone());
                let renewed = Arc::clone(&listener.tools_changed);
                // Certificates are read from the disk.
                let wire = tokio::task::spawn_blocking(move || {
                    http::wire(&url, &headers, ca_file.as_deref(), clock, renewed)
                });
                let wire = wire.await.map_err(unavailable)?.map_err(Unavailable::misconfigured)?;
                let serving = serve_client(listener.clone(), wire);
                (introduced(serving, config, host, token).await?, None)
            }
        };
        let (closing, over) = (CancellationToken::new(), CancellationToken::new());
        let peer = service.peer().clone();
        let conversation = host.tasks.spawn(converse(service, closing.clone(), over.clone()));
        let connection = Self {
            peer,
            listener,
            process,
            _closes: closing.clone().drop_guard(),
            closing,
            over,
            conversation: Mutex::new(Some(conversation)),
            clock: Arc::clone(&host.clock),
        };
        match connection.version() {
            Ok(()) => Ok(connection),
            Err(why) => {
                connection.close().await;
                Err(why)
            }
        }
    }

    /// Whatever version a server answers is taken by the official client.
    fn version(&self) -> Result<(), Unavailable> {
        let version = self.peer.peer_info().map(|info| info.protocol_version.clone());
        let version = version.ok_or_else(|| Unavailable::new("it did not say who it is"))?;
        let known = ProtocolVersion::KNOWN_VERSIONS;
        if known.contains(&version) && version.has_initialize() {
            return Ok(());
        }
        Err(Unavailable::new(format!(
            "it speaks version {version} of the protocol, which is not known"
        )))
    }

    /// What the server says about its own use, with all of it to be seen.
    pub(crate) fn instructions(&self) -> Option<String> {
        let info = self.peer.peer_info()?;
        let text = self.listener.secrets().blank(info.instructions.as_deref()?);
        Some(written_out(&text).into_owned())
    }

    /// Who it says it is, and which version of the protocol it speaks.
    pub(crate) fn introduction(&self) -> Option<(String, String)> {
        let info = self.peer.peer_info()?;
        let who = info.server_info.as_ref();
        let who = who.map_or_else(String::new, |who| format!("{} {}", who.name, who.version));
        Some((who, info.protocol_version.to_string()))
    }

    /// Whether it has tools.
    pub(crate) fn has_tools(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.tools.is_some())
    }

    /// Whether it has resources.
    pub(crate) fn has_resources(&self) -> bool {
        self.peer.peer_info().is_some_and(|info| info.capabilities.resources.is_some())
    }

    /// Woken when its tools are other ones.
    pub(crate) fn tools_changed(&self) -> Arc<Notify> {
        Arc::clone(&self.listener.tools_changed)
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Unavailable`] when the server is gone; then it did not get the request.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Result<Asked, Unavailable> {
        let request = ClientRequest::CustomRequest(CustomRequest::new(method, Some(params)));
        let sent = self.peer.send_cancellable_request(request, PeerRequestOptions::no_options());
        Ok(Asked::new(sent.await.map_err(unavailable)?, self.listener.clone()))
    }

    /// Whether something can be said to the server.
    pub(crate) fn is_open(&self) -> bool {
        !self.peer.is_transport_closed()
    }

    /// Waits until nothing can be said to the server any more, whoever brings that about.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&self) {
        let process = async {
            match &self.process {
                Some(process) => process.ended().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = self.over.cancelled() => {}
            () = process => {}
        }
    }

    /// Ends the server: nothing more is said to it, then it is told to, then it is made to. Says how it
    /// had ended, should that have been by itself.
    ///
    /// # Cancel safety
    /// When it is dropped, the server is made to end without waiting.
    pub(crate) async fn close(&self) -> Unavailable {
        let why = match self.over.is_cancelled() {
            true => "it ended the conversation",
            false => "it was ended",
        };
        self.closing.cancel();
        // Its wire closes with it: a program has no more input, a remote one is told goodbye.
        if let Some(conversation) = self.conversation.lock().await.take() {
            tokio::select! {
                _ = conversation => {}
                () = self.clock.sleep(POLITE_LIMIT) => {}
            }
        }
        match &self.process {
            Some(process) => {
                explained(Unavailable::end(why), process.end(POLITE_LIMIT, &self.clock).await)
            }
            None => Unavailable::new(why),
        }
    }
}

type Service = RunningService<RoleClient, Listener>;

/// Waits until a server has introduced itself, but not for ever.
async fn introduced(
    serving: impl Future<Output = Result<Service, ClientInitializeError>>,
    config: &ServerConfig,
    host: &Host,
    token: &CancellationToken,
) -> Result<Service, Unavailable> {
    let limit = config.start_limit;
    tokio::select! {
        biased;
        () = token.cancelled() => Err(Unavailable::cancelled()),
        serving = serving => serving.map_err(|error| match error {
            ClientInitializeError::JsonRpcError(error) => match Fault::of(&error) {
                Some(Fault::LogIn) => {
                    Unavailable { remedy: Remedy::LogIn, ..Unavailable::new(error.message) }
                }
                Some(Fault::Forbidden) => Unavailable::misconfigured(error.message),
                Some(_) => Unavailable::new(error.message),
                None => Unavailable::new(format!("it refused: {} ({})", error.message, error.code.0)),
            },
            error => Unavailable::end(error.to_string()),
        }),
        () = host.clock.sleep(limit) => {
            Err(Unavailable::new(format!("it did not answer within {} s", limit.as_secs_f64())))
        }
    }
}

/// Keeps the conversation going until it ends or is to.
async fn converse(service: Service, closing: CancellationToken, over: CancellationToken) {
    let end = service.cancellation_token();
    let ended = service.waiting();
    tokio::pin!(ended);
    tokio::select! {
        _ = &mut ended => {}
        () = closing.cancelled() => {
            end.cancel();
            // It would only be its panic.
            ended.await.ok();
        }
    }
    over.cancel();
}

fn unavailable(error: impl std::fmt::Display) -> Unavailable {
    Unavailable::new(error.to_string())
}
