//! The methods a client may call. No handler waits: the SDK reads nothing while one runs. What
//! concerns a session goes into its mailbox, in the order of the wire; the rest runs as a task.

use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, AuthMethod, AuthMethodAgent, AuthenticateRequest, AuthenticateResponse,
    CancelNotification, CloseSessionRequest, CloseSessionResponse, DeleteSessionRequest,
    DeleteSessionResponse, Implementation, InitializeRequest, InitializeResponse,
    ListSessionsRequest, ListSessionsResponse, LoadSessionRequest, LoadSessionResponse,
    NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptRequest, ResumeSessionRequest,
    ResumeSessionResponse, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionId as WireId, SessionListCapabilities,
    SessionResumeCapabilities, SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcRequest, JsonRpcResponse, Lines,
    on_receive_notification, on_receive_request,
};
use bridle_compose::{Clock, TaskSet};
use bridle_session::SessionId;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;

use super::credit::Credits;
use super::link::{Link, Shows};
use super::outbox::answer;
use super::session::{self, Command, Reopen, blocking};
use super::sessions::Sessions;
use super::steering::{self, SteeringRequest};
use super::{errors, list};
use crate::composition::App;

/// The id of the one way to authenticate.
const AUTH_METHOD: &str = "configured-key";

/// What one connection works with.
pub(super) struct Server {
    pub(super) app: Arc<App>,
    pub(super) sessions: Sessions,
    /// Everything that runs for this connection; closing it closes the sessions.
    pub(super) tasks: TaskSet,
    pub(super) credits: Arc<Credits>,
    /// Measures how long a client that has left may take to read the rest, and how long pieces of
    /// a message wait for each other.
    pub(super) clock: Arc<dyn Clock>,
    /// Cancelled when nothing can reach the client any more.
    pub(super) gone: CancellationToken,
    /// Cancelled when the client's input has ended.
    pub(super) input_ended: CancellationToken,
    /// What the client said that it can show.
    shows: Mutex<Shows>,
}

/// The older way to choose a model, which some clients still use.
#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcRequest)]
#[serde(rename_all = "camelCase")]
#[request(method = "session/set_model", response = SetModelResponse)]
pub(super) struct SetModelRequest {
    session_id: WireId,
    pub(super) model_id: String,
}

/// The model was chosen.
#[derive(Clone, Debug, Serialize, Deserialize, JsonRpcResponse)]
pub(super) struct SetModelResponse {}

impl Server {
    pub(super) fn new(app: Arc<App>, clock: Arc<dyn Clock>) -> Self {
        Self {
            app,
            sessions: Sessions::default(),
            tasks: TaskSet::new(),
            credits: Arc::default(),
            clock,
            gone: CancellationToken::new(),
            input_ended: CancellationToken::new(),
            shows: Mutex::default(),
        }
    }

    fn link(&self, connection: ConnectionTo<Client>) -> Link {
        let shows = *self.shows.lock().unwrap_or_else(PoisonError::into_inner);
        Link::new(connection, self.credits.clone(), self.gone.clone(), shows)
    }

    fn initialize(
        &self,
        request: &InitializeRequest,
        responder: Responder<InitializeResponse>,
    ) -> Result<(), Error> {
        // Presence is support, whatever the object holds.
        let client = &request.client_capabilities;
        let shows = Shows {
            notices: client.session.as_ref().is_some_and(|session| session.notices.is_some()),
            forms: client.elicitation.as_ref().is_some_and(|forms| forms.supports_form()),
        };
        *self.shows.lock().unwrap_or_else(PoisonError::into_inner) = shows;
        responder.respond(initialized())?;
        // A session is what comes next.
        let app = Arc::clone(&self.app);
        drop(tokio::task::spawn_blocking(move || app.store().prepare()));
        Ok(())
    }

    fn authenticate(
        &self,
        request: &AuthenticateRequest,
        responder: Responder<AuthenticateResponse>,
    ) {
        if &*request.method_id.0 != AUTH_METHOD {
            let error = errors::invalid_params("authenticate: there is no such method");
            return answer(responder.respond_with_error(error));
        }
        let app = self.app.clone();
        self.spawn(responder, async move {
            blocking(move || {
                app.reload();
                match app.has_credentials() {
                    true => Ok(AuthenticateResponse::new()),
                    false => Err(errors::auth_required(&app.credentials_hint())),
                }
            })
            .await
        });
    }

    fn list(&self, request: ListSessionsRequest, responder: Responder<ListSessionsResponse>) {
        let app = self.app.clone();
        self.spawn(responder, async move {
            blocking(move || {
                let listing = app.store().list().map_err(|failure| errors::store(&failure))?;
                list::page(listing, request.cwd, request.cursor.as_deref())
            })
            .await
        });
    }

    fn new_session(
        self: &Arc<Self>,
        request: NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        connection: ConnectionTo<Client>,
    ) {
        let link = self.link(connection);
        drop(self.tasks.spawn(session::create(self.clone(), link, request, responder)));
    }

    fn load_session(
        self: &Arc<Self>,
        request: LoadSessionRequest,
        responder: Responder<LoadSessionResponse>,
        connection: ConnectionTo<Client>,
    ) {
        let id = request.session_id.clone();
        let load = Reopen::load(request, responder, self.link(connection));
        self.to_stored(&id, Command::Reopen(Box::new(load)));
    }

