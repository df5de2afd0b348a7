//! Starting an agent, and the handle that talks to it.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bridle_compose::{Clock, Scope};
use bridle_model::Effort;
use bridle_session::{
    Content, EventData, Failure, InputQueue, JobEnded, JobStarted, MessageId, Route, Session,
    StepNumber, TurnNumber, UserMessage, UserSource,
};
use bridle_store::LogWriter;
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use crate::driver::{Driver, internal};
use crate::mailbox::{Command, Control, Epoch, MAILBOX_LIMIT};
use crate::mode::Mode;
use crate::update::{Meter, NoticeLevel};
use crate::update_queue::UpdateSender;

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
    pub updates: UpdateSender,
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
    /// The thinking level of a session whose log names none; `None` for the model's own choice.
    pub effort: Option<Effort>,
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
        let ending = Arc::clone(&control);
        tasks.spawn(async move {
            let failures = AssertUnwindSafe(driver.run()).catch_unwind().await;
            ending.end(failures.unwrap_or_else(|_| vec![internal("the driver panicked")]));
        });
        AgentHandle { sender, control }
    }
}

/// Why a call on the handle had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AgentGone {
    /// The driver has ended.
    #[error("the session is closed")]
    Closed,
    /// Too much is waiting.
    #[error("too many prompts are waiting in this session")]
    QueueFull,
}

/// What an agent is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Nothing; it waits for input.
    Idle,
    /// It brings its session into order; no turn can run meanwhile.
    Maintenance,
    /// A turn.
    Running {
        /// Which turn.
        turn: TurnNumber,
        /// Which step of it, from 1; 0 before the first.
        step: StepNumber,
    },
}

/// What an agent is set to, and what it is doing.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    /// The permission mode.
    pub mode: Mode,
    /// The route of the next request.
    pub route: Option<Route>,
    /// The thinking level; `None` for the model's own choice.
    pub effort: Option<Effort>,
    /// How full the context is, and what the session has cost.
    pub meter: Meter,
    /// What it is doing.
    pub phase: Phase,
    /// The title, if it has one.
    pub title: Option<String>,
}

/// What is recorded of a job: a process that runs on beside the turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobFact {
    /// It runs.
    Started(JobStarted),
    /// It does not run any more.
    Ended(JobEnded),
}

impl From<JobFact> for EventData {
    fn from(fact: JobFact) -> Self {
        match fact {
            JobFact::Started(job) => job.into(),
            JobFact::Ended(job) => job.into(),
        }
    }
}

/// Talks to one driver; cheap to clone.
#[derive(Clone, Debug)]
pub struct AgentHandle {
    sender: mpsc::Sender<Command>,
    control: Arc<Control>,
}

impl AgentHandle {
    /// Queues a prompt for a turn of its own. Its end comes as [`AgentUpdate::TurnEnded`] with the
    /// same id. Does not wait: calls made one after the other stay in order, and a
    /// [`AgentHandle::cancel`] after it reaches it.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended or too much waits; there is no `TurnEnded` then.
    pub fn prompt(&self, id: MessageId, content: Vec<Content>) -> Result<(), AgentGone> {
        let epoch = self.control.opened(id.clone());
        self.ask(id, content, InputQueue::NextTurn, epoch)
    }

