//! The driver: the one task that owns a session and mutates it.
//!
//! It is idle until a prompt comes, runs one turn at a time, and keeps answering control calls
//! while it waits for anything ([`Driver::drive`]). Turns, requests and tool calls live in files
//! of their own; the facts they record go through the [`Recorder`]. It knows no wire and no tool.

mod assembly;
mod body;
mod calls;
mod changes;
mod compaction;
mod contexts;
mod fill;
mod frame;
mod gate;
mod halt;
mod images;
mod inbox;
mod keep;
mod partial;
mod quiet;
mod references;
mod refusal;
mod request;
mod retry;
mod spill;
mod tell;
mod turn;

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, Scope, Sleep};
use bridle_model::Effort;
use bridle_session::{
    EventData, Failure, MessageId, ModelSelected, PermissionMode, Route, ThinkingSelected,
    ToolCallId,
};
use futures::FutureExt as _;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub use self::spill::RESULT_LIMIT;
pub(crate) use self::turn::internal;
use crate::agent::{AgentParts, AgentStatus, Phase};
use crate::driver::assembly::Assembly;
use crate::driver::frame::Frame;
use crate::driver::halt::Halt;
use crate::driver::inbox::Inbox;
use crate::mailbox::{Command, Control, Epoch};
use crate::mode::Mode;
use crate::notice::Notice;
use crate::progress::{Live, ProgressBoard};
use crate::recorder::{RecordError, Recorder};
use crate::replay::replay_as_it_stands;
use crate::transcript::Shown;
use crate::update::{AgentUpdate, Meter, NoticeLevel, TurnOutcome};
use crate::update_queue::UpdateSender;

/// How often live output of tools is shown at most.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How long hooks may take to decide something. None of them has anything to wait for: what may
/// wait for a person or a provider is the step that they stand around.
const HOOK_PATIENCE: Duration = Duration::from_secs(30);

/// The task that owns one session.
pub(crate) struct Driver {
    // The recorder holds the log's lock; it is dropped before the mailbox, so that whoever waits
    // for the mailbox to close finds the log free, however the driver ends.
    recorder: Recorder,
    mailbox: mpsc::Receiver<Command>,
    control: Arc<Control>,
    updates: UpdateSender,
    inbox: Inbox,
    /// The input whose end is that of the running turn.
    awaited: Vec<MessageId>,
    scope: Scope,
    assembly: Assembly,
    clock: Arc<dyn Clock>,
    progress: ProgressBoard,
    progress_pause: Option<Sleep>,
    mode: Mode,
    /// The mode of a session in which nobody has chosen one, and those that the user allows.
    default_mode: Mode,
    modes: Vec<Mode>,
    route: Option<Route>,
    effort: Option<Effort>,
    /// The level that the person was told is asked for.
    told: Option<Effort>,
    title: Option<String>,
    turn: bridle_session::TurnNumber,
    frame: Frame,
    /// How many summaries have failed in this turn since the last that did not.
    failed_summaries: u32,
    /// How long the conversation was, in tokens, when summaries were of no use last; 0 when the last was.
    useless_at: u64,
    /// Whether the last answer was cut off because the window was full.
    window_was_full: bool,
}

impl Driver {
    pub(crate) fn new(
        parts: AgentParts,
        mailbox: mpsc::Receiver<Command>,
        control: Arc<Control>,
    ) -> Self {
        let state = parts.session.state().clone();
        Self {
            frame: Frame::of(&parts.session),
            recorder: Recorder::new(
                parts.session,
                parts.writer,
                Arc::clone(&parts.clock),
                parts.scope.clone(),
            ),
            scope: parts.scope,
            assembly: Assembly::default(),
            mailbox,
            control,
            updates: parts.updates,
            inbox: Inbox::default(),
            awaited: Vec::new(),
            clock: parts.clock,
            progress: ProgressBoard::default(),
            progress_pause: None,
            mode: (state.modes.permission.as_deref().and_then(Mode::from_id))
                .filter(|mode| parts.modes.contains(mode))
                .unwrap_or(parts.mode),
            default_mode: parts.mode,
            modes: parts.modes,
            route: state.route.or(parts.route),
            effort: match state.thinking.as_deref() {
                Some(level) => Effort::from_id(level),
                None => parts.effort,
            },
            told: None,
            title: state.summary.title.text,
            turn: state.turns.turn,
            failed_summaries: 0,
            useless_at: 0,
            window_was_full: false,
        }
    }

