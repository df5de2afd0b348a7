//! The actor of one open session: it takes the client's commands in the order in which they came
//! and alone talks to the session's agent.
//!
//! A busy turn never blocks it: prompts are queued at the agent, and their answers leave through
//! the outbox. It ends when the session is closed and no command waits for it.

mod live;

use std::sync::Arc;

use agent_client_protocol::Error;
use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{
    CloseSessionResponse, LoadSessionRequest, LoadSessionResponse, NewSessionRequest,
    NewSessionResponse, PromptRequest, PromptResponse, SessionConfigOptionValue,
    SetSessionConfigOptionRequest, SetSessionConfigOptionResponse, SetSessionModeRequest,
    SetSessionModeResponse,
};
use bridle_session::{Content, MessageId, SessionId};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use self::live::Live;
pub(super) use self::live::blocking;
use super::commands::{self, LocalCommand};
use super::handlers::{Server, SetModelRequest, SetModelResponse};
use super::link::Link;
use super::outbox::{Control, answer};
use super::{errors, from_acp, options};

/// What a client wants of one session.
#[derive(Debug)]
pub(super) enum Command {
    Load(Box<Load>),
    Prompt(PromptRequest, Responder<PromptResponse>),
    Cancel,
    SetMode(SetSessionModeRequest, Responder<SetSessionModeResponse>),
    SetOption(SetSessionConfigOptionRequest, Responder<SetSessionConfigOptionResponse>),
    SetModel(SetModelRequest, Responder<SetModelResponse>),
    Close(Responder<CloseSessionResponse>),
}

/// A session to be loaded.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) request: LoadSessionRequest,
    pub(super) responder: Responder<LoadSessionResponse>,
    pub(super) link: Link,
}

impl Command {
    /// Answers the command with an error.
    pub(super) fn refuse(self, error: &Error) {
        let error = error.clone();
        match self {
            Self::Load(load) => answer(load.responder.respond_with_error(error)),
            Self::Prompt(_, responder) => answer(responder.respond_with_error(error)),
            Self::Cancel => {}
            Self::SetMode(_, responder) => answer(responder.respond_with_error(error)),
            Self::SetOption(_, responder) => answer(responder.respond_with_error(error)),
            Self::SetModel(_, responder) => answer(responder.respond_with_error(error)),
            Self::Close(responder) => answer(responder.respond_with_error(error)),
        }
    }
}

/// Creates a session, answers, and runs its actor to the end.
pub(super) async fn create(
    server: Arc<Server>,
    link: Link,
    request: NewSessionRequest,
    responder: Responder<NewSessionResponse>,
) {
    match Live::create(&server, link, request).await {
        Err(error) => answer(responder.respond_with_error(error)),
        Ok((live, opening)) => {
            let id = live.id().clone();
            // Before the answer, so that the id works as soon as the client knows it.
            let mailbox = server.sessions.register(&id);
            answer(
                responder.respond(
                    NewSessionResponse::new(id.as_str().to_owned())
                        .modes(options::modes(&server.app, &opening.chosen))
                        .config_options(options::all(&server.app, &opening.chosen)),
                ),
            );
            let live = live.announce(opening).await;
            Actor { server, id, mailbox, live: Some(live) }.run().await;
        }
    }
}