    /// Queues a prompt for the running turn, which takes it up after its current tools
    /// ([`AgentUpdate::Joined`]); begins a turn when none runs. Otherwise like
    /// [`AgentHandle::prompt`]: its end is that of the turn that took it.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn steer(&self, id: MessageId, content: Vec<Content>) -> Result<(), AgentGone> {
        let epoch = self.control.opened(id.clone());
        self.ask(id, content, InputQueue::NextStep, epoch)
    }

    /// As [`AgentHandle::steer`], but begins no turn: when none runs, or the running one ends
    /// first, the prompt ends as `Cancelled` and the model never reads it.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn join(&self, id: MessageId, content: Vec<Content>) -> Result<(), AgentGone> {
        let epoch = self.control.opened(id.clone());
        self.control.joins_only(id.clone());
        self.ask(id, content, InputQueue::NextStep, epoch)
    }

    /// Shortens the conversation when everything queued before it is over; `focus` is what the summary
    /// is to dwell on, empty for nothing in particular. Its end comes as [`AgentUpdate::TurnEnded`]
    /// with the same id, and a cancel reaches it as it reaches a prompt.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn compact(&self, id: MessageId, focus: String) -> Result<(), AgentGone> {
        let epoch = self.control.opened(id.clone());
        let sent = self.send(Command::Compact { id: id.clone(), focus, epoch });
        if sent.is_err() {
            self.control.settled(&id);
        }
        sent
    }

    /// Adds context that the model reads before its next step. It begins no turn, nobody is told
    /// of its end, and a cancel leaves it where it is.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn inject(&self, message: UserMessage) -> Result<(), AgentGone> {
        self.queue(message, InputQueue::NextStep, None)
    }

    /// Records a fact of a job, and tells the person. Does not wait: calls made one after the other
    /// stay in order, and one made before [`AgentHandle::close`] is on the log.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn record_job(&self, fact: JobFact) -> Result<(), AgentGone> {
        self.send(Command::Job(fact))
    }

    /// Tells the person something that is not of the conversation, and is not on the log.
    ///
    /// # Errors
    /// As for [`AgentHandle::prompt`].
    pub fn notice(
        &self,
        level: NoticeLevel,
        title: impl Into<String>,
        detail: Option<String>,
    ) -> Result<(), AgentGone> {
        self.send(Command::Notice { level, title: title.into(), detail })
    }

    fn ask(
        &self,
        id: MessageId,
        content: Vec<Content>,
        queue: InputQueue,
        epoch: Epoch,
    ) -> Result<(), AgentGone> {
        let message = UserMessage { id: id.clone(), content, source: UserSource::Human };
        let queued = self.queue(message, queue, Some(epoch));
        if queued.is_err() {
            self.control.settled(&id);
        }
        queued
    }

    fn queue(
        &self,
        message: UserMessage,
        queue: InputQueue,
        epoch: Option<Epoch>,
    ) -> Result<(), AgentGone> {
        self.send(Command::Queue { message, queue, epoch })
    }

    fn send(&self, command: Command) -> Result<(), AgentGone> {
        self.sender.try_send(command).map_err(|error| match error {
            mpsc::error::TrySendError::Full(_) => AgentGone::QueueFull,
            mpsc::error::TrySendError::Closed(_) => AgentGone::Closed,
        })
    }

    /// Cancels the running turn and everything queued by [`AgentHandle::prompt`] and
    /// [`AgentHandle::steer`]; each ends as `Cancelled`. Nothing happens when the agent is idle.
    pub fn cancel(&self) {
        self.control.cancel("cancel");
    }

    /// Cancels the running turn only; what is queued behind it follows.
    pub fn cancel_turn(&self) {
        self.control.cancel_turn("cancel");
    }

    /// Takes one prompt back: out of the queue, or by cancelling the turn that it began. Nothing
    /// happens when it is over, or has joined a turn that another one began.
    pub fn withdraw(&self, id: &MessageId) {
        self.control.withdraw(id, "cancel");
        // With a full mailbox it is noticed when its turn comes.
        drop(self.sender.try_send(Command::TakeBack { id: id.clone() }));
    }

    /// Asks for what was said and done up to now, as [`AgentUpdate::Replay`] in its place among the
    /// updates. A running turn goes on.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended, or its mailbox is full.
    pub fn replay(&self) -> Result<(), AgentGone> {
        self.send(Command::Replay)
    }

    /// What the agent is doing now.
    pub fn phase(&self) -> Phase {
        self.control.phase()
    }

    /// Waits until no turn runs and nothing that would begin one waits: not only until one turn
    /// has ended and before the next has begun. Returns also when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn idle(&self) {
        self.control.idle().await;
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

    /// Changes the thinking level for the requests that follow (`None`: the model's own choice);
    /// logged, and announced as [`AgentUpdate::Effort`]. Says whether it did: a level is refused
    /// when the model of the session is not among `takers`, the models that take it. A model that
    /// is chosen later and does not take the level is asked for the nearest one that it takes.
    ///
    /// # Errors
    /// [`AgentGone`] when the driver has ended.
    ///
    /// # Cancel safety
    /// Cancel safe once the first poll returned: the change is then queued.
    pub async fn set_effort(
        &self,
        effort: Option<Effort>,
        takers: Vec<Route>,
    ) -> Result<bool, AgentGone> {
        self.call(|done| Command::SetEffort { effort, takers, done }).await
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

    /// Ends the agent, in this order: takes no more input, cancels the turn, waits until what it
    /// runs has ended, answers all that waits, makes the log durable, and releases it. Returns
    /// everything that failed on the way. Safe to call twice.
    ///
    /// # Cancel safety
    /// Cancel safe: the driver ends all the same.
    pub async fn close(&self) -> Vec<Failure> {
        self.control.close();
        // A full or closed mailbox is no obstacle: the driver watches `control` itself.
        let failures = self.control.ended().await;
        self.sender.closed().await;
        failures
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
