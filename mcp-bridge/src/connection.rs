//! One life of a server: started, initialised, asked, ended.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bridle_compose::{Clock, TaskSet};
use bridle_world::process::{Capture, Finished, ProcessError, Processes, Running, ServerSpec};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, ClientRequest, CustomRequest, Implementation,
    ProgressNotificationParam, ProgressToken, ProtocolVersion, ServerResult,
};
use rmcp::service::{
    NotificationContext, PeerRequestOptions, RequestHandle, RoleClient, RunningService,
    ServiceError, serve_client,
};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::config::{Reach, ServerConfig};
use crate::pipes::Pipes;

/// How long a server may take to end once nothing more is said to it.
const POLITE_LIMIT: Duration = Duration::from_millis(200);

/// How much of what a server wrote to its standard error a failure tells, in bytes.
const TOLD_TAIL: usize = 2_000;

/// Where servers are started.
#[derive(Clone)]
pub(crate) struct Host {
    pub(crate) processes: Arc<Processes>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) tasks: TaskSet,
    /// The session's folder.
    pub(crate) cwd: std::path::PathBuf,
}

/// A server that answers.
pub(crate) struct Connection {
    service: RunningService<RoleClient, Listener>,
    listener: Listener,
    process: Process,
    clock: Arc<dyn Clock>,
}

/// The process of a server.
struct Process {
    /// Orders its end.
    token: CancellationToken,
    /// What it wrote to its standard error.
    errors: Arc<Mutex<Capture>>,
    /// `None` once it was waited for.
    follower: Mutex<Option<JoinHandle<Result<Finished, ProcessError>>>>,
    /// Cancelled when it has ended.
    ended: CancellationToken,
}

/// Hears what a server says without being asked.
#[derive(Clone, Default)]
pub(crate) struct Listener {
    calls: Arc<Mutex<HashMap<ProgressToken, watch::Sender<Sign>>>>,
    /// Woken when the tools are other ones.
    pub(crate) tools_changed: Arc<Notify>,
}

/// A sign of life of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sign {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

/// Why a server cannot be spoken with, for a person.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Unavailable(pub(crate) String);

/// A request that is under way.
pub(crate) struct Asked {
    handle: RequestHandle<RoleClient>,
    pub(crate) signs: watch::Receiver<Sign>,
    listener: Listener,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What the server answered.
    Result(Value),
    /// It refused: a message for the model.
    Refused(String),
    /// It is gone, and nobody knows what it did.
    Lost,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("bridle", env!("CARGO_PKG_VERSION"));
        // The newest version that begins with `initialize`.
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn on_progress(
        &self,
        sign: ProgressNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        if let Some(call) = self.calls().get(&sign.progress_token) {
            // Each notification has a task of its own, so an older one may come late.
            call.send_if_modified(|now| {
                let newer = sign.progress > now.progress || now.message.is_none();
                if newer {
                    *now = Sign {
                        progress: sign.progress,
                        total: sign.total,
                        message: sign.message.clone(),
                    };
                }
                newer
            });
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}

impl Listener {
    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, watch::Sender<Sign>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connection {
    /// Starts the server and waits until it has introduced itself. When it does not in time, or cannot
    /// be understood, nothing is left of it.
    ///
    /// # Errors
    /// [`Unavailable`], with the end of what it wrote to its standard error.
    pub(crate) async fn open(
        config: &ServerConfig,
        host: &Host,
        token: &CancellationToken,
    ) -> Result<Self, Unavailable> {
        let Reach::Stdio { program, arguments, environment } = &config.reach;
        let pairs = environment.iter().map(|(name, value)| (name.into(), value.into()));
        let spec = ServerSpec {
            program: program.into(),
            arguments: arguments.iter().map(Into::into).collect(),
            environment: pairs.collect(),
            cwd: host.cwd.clone(),
            confinement: None,
        };
        let started = host.processes.server(spec, token).await.map_err(unavailable)?;
        let (running, dialogue) = started.ok_or_else(cancelled)?;
        let process = Process::follow(running, host);
        let listener = Listener::default();
        let pipes = Pipes::new(config.name.as_str().into(), dialogue);
        let serving = tokio::select! {
            biased;
            () = token.cancelled() => Err(cancelled()),
            serving = serve_client(listener.clone(), pipes) => serving.map_err(|error| Unavailable(error.to_string())),
            () = host.clock.sleep(config.start_limit) => {
                let limit = config.start_limit.as_secs_f64();
                Err(Unavailable(format!("it did not answer within {limit} s")))
            }
        };
        let clock = Arc::clone(&host.clock);
        let service = match serving {
            Ok(service) => service,
            Err(why) => return Err(process.end(&clock).await.explain(why)),
        };
        let connection = Self { service, listener, process, clock };
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
        let version = self.service.peer_info().map(|info| info.protocol_version.clone());
        let version = version.ok_or_else(|| Unavailable("it did not say who it is".to_owned()))?;
        let known = ProtocolVersion::KNOWN_VERSIONS;
        if known.contains(&version) && version.has_initialize() {
            return Ok(());
        }
        Err(Unavailable(format!("it speaks version {version} of the protocol, which is not known")))
    }

    /// What the server says about its own use.
    pub(crate) fn instructions(&self) -> Option<String> {
        self.service.peer_info()?.instructions.clone()
    }

    /// Whether it has tools.
    pub(crate) fn has_tools(&self) -> bool {
        self.service.peer_info().is_some_and(|info| info.capabilities.tools.is_some())
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
        let sent = self.service.send_cancellable_request(request, PeerRequestOptions::no_options());
        let handle = sent.await.map_err(unavailable)?;
        let (sender, signs) = watch::channel(Sign::default());
        self.listener.calls().insert(handle.progress_token.clone(), sender);
        Ok(Asked { handle, signs, listener: self.listener.clone() })
    }

    /// Waits for the end of the server, whoever brings it about.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn ended(&self) {
        self.process.ended.cancelled().await;
    }

    /// Ends the server: nothing more is said to it, then it is told to, then it is made to. Says how it
    /// had ended, should that have been by itself.
    ///
    /// # Cancel safety
    /// When it is dropped, the server is made to end without waiting.
    pub(crate) async fn close(&self) -> Unavailable {
        // Its transport closes with it, and with that the server's input.
        self.service.cancellation_token().cancel();
        self.process.end(&self.clock).await.explain(Unavailable("it was ended".to_owned()))
    }

    /// Whether the server has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.process.ended.is_cancelled()
    }
}

impl Process {
    fn follow(running: Running, host: &Host) -> Self {
        let token = CancellationToken::new();
        let (errors, ended) = (Arc::<Mutex<Capture>>::default(), CancellationToken::new());
        let (order, over, shown) = (token.clone(), ended.clone(), Arc::clone(&errors));
        let follower = host.tasks.spawn(async move {
            let finished = running
                .finish(order, |output| {
                    *shown.lock().unwrap_or_else(PoisonError::into_inner) = output.clone();
                })
                .await;
            over.cancel();
            finished
        });
        Self { token, errors, follower: Mutex::new(Some(follower)), ended }
    }