    fn resume_session(
        self: &Arc<Self>,
        request: ResumeSessionRequest,
        responder: Responder<ResumeSessionResponse>,
        connection: ConnectionTo<Client>,
    ) {
        let id = request.session_id.clone();
        let resume = Reopen::resume(request, responder, self.link(connection));
        self.to_stored(&id, Command::Reopen(Box::new(resume)));
    }

    fn delete_session(
        self: &Arc<Self>,
        request: &DeleteSessionRequest,
        responder: Responder<DeleteSessionResponse>,
    ) {
        match SessionId::parse(&request.session_id.0) {
            // No session can have this id, and to delete what is not there is no error.
            None => answer(responder.respond(DeleteSessionResponse::new())),
            Some(_) => self.to_stored(&request.session_id, Command::Delete(responder)),
        }
    }

    /// Sends a command to a session that need not be open.
    fn to_stored(self: &Arc<Self>, asked: &WireId, command: Command) {
        let Some(id) = SessionId::parse(&asked.0) else {
            return command.refuse(&errors::no_such_session(&asked.0));
        };
        if let Some(command) = self.sessions.deliver(&asked.0, command) {
            let mailbox = self.sessions.register(&id);
            self.sessions.send(&asked.0, command);
            drop(self.tasks.spawn(session::attend(self.clone(), id, mailbox)));
        }
    }

    fn cancel(&self, request: &CancelNotification) -> Result<(), Error> {
        self.sessions.send(&request.session_id.0, Command::Cancel);
        Ok(())
    }

    fn close_session(
        &self,
        request: &CloseSessionRequest,
        responder: Responder<CloseSessionResponse>,
    ) {
        self.sessions.send(&request.session_id.0, Command::Close(responder));
    }

    /// The input has ended. The transport still works here, so the prompts that this cancels are
    /// answered.
    async fn close(&self) -> Result<(), Error> {
        self.input_ended.cancel();
        self.tasks.close().await;
        Ok(())
    }

    fn spawn<T: JsonRpcResponse>(
        &self,
        responder: Responder<T>,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) {
        drop(self.tasks.spawn(async move {
            answer(responder.respond_with_result(work.await));
        }));
    }
}

/// The answer to `initialize`: the same for every client, since it needs nothing but the program.
fn initialized() -> InitializeResponse {
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .close(SessionCloseCapabilities::new());
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .session_capabilities(session);
    let method = AuthMethodAgent::new(AUTH_METHOD, "Use the configured key")
        .description("Reads the keys again from the environment and from config.toml");
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(vec![AuthMethod::Agent(method)])
        .meta(steering::capability())
        .agent_info(Implementation::new("bridle", env!("CARGO_PKG_VERSION")).title("Bridle"))
}

/// Serves one client over the transport until its input ends or the transport fails.
pub(super) async fn serve<Outgoing, Incoming>(
    server: Arc<Server>,
    transport: Lines<Outgoing, Incoming>,
) -> Result<(), Error>
where
    Lines<Outgoing, Incoming>: ConnectTo<Agent> + 'static,
{
    // Each handler owns a copy of the server and has a body that does not wait.
    macro_rules! on {
        (|$server:ident, $request:ident: $Request:ty, $responder:ident, $connection:pat_param| $body:expr) => {{
            let $server = server.clone();
            async move |$request: $Request, $responder: Responder<_>, $connection| {
                $body;
                Ok(())
            }
        }};
    }
    macro_rules! opens {
        ($Request:ty, $open:ident) => {
            on!(|s, request: $Request, responder, cx| s.$open(request, responder, cx))
        };
    }
    macro_rules! to_session {
        ($Request:ty, $Command:path) => {
            on!(|server, request: $Request, responder, _| {
                let id = request.session_id.clone();
                server.sessions.send(&id.0, $Command(request, responder));
            })
        };
    }
    let (cancelling, closing) = (server.clone(), server.clone());
    Agent
        .v1()
        .name("bridle")
        .on_receive_request(
            on!(|s, r: InitializeRequest, responder, _| s.initialize(&r, responder)?),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(|s, r: AuthenticateRequest, responder, _| s.authenticate(&r, responder)),
            on_receive_request!(),
        )
        .on_receive_request(opens!(NewSessionRequest, new_session), on_receive_request!())
        .on_receive_request(opens!(LoadSessionRequest, load_session), on_receive_request!())
        .on_receive_request(opens!(ResumeSessionRequest, resume_session), on_receive_request!())
        .on_receive_request(
            on!(|s, r: DeleteSessionRequest, responder, _| s.delete_session(&r, responder)),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(|s, r: ListSessionsRequest, responder, _| s.list(r, responder)),
            on_receive_request!(),
        )
        .on_receive_request(
            on!(|s, r: CloseSessionRequest, responder, _| s.close_session(&r, responder)),
            on_receive_request!(),
        )
        .on_receive_request(to_session!(PromptRequest, Command::Prompt), on_receive_request!())
        .on_receive_request(to_session!(SteeringRequest, Command::Steer), on_receive_request!())
        .on_receive_request(
            to_session!(SetSessionModeRequest, Command::SetMode),
            on_receive_request!(),
        )
        .on_receive_request(
            to_session!(SetSessionConfigOptionRequest, Command::SetOption),
            on_receive_request!(),
        )
        .on_receive_request(to_session!(SetModelRequest, Command::SetModel), on_receive_request!())
        .on_receive_notification(
            async move |r: CancelNotification, _| cancelling.cancel(&r),
            on_receive_notification!(),
        )
        .on_close(async move |_| closing.close().await)
        .connect_to(transport)
        .await
}
