//! The methods a client may call. No handler waits: the SDK reads nothing while one runs. What
//! concerns a session goes into its mailbox, in the order of the wire; the rest runs as a task.

use std::sync::{Arc, Mutex, PoisonError};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::schema::{
    AgentAuthCapabilities, AgentCapabilities, AuthMethod, AuthenticateRequest,
    AuthenticateResponse, CancelNotification, CloseSessionRequest, CloseSessionResponse,
    DeleteSessionRequest, DeleteSessionResponse, ForkSessionRequest, Implementation,
    InitializeRequest, InitializeResponse, ListSessionsRequest, ListSessionsResponse,
    LoadSessionRequest, LogoutCapabilities, LogoutRequest, LogoutResponse, McpCapabilities,
    NewSessionRequest, PromptCapabilities, PromptRequest, ResumeSessionRequest,
    SessionAdditionalDirectoriesCapabilities, SessionCapabilities, SessionCloseCapabilities,
    SessionDeleteCapabilities, SessionForkCapabilities, SessionId as WireId,
    SessionListCapabilities, SessionResumeCapabilities, SessionSystemPromptCapabilities,
    SessionSystemPromptModeCapabilities, SessionSystemPromptOverrideCapabilities,
    SetSessionConfigOptionRequest, SetSessionModeRequest,
};
use agent_client_protocol::v1::{ConnectionTo, Responder};
use agent_client_protocol::{
    Agent, Client, ConnectTo, Error, JsonRpcRequest, JsonRpcResponse, Lines,
    on_receive_notification, on_receive_request,
};
use bridle_compose::{Clock, TaskSet};
use bridle_session::SessionId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::clients::ClientTraits;
use super::credit::Credits;
use super::link::Link;
use super::opening::Opening;
use super::outbox::answer;
use super::session::{self, Command, Reopen, blocking};
use super::sessions::Sessions;
use super::steering::{self, SteeringRequest};
use super::{auth, errors, list};
use crate::composition::App;

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
    /// Told when a session has been closed.
    pub(super) closed: Notify,
    /// What the client said of itself.
    client: Mutex<ClientTraits>,
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
            closed: Notify::new(),
            client: Mutex::default(),
        }
    }

    fn link(&self, connection: ConnectionTo<Client>) -> Link {
        let client = *self.client.lock().unwrap_or_else(PoisonError::into_inner);
        Link::new(connection, self.credits.clone(), self.gone.clone(), client)
    }

    fn initialize(
        &self,
        request: &InitializeRequest,
        responder: Responder<InitializeResponse>,
    ) -> Result<(), Error> {
        let client = ClientTraits::of(request);
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = client;
        responder.respond(initialized(auth::methods(&self.app, client)))?;
        // A session is what comes next.
        let app = Arc::clone(&self.app);
        drop(tokio::task::spawn_blocking(move || app.store().prepare()));
        Ok(())
    }

    fn authenticate(
        &self,
        request: AuthenticateRequest,
        responder: Responder<AuthenticateResponse>,
    ) {
        let (app, cancelled) = (self.app.clone(), responder.cancellation());
        let authenticated = blocking(move || match cancelled.is_cancelled() {
            true => Err(errors::request_cancelled()),
            false => auth::authenticate(&app, &request),
        });
        self.spawn(responder, authenticated);
    }

    fn log_out(&self, responder: Responder<LogoutResponse>) {
        let app = self.app.clone();
        self.spawn(responder, blocking(move || auth::log_out(&app)));
    }

    fn list(&self, request: ListSessionsRequest, responder: Responder<ListSessionsResponse>) {
        let (app, cancellation) = (self.app.clone(), responder.cancellation());
        let cancelled = cancellation.clone();
        let page = blocking(move || {
            // One that waited for a thread is not worth reading for.
            if cancelled.is_cancelled() {
                return Err(errors::request_cancelled());
            }
            let listing = app.store().list().map_err(|failure| errors::store(&failure))?;
            list::page(listing, request.cwd, request.cursor.as_deref())
        });
        self.spawn(responder, async move { cancellation.run_until_cancelled(page).await });
    }

    fn new_session(
        self: &Arc<Self>,
        Opening(request): Opening<NewSessionRequest>,
        responder: Responder<Value>,
        connection: ConnectionTo<Client>,
    ) {
        let link = self.link(connection);
        drop(self.tasks.spawn(session::create(self.clone(), link, request, responder)));
    }

    fn fork_session(
        self: &Arc<Self>,
        Opening(request): Opening<ForkSessionRequest>,
        responder: Responder<Value>,
        connection: ConnectionTo<Client>,
    ) {
        let link = self.link(connection);
        drop(self.tasks.spawn(session::fork(self.clone(), link, request, responder)));
    }

    fn load_session(
        self: &Arc<Self>,
        Opening(request): Opening<LoadSessionRequest>,
        responder: Responder<Value>,
        connection: ConnectionTo<Client>,
    ) {
        let id = request.session_id.clone();
        let load = Reopen::load(request, responder, self.link(connection));
        self.to_stored(&id, Command::Reopen(Box::new(load)));
    }

    fn resume_session(
        self: &Arc<Self>,
        Opening(request): Opening<ResumeSessionRequest>,
        responder: Responder<Value>,
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

/// The answer to `initialize`, which needs nothing but the program.
fn initialized(auth_methods: Vec<AuthMethod>) -> InitializeResponse {
    let session = SessionCapabilities::new()
        .list(SessionListCapabilities::new())
        .resume(SessionResumeCapabilities::new())
        .delete(SessionDeleteCapabilities::new())
        .close(SessionCloseCapabilities::new())
        .fork(SessionForkCapabilities::new())
        .additional_directories(SessionAdditionalDirectoriesCapabilities::new())
        .system_prompt(
            SessionSystemPromptCapabilities::new().mode(
                SessionSystemPromptModeCapabilities::new()
                    .override_(SessionSystemPromptOverrideCapabilities::new()),
            ),
        );
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().image(true).embedded_context(true))
        .mcp_capabilities(McpCapabilities::new().http(true))
        .session_capabilities(session)
        .auth(AgentAuthCapabilities::new().logout(LogoutCapabilities::new()));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .auth_methods(auth_methods)
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
            on!(|s, request: Opening<$Request>, responder, cx| s.$open(request, responder, cx))
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
    macro_rules! receives {
        ($agent:expr, $($handler:expr),+ $(,)?) => {
            $agent$(.on_receive_request($handler, on_receive_request!()))+
        };
    }
    let (cancelling, closing) = (server.clone(), server.clone());
    receives!(
        Agent.v1().name("bridle"),
        on!(|s, r: InitializeRequest, responder, _| s.initialize(&r, responder)?),
        on!(|s, r: AuthenticateRequest, responder, _| s.authenticate(r, responder)),
        on!(|s, _request: LogoutRequest, responder, _| s.log_out(responder)),
        opens!(NewSessionRequest, new_session),
        opens!(ForkSessionRequest, fork_session),
        opens!(LoadSessionRequest, load_session),
        opens!(ResumeSessionRequest, resume_session),
        on!(|s, r: DeleteSessionRequest, responder, _| s.delete_session(&r, responder)),
        on!(|s, r: ListSessionsRequest, responder, _| s.list(r, responder)),
        on!(|s, r: CloseSessionRequest, responder, _| s.close_session(&r, responder)),
        to_session!(PromptRequest, Command::Prompt),
        to_session!(SteeringRequest, Command::Steer),
        to_session!(SetSessionModeRequest, Command::SetMode),
        to_session!(SetSessionConfigOptionRequest, Command::SetOption),
        to_session!(SetModelRequest, Command::SetModel),
    )
    .on_receive_notification(
        async move |r: CancelNotification, _| cancelling.cancel(&r),
        on_receive_notification!(),
    )
    .on_close(async move |_| closing.close().await)
    .connect_to(transport)
    .await
}