/// Runs the actor of a session that is not open yet; its first command loads it.
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
            live.close().await;
        }
    }

    async fn take(&mut self, command: Command) {
        if let Command::Load(load) = command {
            return self.load(*load).await;
        }
        let Some(live) = &self.live else {
            return command.refuse(&errors::session_not_found(self.id.as_str()));
        };
        match command {
            // Taken above.
            Command::Load(_) => {}
            Command::Prompt(request, responder) => self.prompt(live, request, responder).await,
            Command::Cancel => live.handle.cancel(),
            Command::SetMode(request, responder) => {
                let set = set_mode(&self.server, live, &request.mode_id.0).await;
                answer(responder.respond_with_result(set.map(|()| SetSessionModeResponse::new())));
            }
            Command::SetModel(request, responder) => {
                let set = set_model(&self.server, live, &request.model_id).await;
                answer(responder.respond_with_result(set.map(|()| SetModelResponse {})));
            }
            Command::SetOption(request, responder) => {
                answer(
                    responder.respond_with_result(set_option(&self.server, live, request).await),
                );
            }
            Command::Close(responder) => {
                if let Some(live) = self.live.take() {
                    live.close().await;
                }
                answer(responder.respond(CloseSessionResponse::new()));
            }
        }
    }

    /// A session that is open already is closed first, so that a client which lost track of its
    /// session gets it back.
    async fn load(&mut self, load: Load) {
        let Load { request, responder, link } = load;
        if let Some(live) = self.live.take() {
            live.close().await;
        }
        match Live::load(&self.server, link, &self.id, request).await {
            Err(error) => answer(responder.respond_with_error(error)),
            Ok((live, opening)) => {
                answer(
                    responder.respond(
                        LoadSessionResponse::new()
                            .modes(options::modes(&self.server.app, &opening.chosen))
                            .config_options(options::all(&self.server.app, &opening.chosen)),
                    ),
                );
                self.live = Some(live.announce(opening).await);
            }
        }
    }

    async fn prompt(
        &self,
        live: &Live,
        request: PromptRequest,
        responder: Responder<PromptResponse>,
    ) {
        let content = match from_acp::content(request.prompt) {
            Ok(content) => content,
            Err(error) => return answer(responder.respond_with_error(error)),
        };
        match LocalCommand::parse(&content) {
            Some(command) => self.answer_locally(live, command, responder).await,
            None => self.start_turn(live, content, responder),
        }
    }

    fn start_turn(&self, live: &Live, content: Vec<Content>, responder: Responder<PromptResponse>) {
        let id = MessageId::new(uuid::Uuid::now_v7().to_string());
        let answered = CancellationToken::new();
        // `$/cancel_request` for a prompt cancels the turn, as `session/cancel` would.
        let withdrawn = responder.cancellation();
        let (handle, watched) = (live.handle.clone(), answered.clone());
        drop(self.server.tasks.spawn(async move {
            tokio::select! {
                () = withdrawn.cancelled() => handle.cancel(),
                () = watched.cancelled() => {}
            }
        }));
        live.turns.open(id.clone(), responder, answered.drop_guard());
        if live.handle.prompt(id.clone(), content).is_err()
            && let Some(responder) = live.turns.take(&id)
        {
            let error = errors::internal("the session has ended; open it again");
            answer(responder.respond_with_error(error));
        }
    }

    async fn answer_locally(
        &self,
        live: &Live,
        command: LocalCommand,
        responder: Responder<PromptResponse>,
    ) {
        let text = match command {
            LocalCommand::Help => commands::help(),
            LocalCommand::Status => match live.handle.status().await {
                Ok(status) => {
                    let problems = self.server.app.settings().problems.clone();
                    commands::status(self.id.as_str(), &live.cwd, &status, &problems)
                }
                Err(gone) => {
                    let error = errors::internal(&gone.to_string());
                    return answer(responder.respond_with_error(error));
                }
            },
        };
        if let Err(refused) =
            live.control.try_send(Control::Local { text, responder: Box::new(responder) })
            && let Control::Local { responder, .. } = refused.into_inner()
        {
            let error = errors::internal("too many answers wait for the client");
            answer(responder.respond_with_error(error));
        }
    }
}

async fn set_mode(server: &Server, live: &Live, id: &str) -> Result<(), Error> {
    let mode = options::mode(&server.app, id)
        .ok_or_else(|| errors::invalid_params("this mode is not among the session's modes"))?;
    live.handle.set_mode(mode).await.map_err(|gone| errors::internal(&gone.to_string()))
}

async fn set_model(server: &Server, live: &Live, id: &str) -> Result<(), Error> {
    let route = options::model(&server.app, id)
        .ok_or_else(|| errors::invalid_params("this model is not among the session's models"))?;
    live.handle.set_route(route).await.map_err(|gone| errors::internal(&gone.to_string()))
}

async fn set_option(
    server: &Server,
    live: &Live,
    request: SetSessionConfigOptionRequest,
) -> Result<SetSessionConfigOptionResponse, Error> {
    let SessionConfigOptionValue::ValueId { value } = &request.value else {
        return Err(errors::invalid_params("every option here is chosen by the id of a value"));
    };
    match &*request.config_id.0 {
        options::MODE => set_mode(server, live, &value.0).await?,
        options::MODEL => set_model(server, live, &value.0).await?,
        _ => return Err(errors::invalid_params("there is no option with this `configId`")),
    }
    let chosen = live.chosen().await?;
    Ok(SetSessionConfigOptionResponse::new(options::all(&server.app, &chosen)))
}