    /// Runs until the handle closes it or every handle is gone. Says what failed on the way out;
    /// the log is free then.
    pub(crate) async fn run(mut self) -> Vec<Failure> {
        let lost = self.recorder.session().state().jobs.clone();
        if let Err(error) = self.recorder.repair() {
            tracing::error!(%error, "repair failed");
            self.notice(NoticeLevel::Error, "The session could not be repaired", None).await;
        }
        self.inbox = Inbox::left(&self.recorder.session().state().inbox.messages);
        self.tell_lost_jobs(lost).await;
        self.tell_fill().await;
        while !self.control.closing().is_cancelled() {
            self.take_back_cancelled().await;
            if let Some((id, epoch, focus)) = self.inbox.waking() {
                match focus {
                    None => self.turn(&id, epoch).await,
                    Some(focus) => self.upkeep(id, epoch, &focus).await,
                }
                continue;
            }
            self.control.enter(Phase::Idle);
            tokio::select! {
                biased;
                () = self.control.closing().cancelled() => break,
                command = self.mailbox.recv() => match command {
                    Some(command) => self.command(command).await,
                    None => break,
                },
            }
        }
        self.leave().await
    }

    /// Comes to rest in a fixed order: nothing more is taken, what waits is answered, the log is
    /// made durable and released.
    async fn leave(mut self) -> Vec<Failure> {
        self.mailbox.close();
        while let Ok(command) = self.mailbox.try_recv() {
            self.command(command).await;
        }
        self.take_back_all().await;
        self.recorder.flush().await.err().iter().map(RecordError::failure).collect()
    }

