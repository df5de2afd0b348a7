//! The actor of one open session: it takes the client's commands in the order in which they came
//! and alone talks to the session's agent.
//!
//! A busy turn never blocks it: prompts are queued at the agent, and their answers leave through
//! the outbox. It ends when the session is closed and no command waits for it.

mod fork;
mod live;
mod reopen;

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, DeleteSessionResponse, ForkSessionRequest, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, SessionConfigOptionValue,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse, StopReason,
};
use bridle_agent::{AgentGone, AgentHandle, Mode};
use bridle_session::{MessageId, SessionId};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::live::{Live, Opening};
pub(super) use self::live::{blocking, show};
pub(super) use self::reopen::{Reopen, Wanted};
use super::clients::ClientTraits;
use super::commands::{self, LocalCommand};
use super::handlers::{Server, SetModelRequest, SetModelResponse};
use super::link::Link;
use super::outbox::answer;
use super::steering::{self, Steering, SteeringRequest, SteeringResponse, WhenIdle};
use super::turns::Work;
use super::{errors, from_acp, opening, options};
use crate::composition::App;

/// What a client wants of one session.
#[derive(Debug)]
pub(super) enum Command {
    Reopen(Box<Reopen>),
    Prompt(PromptRequest, Responder<PromptResponse>),
    Steer(SteeringRequest, Responder<SteeringResponse>),
    Cancel,
    SetMode(SetSessionModeRequest, Responder<SetSessionModeResponse>),
    SetOption(SetSessionConfigOptionRequest, Responder<SetSessionConfigOptionResponse>),
    SetModel(SetModelRequest, Responder<SetModelResponse>),
    Close(Responder<CloseSessionResponse>),
    Delete(Responder<DeleteSessionResponse>),
}

impl Command {
    /// Answers the command with an error.
    pub(super) fn refuse(self, error: &Error) {
        let error = error.clone();
        match self {
            Self::Reopen(reopen) => reopen.wanted.refuse(error),
            Self::Prompt(_, responder) => answer(responder.respond_with_error(error)),
            Self::Steer(_, responder) => answer(responder.respond_with_error(error)),
            Self::Cancel => {}
            Self::SetMode(_, responder) => answer(responder.respond_with_error(error)),
            Self::SetOption(_, responder) => answer(responder.respond_with_error(error)),
            Self::SetModel(_, responder) => answer(responder.respond_with_error(error)),
            Self::Close(responder) => answer(responder.respond_with_error(error)),
            Self::Delete(responder) => answer(responder.respond_with_error(error)),
        }
    }
}

/// Creates a session, answers, and runs its actor to the end.
pub(super) async fn create(
    server: Arc<Server>,
    link: Link,
    request: NewSessionRequest,
    responder: Responder<Value>,
) {
    let client = link.client;
    let opened = Live::create(&server, link, request).await;
    run(server, client, opened, responder).await;
}

/// As [`create`], for a session that begins with what another one has.
pub(super) async fn fork(
    server: Arc<Server>,
    link: Link,
    request: ForkSessionRequest,
    responder: Responder<Value>,
) {
    let client = link.client;
    let opened = Live::fork(&server, link, request).await;
    run(server, client, opened, responder).await;
}

async fn run(
    server: Arc<Server>,
    client: ClientTraits,
    opened: Result<(Live, Opening), Error>,
    responder: Responder<Value>,
) {
    match opened {
        Err(error) => answer(responder.respond_with_error(error)),
        Ok((live, started)) if responder.cancellation().is_cancelled() => {
            drop(started);
            live.discard().await;
            answer(responder.respond_with_error(errors::request_cancelled()));
        }
        Ok((live, started)) => {
            let id = live.id().clone();
            // Before the answer, so that the id works as soon as the client knows it.
            let mailbox = server.sessions.register(&id);
            // That of a fork has the same members.
            let response = NewSessionResponse::new(id.as_str().to_owned())
                .modes(options::modes(&server.app, &started.chosen))
                .config_options(options::all(&server.app, &started.chosen));
            let about = (&*server.app, &started.chosen, client);
            answer(opening::respond(responder, id.as_str(), response, about));
            let live = live.announce(started).await;
            Actor { server, id, mailbox, live: Some(live) }.run().await;
        }
    }
}

/// Runs the actor of a session that is not open; its first command opens or deletes it.
pub(super) async fn attend(server: Arc<Server>, id: SessionId, mailbox: mpsc::Receiver<Command>) {
    Actor { server, id, mailbox, live: None }.run().await;
}