    /// Waits for its end for a moment, and then sees to it.
    async fn end(&self, clock: &Arc<dyn Clock>) -> End {
        tokio::select! {
            () = self.ended.cancelled() => {}
            () = clock.sleep(POLITE_LIMIT) => {}
        }
        let by_itself = self.ended.is_cancelled();
        self.token.cancel();
        let follower = self.follower.lock().unwrap_or_else(PoisonError::into_inner).take();
        let finished = match follower {
            Some(follower) => follower.await.ok(),
            None => None,
        };
        let errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        End {
            errors: tail(&errors),
            how: match finished {
                Some(Ok(finished)) if by_itself => Some(how(&finished)),
                Some(Err(error)) => Some(error.to_string()),
                Some(Ok(_)) | None => None,
            },
        }
    }
}

/// How a server ended.
struct End {
    /// The end of what it wrote to its standard error.
    errors: String,
    /// `None` when it was ended.
    how: Option<String>,
}

impl End {
    /// The whole reason, for a person.
    fn explain(self, why: Unavailable) -> Unavailable {
        let mut text = self.how.unwrap_or(why.0);
        if !self.errors.is_empty() {
            text = format!("{text}; it wrote: {}", self.errors);
        }
        Unavailable(text)
    }
}

fn how(finished: &Finished) -> String {
    match (finished.exit_code, finished.signal) {
        (Some(code), _) => format!("it exited with code {code}"),
        (None, Some(signal)) => format!("signal {signal} ended it"),
        (None, None) => "it has ended".to_owned(),
    }
}

fn tail(errors: &Capture) -> String {
    let text = errors.text(str::to_owned);
    let start = text.ceil_char_boundary(text.len().saturating_sub(TOLD_TAIL));
    text.get(start..).unwrap_or_default().trim().to_owned()
}

fn unavailable(error: impl std::fmt::Display) -> Unavailable {
    Unavailable(error.to_string())
}

fn cancelled() -> Unavailable {
    Unavailable("cancelled".to_owned())
}

impl Asked {
    /// Waits for the answer.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn reply(&mut self) -> Reply {
        match (&mut self.handle.rx).await {
            Ok(Ok(ServerResult::CustomResult(result))) => Reply::Result(result.0),
            Ok(Ok(typed)) => serde_json::to_value(typed).map_or(Reply::Lost, Reply::Result),
            Ok(Err(ServiceError::McpError(error))) => {
                Reply::Refused(format!("{} ({})", error.message, error.code.0))
            }
            Ok(Err(_)) | Err(_) => Reply::Lost,
        }
    }

    /// Tells the server that nobody waits any more. It may go on all the same.
    pub(crate) async fn withdraw(self, reason: &str) {
        self.listener.calls().remove(&self.handle.progress_token);
        // A server that is gone does not go on.
        self.handle.cancel(Some(reason.to_owned())).await.ok();
    }

    /// The answer has come.
    pub(crate) fn done(self) {
        self.listener.calls().remove(&self.handle.progress_token);
    }
}

impl Sign {
    /// In one line, for a person.
    pub(crate) fn told(&self) -> String {
        let Self { progress, total, message } = self;
        let of = total.map_or_else(String::new, |total| format!(" of {total}"));
        match message {
            Some(message) => format!("{message} ({progress}{of})"),
            None => format!("{progress}{of}"),
        }
    }
}
