//! How the outside reaches a driver: a bounded mailbox, and a leaf for what may not wait.
//!
//! Cancelling must reach a driver that is busy, and must reach exactly the input that was sent
//! before it. So it goes past the mailbox: it moves the epoch on and cancels the running turn's
//! token, and input of an older epoch is answered as cancelled when its turn comes. Input sent
//! after it waits in the mailbox for the next turn, however long the cancelled one takes to end.

use std::collections::HashSet;

use bridle_model::Effort;
use bridle_session::{Failure, InputQueue, MessageId, Route, UserMessage};
use tokio::sync::{oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::agent::{AgentStatus, JobFact, Phase};
use crate::mode::Mode;
use crate::update::NoticeLevel;

/// How many commands may wait. Beyond it input is refused and other calls wait. More than a client
/// may leave unanswered, so that one which sends many prompts at once has them all queued.
pub(crate) const MAILBOX_LIMIT: usize = 2_048;

/// What a driver can be told.
#[derive(Debug)]
pub(crate) enum Command {
    /// Input for the model. One with an epoch wakes the driver, and somebody waits for its end.
    Queue {
        message: UserMessage,
        queue: InputQueue,
        epoch: Option<Epoch>,
    },
    /// Shorten the conversation, with this in focus, when everything before it is over.
    Compact {
        id: MessageId,
        focus: String,
        epoch: Epoch,
    },
    /// Look whether this input was withdrawn.
    TakeBack {
        id: MessageId,
    },
    SetMode {
        mode: Mode,
        done: oneshot::Sender<()>,
    },
    SetRoute {
        route: Route,
        done: oneshot::Sender<()>,
    },
    SetEffort {
        effort: Option<Effort>,
        takers: Vec<Route>,
        done: oneshot::Sender<bool>,
    },
    /// A job began or ended.
    Job(JobFact),
    /// Tell the person something.
    Notice {
        level: NoticeLevel,
        title: String,
        detail: Option<String>,
    },
    /// Put a replay into the stream of updates.
    Replay,
    Status {
        answer: oneshot::Sender<AgentStatus>,
    },
}

/// Counts cancels; input belongs to the epoch in which it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// What reaches a busy driver at once, and what can be known of it without asking.
#[derive(Debug)]
pub(crate) struct Control {
    state: watch::Sender<ControlState>,
    closing: CancellationToken,
}

#[derive(Debug)]
struct ControlState {
    epoch: Epoch,
    phase: Phase,
    /// The running turn's token, and the input that began it.
    running: Option<(CancellationToken, MessageId)>,
    /// Input that was accepted and has not been reported as ended, in the order in which it came.
    open: Vec<MessageId>,
    /// Of it, what was taken back by name.
    withdrawn: HashSet<MessageId>,
    /// Of it, what joins a running turn and begins none.
    joining: HashSet<MessageId>,
    cause: &'static str,
    /// What failed while the driver ended; `None` while it lives.
    ended: Option<Vec<Failure>>,
}

impl Control {
    /// A driver that also ends when `owner` is cancelled.
    pub(crate) fn new(owner: &CancellationToken) -> Self {
        let state = ControlState {
            epoch: Epoch::default(),
            phase: Phase::Maintenance,
            running: None,
            open: Vec::new(),
            withdrawn: HashSet::new(),
            joining: HashSet::new(),
            // Until somebody cancels by name, only the owner's own end can cancel.
            cause: "shutdown",
            ended: None,
        };
        Self { state: watch::Sender::new(state), closing: owner.child_token() }
    }

    /// Takes note of input that is about to be sent; the epoch that it belongs to.
    pub(crate) fn opened(&self, id: MessageId) -> Epoch {
        let mut epoch = Epoch::default();
        self.state.send_modify(|state| {
            state.open.push(id);
            epoch = state.epoch;
        });
        epoch
    }

    /// Input that was opened is to join a running turn and to begin none.
    pub(crate) fn joins_only(&self, id: MessageId) {
        self.state.send_modify(|state| state.joining.extend([id]));
    }

    /// The input is over: reported, or refused by the mailbox.
    pub(crate) fn settled(&self, id: &MessageId) {
        self.state.send_modify(|state| {
            state.open.retain(|open| open != id);
            state.withdrawn.remove(id);
            state.joining.remove(id);
        });
    }

    /// Cancels the running turn and all input sent so far.
    pub(crate) fn cancel(&self, cause: &'static str) {
        self.state.send_modify(|state| {
            state.epoch = Epoch(state.epoch.0.saturating_add(1));
            state.cancel_turn(cause);
        });
    }

    /// Cancels the running turn; what waits behind it stays.
    pub(crate) fn cancel_turn(&self, cause: &'static str) {
        self.state.send_modify(|state| state.cancel_turn(cause));
    }

    /// Cancels one input and nothing else: its turn, if it began the running one.
    pub(crate) fn withdraw(&self, id: &MessageId, cause: &'static str) {
        self.state.send_modify(|state| match &state.running {
            Some((_, began)) if began == id => state.cancel_turn(cause),
            _ if state.open.contains(id) => drop(state.withdrawn.insert(id.clone())),
            _ => {}
        });
    }

    /// Whether input with this id, sent in `epoch`, was taken back.
    pub(crate) fn is_cancelled(&self, id: &MessageId, epoch: Epoch) -> bool {
        let state = self.state.borrow();
        epoch < state.epoch || state.withdrawn.contains(id)
    }

    /// Whether input is of no use now that no turn runs: cancelled, or sent to join one.
    pub(crate) fn is_void(&self, id: &MessageId, epoch: Epoch) -> bool {
        self.is_cancelled(id, epoch) || self.state.borrow().joining.contains(id)
    }

    /// Cancels, and tells the driver to end.
    pub(crate) fn close(&self) {
        self.cancel("close");
        self.closing.cancel();
    }

    /// Cancelled when the driver shall end.
    pub(crate) fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Opens a turn that input of `epoch` begins; `None` when it was cancelled first.
    pub(crate) fn begin_turn(&self, id: &MessageId, epoch: Epoch) -> Option<CancellationToken> {
        let mut token = None;
        self.state.send_modify(|state| {
            if epoch < state.epoch || state.withdrawn.contains(id) {
                return;
            }
            let opened = self.closing.child_token();
            state.running = Some((opened.clone(), id.clone()));
            token = Some(opened);
        });
        token
    }

    /// Closes the turn.
    pub(crate) fn end_turn(&self) {
        self.state.send_modify(|state| state.running = None);
    }

    /// The driver does something else now.
    pub(crate) fn enter(&self, phase: Phase) {
        self.state.send_if_modified(|state| std::mem::replace(&mut state.phase, phase) != phase);
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state.borrow().phase
    }

    /// What the last cancel was.
    pub(crate) fn cause(&self) -> &'static str {
        self.state.borrow().cause
    }

    /// The driver is gone; `failures` is what could not be done on the way out.
    pub(crate) fn end(&self, failures: Vec<Failure>) {
        self.state.send_modify(|state| state.ended = Some(failures));
    }

    /// Waits until nothing runs and nothing that would run waits, or the driver has ended.
    pub(crate) async fn idle(&self) {
        let idle = |state: &ControlState| {
            state.ended.is_some() || (state.phase == Phase::Idle && state.open.is_empty())
        };
        // The sender lives as long as `self`, so the wait cannot fail.
        drop(self.state.subscribe().wait_for(idle).await);
    }

    /// Waits for the driver's end; what failed on the way.
    pub(crate) async fn ended(&self) -> Vec<Failure> {
        let mut states = self.state.subscribe();
        match states.wait_for(|state| state.ended.is_some()).await {
            Ok(state) => state.ended.clone().unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }
}

impl ControlState {
    fn cancel_turn(&mut self, cause: &'static str) {
        self.cause = cause;
        if let Some((token, _)) = &self.running {
            token.cancel();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control() -> Control {
        Control::new(&CancellationToken::new())
    }

    fn id(id: &str) -> MessageId {
        MessageId::new(id)
    }

    #[test]
    fn a_cancel_reaches_what_was_sent_before_it_and_nothing_after() {
        let control = control();
        let before = control.opened(id("a"));
        control.cancel("cancel");
        let after = control.opened(id("b"));
        assert!(control.begin_turn(&id("a"), before).is_none());
        assert_eq!(control.cause(), "cancel");
        let token = control.begin_turn(&id("b"), after).unwrap();
        assert!(!token.is_cancelled());
        control.cancel("cancel");
        assert!(token.is_cancelled());
    }

    #[test]
    fn a_cancel_of_an_idle_agent_does_not_touch_the_next_turn() {
        let control = control();
        let token = control.begin_turn(&id("a"), control.opened(id("a"))).unwrap();
        control.end_turn();
        control.cancel("cancel");
        assert!(!token.is_cancelled());
        assert!(!control.begin_turn(&id("b"), control.opened(id("b"))).unwrap().is_cancelled());
    }

    #[test]
    fn one_input_can_be_taken_back_alone() {
        let control = control();
        let (a, b) = (control.opened(id("a")), control.opened(id("b")));
        let token = control.begin_turn(&id("a"), a).unwrap();
        control.withdraw(&id("b"), "withdrawn");
        assert!(!token.is_cancelled() && control.is_cancelled(&id("b"), b));
        control.withdraw(&id("a"), "withdrawn");
        assert!(token.is_cancelled() && !control.is_cancelled(&id("a"), a));
        control.settled(&id("b"));
        control.withdraw(&id("b"), "withdrawn");
        assert!(!control.is_cancelled(&id("b"), b), "what is over leaves nothing behind");
    }
}