struct Actor {
    server: Arc<Server>,
    id: SessionId,
    mailbox: mpsc::Receiver<Command>,
    /// `None` before a load and after a close.
    live: Option<Live>,
}

impl Actor {
    async fn run(mut self) {
        let shutdown = self.server.tasks.token().clone();
        loop {
            if self.live.is_none() && self.server.sessions.retire(&self.id, &self.mailbox) {
                return;
            }
            let command = tokio::select! {
                biased;
                () = shutdown.cancelled() => break,
                command = self.mailbox.recv() => command,
            };
            let Some(command) = command else { break };
            self.take(command).await;
        }
        if let Some(live) = self.live.take() {
            drop(live.close().await);
        }
    }

    async fn take(&mut self, command: Command) {
        let command = match command {
            Command::Reopen(reopen) => return self.reopen(*reopen).await,
            Command::Delete(responder) => return self.delete(responder).await,
            command => command,
        };
        let Some(live) = &self.live else {
            return command.refuse(&errors::session_not_open(self.id.as_str()));
        };
        let (app, agent) = (self.server.app.clone(), live.agent().clone());
        let ceiling = live.ceiling();
        match command {
            // Taken above.
            Command::Reopen(_) | Command::Delete(_) => {}
            Command::Prompt(request, responder) => self.prompt(live, request, responder).await,
            Command::Steer(request, responder) => self.steer(live, request, responder).await,
            Command::Cancel => {
                live.turns.cancel();
                agent.cancel();
            }
            Command::SetMode(request, responder) => {
                self.begin(async move {
                    let set = set_mode(&app, &agent, ceiling, &request.mode_id.0).await;
                    answer(responder.respond_with_result(set.map(|()| Default::default())));
                })
                .await;
            }
            Command::SetModel(request, responder) => {
                self.begin(async move {
                    let set = set_model(&app, &agent, &request.model_id).await;
                    answer(responder.respond_with_result(set.map(|()| SetModelResponse {})));
                })
                .await;
            }
            Command::SetOption(request, responder) => {
                self.begin(async move {
                    let options = set_option(&app, &agent, ceiling, request).await;
                    answer(responder.respond_with_result(options));
                })
                .await;
            }
            Command::Close(responder) => {
                let failures = match self.live.take() {
                    Some(live) => live.close().await,
                    None => Vec::new(),
                };
                let closed = match failures.as_slice() {
                    [] => Ok(CloseSessionResponse::new()),
                    failures => Err(errors::not_closed_in_order(failures)),
                };
                answer(responder.respond_with_result(closed));
            }
        }
    }

    /// Starts a call to the agent here, so that calls reach it in their order, and leaves the
    /// waiting to a task, so that a cancel behind it need not wait.
    async fn begin(&self, call: impl Future<Output = ()> + Send + 'static) {
        let mut call = Box::pin(call);
        if futures::poll!(&mut call).is_pending() {
            drop(self.server.tasks.spawn(call));
        }
    }

    /// A session that is open here is closed first. To delete what is not there is no error.
    async fn delete(&mut self, responder: Responder<DeleteSessionResponse>) {
        if let Some(live) = self.live.take() {
            drop(live.close().await);
        }
        let deleted = live::remove(&self.server.app, &self.id).await;
        answer(responder.respond_with_result(deleted.map(|()| DeleteSessionResponse::new())));
    }

    async fn prompt(
        &self,
        live: &Live,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
    ) {
        let blobs = self.server.app.blobs();
        let content = match from_acp::content("session/prompt", request.prompt, blobs).await {
            Ok(content) => content,
            Err(error) => return answer(responder.respond_with_error(error)),
        };
        let id = new_id();
        if let Some(command) = LocalCommand::parse(&content) {
            return self.open(live, &id, Work::Local(command), responder);
        }
        self.open(live, &id, Work::Turn, responder);
        let taken = match commands::compact(&content) {
            Some(focus) => live.agent().compact(id.clone(), focus),
            None => live.agent().prompt(id.clone(), content),
        };
        if let Err(gone) = taken
            && let Some(responder) = live.turns.take(&id)
        {
            answer(responder.respond_with_error(errors::agent_gone(gone)));
        }
    }

