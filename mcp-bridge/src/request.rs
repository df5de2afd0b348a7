//! A request to a server that is under way, and what can come of it.

use bridle_world::servers::written_out;
use rmcp::model::{ElicitRequestParams, ErrorCode, ErrorData, ServerResult};
use rmcp::service::{RequestHandle, RoleClient, ServiceError};
use rmcp::transport::streamable_http_client::StreamableHttpError;
use serde::Deserialize as _;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::listener::{Listener, Sign};

/// A request that is under way.
pub(crate) struct Asked {
    handle: RequestHandle<RoleClient>,
    pub(crate) signs: watch::Receiver<Sign>,
    /// How many questions of the server wait for the person.
    pub(crate) questions: watch::Receiver<usize>,
    listener: Listener,
}

/// What came of a request.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What the server answered.
    Result(Value),
    /// The server refused: a message for the model.
    Refused(String),
    /// The server wants the person to open addresses first: these, and its message for the model.
    Visits(Vec<ElicitRequestParams>, String),
    /// It did not come about: why, for a person and the model.
    Fault(Fault, String),
}

/// What became of a request that the server itself did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server did nothing of it.
    Unsent,
    /// The server wants to know first who asks, and did nothing of it.
    LogIn,
    /// The server does not permit it to whoever asks, and did nothing of it.
    Forbidden,
    /// It was answered in a way that cannot be used.
    Unreadable,
    /// Nobody knows.
    Lost,
}

/// Where an answer says that it was given in a server's place, and how the request stands.
const IN_ITS_PLACE: &str = "bridle";

impl Fault {
    const ALL: [Self; 5] =
        [Self::Unsent, Self::LogIn, Self::Forbidden, Self::Unreadable, Self::Lost];

    fn name(self) -> &'static str {
        match self {
            Self::Unsent => "unsent",
            Self::LogIn => "log-in",
            Self::Forbidden => "forbidden",
            Self::Unreadable => "unreadable",
            Self::Lost => "lost",
        }
    }

    /// The answer that a wire gives in the server's place.
    pub(crate) fn answer(self, why: impl Into<String>) -> ErrorData {
        let data = json!({IN_ITS_PLACE: self.name()});
        ErrorData::new(ErrorCode::INTERNAL_ERROR, why.into(), Some(data))
    }

    /// How the request stands that this is the answer to; `None` for an answer of the server's own.
    pub(crate) fn of(answer: &ErrorData) -> Option<Self> {
        let name = answer.data.as_ref()?.get(IN_ITS_PLACE)?.as_str()?;
        Self::ALL.into_iter().find(|fault| fault.name() == name)
    }
}

impl Asked {
    pub(crate) fn new(handle: RequestHandle<RoleClient>, listener: Listener) -> Self {
        let signs = listener.follow(handle.progress_token.clone());
        let questions = listener.open_questions();
        Self { handle, signs, questions, listener }
    }

    /// Waits for the answer, in which no key of the server's stands. Of what is no result all is to be
    /// seen.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(crate) async fn reply(&mut self) -> Reply {
        let mut reply = self.answer().await;
        let secrets = self.listener.secrets();
        match &mut reply {
            Reply::Result(result) => secrets.blank_in(result),
            Reply::Refused(why) | Reply::Visits(_, why) | Reply::Fault(_, why) => {
                *why = written_out(&secrets.blank(why)).into_owned();
            }
        }
        reply
    }

    async fn answer(&mut self) -> Reply {
        match (&mut self.handle.rx).await {
            Ok(Ok(ServerResult::CustomResult(result))) => Reply::Result(result.0),
            Ok(Ok(typed)) => serde_json::to_value(typed).map_or_else(
                |error| Reply::Fault(Fault::Unreadable, error.to_string()),
                Reply::Result,
            ),
            Ok(Err(ServiceError::McpError(error))) => match Fault::of(&error) {
                Some(fault) => Reply::Fault(fault, error.message.into_owned()),
                None => refusal(&error),
            },
            Ok(Err(ServiceError::TransportSend(error))) => {
                let fault = match error.error.downcast_ref::<HttpError>() {
                    Some(HttpError::SessionRecoveryTimeout) => Fault::Lost,
                    // The wire answers in the server's place once a request is out.
                    _ => Fault::Unsent,
                };
                Reply::Fault(fault, error.error.to_string())
            }
            Ok(Err(_)) | Err(_) => Reply::Fault(Fault::Lost, "the connection ended".to_owned()),
        }
    }

    /// Shows the person an address that the server wants them to open before it does what it was asked
    /// for. Whether they agreed; `None` where addresses cannot be shown.
    ///
    /// # Cancel safety
    /// Dropped, it takes the question away.
    pub(crate) async fn visit(&self, wanted: ElicitRequestParams) -> Option<bool> {
        self.listener.visit(wanted).await
    }

    /// Tells the server that nobody waits any more. It may go on all the same.
    pub(crate) async fn withdraw(self, reason: &str) {
        self.listener.forget(&self.handle.progress_token);
        // A server that is gone does not go on.
        self.handle.cancel(Some(reason.to_owned())).await.ok();
    }

    /// The answer has come.
    pub(crate) fn done(self) {
        self.listener.forget(&self.handle.progress_token);
    }
}

/// What a server answers that wants addresses opened first (MCP 2025-11-25, "URL Elicitation Required
/// Error").
const VISITS_REQUIRED: i32 = -32042;

/// The most addresses that one answer may want opened. More of them make it a plain refusal.
const MAX_VISITS: usize = 4;

/// What a server means that answers with an error.
fn refusal(error: &ErrorData) -> Reply {
    let why = format!("{} ({})", error.message, error.code.0);
    let listed = error.data.as_ref().and_then(|data| data.get("elicitations")?.as_array());
    let wanted: Vec<_> = listed
        .filter(|_| error.code.0 == VISITS_REQUIRED)
        .into_iter()
        .flatten()
        .filter_map(|one| ElicitRequestParams::deserialize(one).ok())
        .filter(|one| matches!(one, ElicitRequestParams::UrlElicitationParams { .. }))
        .collect();
    match wanted.len() {
        1..=MAX_VISITS => Reply::Visits(wanted, why),
        _ => Reply::Refused(why),
    }
}

type HttpError = StreamableHttpError<reqwest::Error>;
