//! What a server says without being asked, and what it may ask of us.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bridle_world::servers::{Secrets, Voice};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CustomRequest, CustomResult, ElicitRequestParams,
    ElicitResult, ElicitationAction, ErrorCode, ErrorData, Implementation,
    ProgressNotificationParam, ProgressToken, ProtocolVersion,
};
#[expect(deprecated, reason = "what servers of today ask for; the successor is not there yet")]
use rmcp::model::{ListRootsResult, LoggingMessageNotificationParam, Root, RootsCapabilities};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;
use tokio::sync::{Notify, watch};
use url::Url;

use crate::asking::{Asking, message};
use crate::connection::Host;

/// Why a person is not shown what a server asks.
const NO_QUESTIONS: &str = "this client shows no questions";
const NO_ADDRESSES: &str = "this client shows no addresses to be opened";

/// Hears what a server says without being asked.
#[derive(Clone)]
pub(crate) struct Listener {
    voice: Voice,
    asking: Asking,
    calls: Arc<Mutex<HashMap<ProgressToken, watch::Sender<Sign>>>>,
    /// The session's folders.
    folders: Arc<[PathBuf]>,
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

impl Listener {
    pub(crate) fn new(voice: Voice, host: &Host) -> Self {
        Self {
            asking: Asking::new(voice.name(), host.person.clone()),
            voice,
            calls: Arc::default(),
            folders: Arc::clone(&host.folders),
            tools_changed: Arc::default(),
        }
    }

    /// The signs of life of a call, until [`Listener::forget`].
    pub(crate) fn follow(&self, call: ProgressToken) -> watch::Receiver<Sign> {
        let (sender, signs) = watch::channel(Sign::default());
        if self.calls().insert(call, sender).is_none() {
            self.asking.begun();
        }
        signs
    }

    /// What nobody is to read of what the server says.
    pub(crate) fn secrets(&self) -> &Secrets {
        self.voice.secrets()
    }

    /// How many questions of the server wait for the person.
    pub(crate) fn open_questions(&self) -> watch::Receiver<usize> {
        self.asking.open()
    }

    /// Shows the person an address that they are to open. Whether they agreed; `None` where addresses
    /// cannot be shown.
    pub(crate) async fn visit(&self, wanted: ElicitRequestParams) -> Option<bool> {
        if self.asking.capability().and_then(|it| it.url).is_none() {
            self.asking.tell_unshown(message(&wanted), NO_ADDRESSES);
            return None;
        }
        Some(self.asking.ask(wanted).await.action == ElicitationAction::Accept)
    }

    pub(crate) fn forget(&self, call: &ProgressToken) {
        if self.calls().remove(call).is_some() {
            self.asking.ended();
        }
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<ProgressToken, watch::Sender<Sign>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// Sampling is refused: its capability is not declared.
impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("bridle", env!("CARGO_PKG_VERSION"));
        let mut capabilities = ClientCapabilities::default();
        capabilities.roots = Some(RootsCapabilities::default());
        capabilities.elicitation = self.asking.capability();
        // The newest version that begins with `initialize`.
        ClientConfig::new(capabilities, us).with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    #[expect(deprecated, reason = "see the import")]
    async fn list_roots(
        &self,
        _: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        Ok(ListRootsResult::new(self.folders.iter().filter_map(|folder| root(folder)).collect()))
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        if self.asking.capability().is_some() {
            return Ok(self.asking.ask(asked).await);
        }
        self.asking.tell_unshown(message(&asked), NO_QUESTIONS);
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "nobody can be asked", None))
    }

    /// What the official client could not read: a request that it knows, with parameters that are none of
    /// it, or one that nobody knows.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _: RequestContext<RoleClient>,
    ) -> Result<CustomResult, ErrorData> {
        let is_known = match request.method.as_str() {
            "ping" | "roots/list" => true,
            "elicitation/create" => {
                let said = request.params.as_ref().and_then(|it| it.get("message")?.as_str());
                let can_show = self.asking.capability().is_some();
                let why = if can_show { "it is none that can be shown" } else { NO_QUESTIONS };
                self.asking.tell_unshown(said.unwrap_or_default(), why);
                can_show
            }
            _ => false,
        };
        Err(match is_known {
            true => ErrorData::invalid_params("these are no parameters of that request", None),
            false => ErrorData::new(ErrorCode::METHOD_NOT_FOUND, request.method, None),
        })
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
                        message: sign.message.as_deref().map(|it| self.secrets().blank(it).into()),
                    };
                }
                newer
            });
        }
    }

    #[expect(deprecated, reason = "see the import")]
    async fn on_logging_message(
        &self,
        message: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        let text = match &message.data {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        self.voice.say(&text);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.tools_changed.notify_one();
    }
}

#[expect(deprecated, reason = "see the import")]
fn root(folder: &Path) -> Option<Root> {
    let root = Root::new(Url::from_file_path(folder).ok()?.as_str());
    Some(match folder.file_name().and_then(|name| name.to_str()) {
        Some(name) => root.with_name(name),
        None => root,
    })
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