    /// Waits for `future` while commands are answered and live output is shown.
    async fn drive<F: Future>(&mut self, future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            tokio::select! {
                biased;
                Some(command) = self.mailbox.recv() => self.command(command).await,
                output = &mut future => return output,
                () = self.progress.changed(), if self.progress_pause.is_none() => {
                    self.show_progress().await;
                }
                () = pause(&mut self.progress_pause) => self.progress_pause = None,
            }
        }
    }

    /// Waits for what may take its time; a cancel leaves it.
    async fn unless_cancelled<F: Future>(
        &mut self,
        future: F,
        token: &CancellationToken,
    ) -> Result<F::Output, Halt> {
        let token = token.clone();
        let future = async move {
            tokio::select! {
                biased;
                () = token.cancelled() => Err(Halt::Cancelled),
                output = future => Ok(output),
            }
        };
        self.drive(future).await
    }

    /// Waits for the hooks at a point where something is decided, which must not take long; a
    /// cancel leaves them.
    async fn decided<F: Future>(
        &mut self,
        point: &str,
        hooks: F,
        token: &CancellationToken,
    ) -> Result<F::Output, Halt> {
        let patience = self.clock.sleep(HOOK_PATIENCE);
        let hooks = async {
            tokio::select! {
                biased;
                output = hooks => Some(output),
                () = patience => None,
            }
        };
        self.unless_cancelled(hooks, token).await?.ok_or_else(|| {
            tracing::error!(point, "a hook did not end");
            let seconds = HOOK_PATIENCE.as_secs();
            Halt::Failed(internal(&format!("a {point} hook did not answer within {seconds} s")))
        })
    }

    async fn show_progress(&mut self) {
        for (id, Live { text, lines }) in self.progress.take() {
            self.send_lines(&id, lines).await;
            if let Some(text) = text {
                self.send(AgentUpdate::ToolProgress { id, text }).await;
            }
        }
        self.progress_pause = Some(self.clock.sleep(PROGRESS_INTERVAL));
    }

    async fn send_lines(&self, call: &ToolCallId, lines: String) {
        if !lines.is_empty() {
            self.send(AgentUpdate::ToolOutput { id: call.clone(), lines }).await;
        }
    }

    /// Takes one command; never waits for a turn.
    async fn command(&mut self, command: Command) {
        match command {
            Command::Queue { message, queue, epoch } => self.queue(message, queue, epoch),
            Command::Compact { id, focus, epoch } => self.queue_compaction(id, focus, epoch),
            Command::TakeBack { id } => self.take_back(&id).await,
            Command::SetMode { mode, done } => {
                self.set_mode(mode).await;
                done.send(()).ok();
            }
            Command::SetRoute { route, done } => {
                self.record(ModelSelected { route: route.clone() });
                self.route = Some(route.clone());
                self.send(AgentUpdate::Model(route)).await;
                done.send(()).ok();
            }
            Command::SetEffort { effort, takers, done } => {
                let taken = self.route.as_ref().is_some_and(|route| takers.contains(route));
                if effort.is_some() && !taken {
                    done.send(false).ok();
                    return;
                }
                let level = effort.map_or(ThinkingSelected::DEFAULT, Effort::id);
                self.record(ThinkingSelected { level: level.to_owned() });
                self.effort = effort;
                self.send(AgentUpdate::Effort(effort)).await;
                done.send(true).ok();
            }
            Command::Job(fact) => {
                let fact = EventData::from(fact);
                let notice = Shown::Told(&fact).notice();
                self.record(fact);
                if let Some(Notice { level, title, detail }) = notice {
                    self.notice(level, title, detail).await;
                }
            }
            Command::Notice { level, title, detail } => self.notice(level, title, detail).await,
            Command::Replay => {
                let replay = replay_as_it_stands(self.recorder.session());
                self.send(AgentUpdate::Replay(replay)).await;
            }
            Command::Status { answer } => {
                answer.send(self.status()).ok();
            }
        }
    }

    fn status(&self) -> AgentStatus {
        AgentStatus {
            mode: self.mode,
            route: self.route.clone(),
            effort: self.effort,
            meter: Meter::of(self.recorder.session().state()),
            phase: self.control.phase(),
            title: self.title.clone(),
        }
    }

    /// Shortens the conversation between the turns, and reports that it is over. Does nothing when
    /// it was cancelled first.
    async fn upkeep(&mut self, id: MessageId, epoch: Epoch, focus: &str) {
        let Some(token) = self.control.begin_turn(&id, epoch) else { return };
        self.inbox.remove(&id);
        self.control.enter(Phase::Maintenance);
        let compacted = AssertUnwindSafe(self.compact(focus, &token)).catch_unwind().await;
        let outcome = compacted.unwrap_or_else(|_| {
            tracing::error!("the compaction panicked");
            TurnOutcome::Failed(internal("it failed inside Bridle; the session goes on"))
        });
        let outcome = match self.come_to_rest().await {
            Ok(()) => outcome,
            Err(error) => TurnOutcome::Failed(error.failure()),
        };
        self.control.end_turn();
        self.end(id, outcome).await;
    }

    async fn set_mode(&mut self, mode: Mode) {
        self.record(PermissionMode { mode: mode.id().to_owned() });
        self.mode = mode;
        self.send(AgentUpdate::Mode(mode)).await;
    }

    /// Records a fact that nothing waits for; a failure shows at the next barrier.
    fn record(&mut self, data: impl Into<EventData>) {
        if let Err(error) = self.recorder.append(data) {
            tracing::error!(%error, "a fact could not be recorded");
        }
    }

    /// Tells the client. Waits while it is slow, but not for one that does not read any more when
    /// the session is to end.
    async fn send(&self, update: AgentUpdate) {
        let closing = self.control.closing().cancelled();
        tokio::select! {
            biased;
            sent = self.updates.send(update) => if sent.is_err() {
                tracing::debug!("nobody listens to this session any more");
            },
            () = closing => tracing::debug!("an update was dropped: the session is closing"),
        }
    }

    async fn notice(&self, level: NoticeLevel, title: impl Into<String>, detail: Option<String>) {
        self.send(AgentUpdate::Notice { level, title: title.into(), detail }).await;
    }

    /// Reports the end of one input, once.
    async fn end(&self, prompt: MessageId, outcome: TurnOutcome) {
        self.control.settled(&prompt);
        self.send(AgentUpdate::TurnEnded { prompt, outcome }).await;
    }
}

/// Completes when the pause is over; never when there is none.
async fn pause(pause: &mut Option<Sleep>) {
    match pause {
        Some(pause) => pause.await,
        None => std::future::pending().await,
    }
}
