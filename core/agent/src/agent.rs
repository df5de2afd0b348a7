//! Starting an agent, and the handle that talks to it.

use std::sync::Arc;

use bridle_compose::{Clock, Scope};
use bridle_session::{Content, MessageId, Route, Session, UserMessage, UserSource};
use bridle_store::LogWriter;
use tokio::sync::{mpsc, oneshot};

use crate::driver::Driver;
use crate::mailbox::{Command, Control, MAILBOX_LIMIT};
use crate::mode::Mode;
use crate::update::AgentUpdate;

/// What an agent is made of.
pub struct AgentParts {
    /// The session's scope. Models, tools, context sources, sections of the system prompt, the
    /// permission policy, the approver and hooks are looked up there whenever they are needed.
    pub scope: Scope,
    /// The session, new or replayed. The driver repairs it first.
    pub session: Session,
    /// Its log.
    pub writer: LogWriter,
    /// Where updates go.
    pub updates: mpsc::Sender<AgentUpdate>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The mode of a session whose log names none, or one that is not in `modes`.
    pub mode: Mode,
    /// The modes the user's own configuration allows now. A stored session never brings back
    /// another one.
    pub modes: Vec<Mode>,
    /// The route of a session whose log names none; `None` when no provider has a key, in which
    /// case the first prompt fails with `auth`.
    pub route: Option<Route>,
}

/// Starts drivers.
pub struct Agent;

impl Agent {
    /// Starts the driver of one session.
    pub fn start(parts: AgentParts) -> AgentHandle {
        let (sender, mailbox) = mpsc::channel(MAILBOX_LIMIT);
        let tasks = parts.scope.tasks().clone();
        let control = Arc::new(Control::new(tasks.token()));
        let driver = Driver::new(parts, mailbox, Arc::clone(&control));
        tasks.spawn(driver.run());
        AgentHandle { sender, control }
    }
}

/// Why a call on the handle had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentGone {
    /// The driver has ended.
    #[error("the session is closed")]
    Closed,
    /// Too many prompts are waiting.
    #[error("too many prompts are waiting in this session")]
    QueueFull,
}

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
    sender: mpsc::Sender<Command>,
    control: Arc<Control>,
}

impl AgentHandle {
    /// Queues a prompt as the next turn. Its end comes as [`AgentUpdate::TurnEnded`] with the
    /// same id. Does not wait: calls made one after the other stay in order, and a
    /// [`AgentHandle::cancel`] after it reaches it.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended or too many prompts wait; there is no
    /// `TurnEnded` then.
    pub fn prompt(&self, id: MessageId, content: Vec<Content>) -> Result<(), AgentGone> {
        let message = UserMessage { id, content, source: UserSource::Human };
        let epoch = self.control.epoch();
        self.sender.try_send(Command::Prompt { message, epoch }).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AgentGone::QueueFull,
            mpsc::error::TrySendError::Closed(_) => AgentGone::Closed,
        })
    }

    /// Cancels the running turn and every queued prompt; each ends as `Cancelled`. Nothing
    /// happens when the agent is idle.
    pub fn cancel(&self) {
        self.control.cancel("cancel");
    }

    /// Changes the mode, also during a turn; logged, and announced as [`AgentUpdate::Mode`].
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe once the first poll returned: the change is then queued.
    pub async fn set_mode(&self, mode: Mode) -> Result<(), AgentGone> {
        self.call(|done| Command::SetMode { mode, done }).await
    }

    /// Changes the model for the requests that follow; logged, and announced as
    /// [`AgentUpdate::Model`].
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe once the first poll returned: the change is then queued.
    pub async fn set_route(&self, route: Route) -> Result<(), AgentGone> {
        self.call(|done| Command::SetRoute { route, done }).await
    }

    /// What the agent is set to now.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn status(&self) -> Result<AgentStatus, AgentGone> {
        self.call(|answer| Command::Status { answer }).await
    }

    /// Cancels, waits until everything the agent started has ended, flushes, and releases the
    /// log. Safe to call twice.
    ///
    /// # Cancel safety
    /// Cancel safe: the driver ends all the same.
    pub async fn close(&self) {
        self.control.close();
        // A full or closed mailbox is no obstacle: the driver watches `control` itself.
        self.sender.closed().await;
    }

    async fn call<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, AgentGone> {
        let (sender, answer) = oneshot::channel();
        self.sender.send(command(sender)).await.map_err(|_| AgentGone::Closed)?;
        answer.await.map_err(|_| AgentGone::Closed)
    }
}
