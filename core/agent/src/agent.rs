//! Starting an agent, and the handle that talks to it.

use std::sync::Arc;

use bridle_compose::{Clock, TaskSet};
use bridle_model::ModelSource;
use bridle_session::{Content, MessageId, Route, Session};
use bridle_store::LogWriter;
use tokio::sync::mpsc;

use crate::approval::Approver;
use crate::context::ContextSource;
use crate::mode::{Mode, Sandboxing};
use crate::tool::Tool;
use crate::update::AgentUpdate;

/// What an agent is made of.
pub struct AgentParts {
    /// The session, new or replayed. The driver repairs it first.
    pub session: Session,
    /// Its log.
    pub writer: LogWriter,
    /// Where calls come from.
    pub models: Arc<dyn ModelSource>,
    /// The tools offered, in any order; names must be unique.
    pub tools: Vec<Arc<dyn Tool>>,
    /// What is put before the first prompt.
    pub contexts: Vec<Arc<dyn ContextSource>>,
    /// The system prompt.
    pub system_prompt: String,
    /// Who answers questions.
    pub approver: Arc<dyn Approver>,
    /// Where updates go.
    pub updates: mpsc::Sender<AgentUpdate>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// Where the driver and its tasks run.
    pub tasks: TaskSet,
    /// The mode of a session whose log names none.
    pub mode: Mode,
    /// The route of a session whose log names none; `None` when no provider has a key, in which
    /// case the first prompt fails with `auth`.
    pub route: Option<Route>,
    /// Whether commands can be confined.
    pub sandboxing: Sandboxing,
}

/// Starts drivers.
pub struct Agent;

impl Agent {
    /// Starts the driver of one session.
    pub fn start(parts: AgentParts) -> AgentHandle {
        let _ = parts;
        todo!()
    }
}

/// The driver has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the session is closed")]
pub struct AgentGone;

/// What an agent is set to.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    /// The permission mode.
    pub mode: Mode,
    /// The route of the next request.
    pub route: Option<Route>,
    /// Tokens in the context after the last request.
    pub used: u64,
    /// Whether a turn is running.
    pub running: bool,
    /// The title, if it has one.
    pub title: Option<String>,
}

/// Talks to one driver; cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    _private: (),
}

impl AgentHandle {
    /// Queues a prompt as the next turn. Its end comes as [`AgentUpdate::TurnEnded`] with the
    /// same id. Does not wait: calls made one after the other stay in order, and a
    /// [`AgentHandle::cancel`] after it reaches it.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    pub fn prompt(&self, id: MessageId, content: Vec<Content>) -> Result<(), AgentGone> {
        let _ = (id, content);
        todo!()
    }

    /// Cancels the running turn and every queued prompt; each ends as `Cancelled`. Nothing
    /// happens when the agent is idle.
    pub fn cancel(&self) {
        todo!()
    }

    /// Changes the mode, also during a turn; logged, and announced as [`AgentUpdate::Mode`].
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    pub async fn set_mode(&self, mode: Mode) -> Result<(), AgentGone> {
        let _ = mode;
        todo!()
    }

    /// Changes the model for the requests that follow; logged, and announced as
    /// [`AgentUpdate::Model`].
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    pub async fn set_route(&self, route: Route) -> Result<(), AgentGone> {
        let _ = route;
        todo!()
    }

    /// What the agent is set to now.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    pub async fn status(&self) -> Result<AgentStatus, AgentGone> {
        todo!()
    }

    /// Cancels, waits until everything the agent started has ended, flushes, and releases the
    /// log. Safe to call twice.
    pub async fn close(&self) {
        todo!()
    }
}