    /// Hands a message to the running turn. Whether one takes it is the agent's to say, except when
    /// nothing runs that a client knows of: then it is a turn of its own, and said so at once.
    async fn steer(
        &self,
        live: &Live,
        request: SteeringRequest,
        responder: Responder<SteeringResponse>,
    ) {
        let when_idle = request.when_idle();
        let blobs = self.server.app.blobs();
        let content = match from_acp::content(steering::METHOD, request.prompt, blobs).await {
            Ok(content) => content,
            Err(error) => return answer(responder.respond_with_error(error)),
        };
        if live.is_deaf() {
            return answer(responder.respond_with_error(errors::agent_gone(AgentGone::Closed)));
        }
        let (id, answered) = (new_id(), CancellationToken::new());
        self.watch_steering(live, &id, &responder, answered.clone());
        let begins = when_idle == WhenIdle::StartTurn && !live.turns.is_busy();
        let (responder, _answered) = (Some(responder), answered.drop_guard());
        let steering = Steering { responder, is_cancelled: false, _answered };
        live.turns.steerings(|all| all.open(id.clone(), steering));
        let taken = match when_idle {
            WhenIdle::StartTurn => live.agent().steer(id.clone(), content),
            WhenIdle::GiveBack => live.agent().join(id.clone(), content),
        };
        match taken {
            Err(gone) => live.turns.steerings(|all| all.refuse(&id, errors::agent_gone(gone))),
            Ok(()) if begins => live.turns.steerings(|all| all.began(&id)),
            Ok(()) => {}
        }
    }

    /// A withdrawn message leaves the queue; in a turn that has taken it up it stays.
    fn watch_steering(
        &self,
        live: &Live,
        id: &MessageId,
        responder: &Responder<SteeringResponse>,
        answered: CancellationToken,
    ) {
        let (turns, agent, id) = (live.turns.clone(), live.agent().clone(), id.clone());
        let withdrawn = responder.cancellation();
        drop(self.server.tasks.spawn(async move {
            tokio::select! {
                () = withdrawn.cancelled() => {
                    turns.steerings(|all| all.cancel_one(&id));
                    agent.withdraw(&id);
                }
                () = answered.cancelled() => {}
            }
        }));
    }

    /// Notes a prompt as waiting, and watches for its withdrawal, which ends this prompt and no
    /// other.
    fn open(&self, live: &Live, id: &MessageId, work: Work, responder: Responder<PromptResponse>) {
        if live.is_deaf() {
            return answer(responder.respond_with_error(errors::agent_gone(AgentGone::Closed)));
        }
        let answered = CancellationToken::new();
        let withdrawn = responder.cancellation();
        let (agent, turns) = (live.agent().clone(), live.turns.clone());
        let (watched, prompt) = (answered.clone(), id.clone());
        drop(self.server.tasks.spawn(async move {
            tokio::select! {
                () = withdrawn.cancelled() => match turns.take_local(&prompt) {
                    Some(responder) => answer(responder.respond(cancelled())),
                    None => agent.withdraw(&prompt),
                },
                () = watched.cancelled() => {}
            }
        }));
        live.turns.open(id.clone(), work, responder, answered.drop_guard());
    }
}

fn new_id() -> MessageId {
    MessageId::new(uuid::Uuid::now_v7().to_string())
}

fn cancelled() -> PromptResponse {
    PromptResponse::new(StopReason::Cancelled)
}

async fn set_mode(app: &App, agent: &AgentHandle, ceiling: Mode, id: &str) -> Result<(), Error> {
    let mode = options::mode(app, ceiling, id)?;
    agent.set_mode(mode).await.map_err(errors::agent_gone)
}

async fn set_model(app: &App, agent: &AgentHandle, id: &str) -> Result<(), Error> {
    let route = options::model(app, id)
        .ok_or_else(|| errors::invalid_params("this model is not among the session's models"))?;
    agent.set_route(route).await.map_err(errors::agent_gone)
}

async fn set_thinking(app: &App, agent: &AgentHandle, id: &str) -> Result<(), Error> {
    let refused =
        || errors::invalid_params("this thinking level is not among those of the session's model");
    let (effort, takers) = options::effort(app, id).ok_or_else(refused)?;
    let set = agent.set_effort(effort, takers).await.map_err(errors::agent_gone)?;
    if set { Ok(()) } else { Err(refused()) }
}

async fn set_option(
    app: &App,
    agent: &AgentHandle,
    ceiling: Mode,
    request: SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(errors::invalid_params("every option here is chosen by the id of a value"));
    };
    match &*request.config_id.0 {
        options::MODE => set_mode(app, agent, ceiling, &value.0).await?,
        options::MODEL => set_model(app, agent, &value.0).await?,
        options::THINKING => set_thinking(app, agent, &value.0).await?,
        _ => return Err(errors::invalid_params("there is no option with this `configId`")),
    }
    let chosen = live::chosen(agent, ceiling).await?;
    Ok(SetSessionConfigOptionResponse::new(options::all(app, &chosen)))
}
