//! How the outside reaches a driver: a bounded mailbox, and a leaf for what may not wait.
//!
//! Cancelling must reach a driver that is busy, and must reach exactly the prompts that were sent
//! before it. So it goes past the mailbox: it moves the epoch on and cancels the running turn's
//! token, and a prompt of an older epoch is answered as cancelled when its turn comes.

use std::sync::{Mutex, PoisonError};

use bridle_session::{Route, UserMessage};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use crate::agent::AgentStatus;
use crate::mode::Mode;

/// How many commands may wait. Beyond it prompts are refused and other calls wait.
pub(crate) const MAILBOX_LIMIT: usize = 64;

/// What a driver can be told.
#[derive(Debug)]
pub(crate) enum Command {
    Prompt { message: UserMessage, epoch: Epoch },
    SetMode { mode: Mode, done: oneshot::Sender<()> },
    SetRoute { route: Route, done: oneshot::Sender<()> },
    Status { answer: oneshot::Sender<AgentStatus> },
}

/// Counts cancels; a prompt belongs to the epoch in which it was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Epoch(u64);

/// What reaches a busy driver at once.
#[derive(Debug)]
pub(crate) struct Control {
    state: Mutex<ControlState>,
    closing: CancellationToken,
}

#[derive(Debug)]
struct ControlState {
    epoch: Epoch,
    running: Option<CancellationToken>,
    cause: &'static str,
}

impl Control {
    /// A driver that also ends when `owner` is cancelled.
    pub(crate) fn new(owner: &CancellationToken) -> Self {
        // Until somebody cancels by name, only the owner's own end can cancel.
        let state = ControlState { epoch: Epoch::default(), running: None, cause: "shutdown" };
        Self { state: Mutex::new(state), closing: owner.child_token() }
    }

    /// The epoch that a prompt sent now belongs to.
    pub(crate) fn epoch(&self) -> Epoch {
        self.lock().epoch
    }

    /// Cancels the running turn and every prompt sent so far.
    pub(crate) fn cancel(&self, cause: &'static str) {
        let mut state = self.lock();
        state.epoch = Epoch(state.epoch.0.saturating_add(1));
        state.cause = cause;
        if let Some(token) = &state.running {
            token.cancel();
        }
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

    /// Opens a turn for a prompt of `epoch`: its token, or the cause of the cancel that came
    /// first.
    pub(crate) fn begin_turn(&self, epoch: Epoch) -> Result<CancellationToken, &'static str> {
        let mut state = self.lock();
        if epoch < state.epoch {
            return Err(state.cause);
        }
        let token = self.closing.child_token();
        state.running = Some(token.clone());
        Ok(token)
    }

    /// Closes the turn.
    pub(crate) fn end_turn(&self) {
        self.lock().running = None;
    }

    /// What the last cancel was.
    pub(crate) fn cause(&self) -> &'static str {
        self.lock().cause
    }

    /// The leaf lock; nothing panics under it, so a poisoned one is still sound.
    fn lock(&self) -> std::sync::MutexGuard<'_, ControlState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_reaches_what_was_sent_before_it_and_nothing_after() {
        let control = Control::new(&CancellationToken::new());
        let before = control.epoch();
        control.cancel("cancel");
        let after = control.epoch();
        assert_eq!(control.begin_turn(before).err(), Some("cancel"));
        let token = control.begin_turn(after).unwrap();
        assert!(!token.is_cancelled());
        control.cancel("cancel");
        assert!(token.is_cancelled());
    }

    #[test]
    fn a_cancel_of_an_idle_agent_does_not_touch_the_next_turn() {
        let control = Control::new(&CancellationToken::new());
        let token = control.begin_turn(control.epoch()).unwrap();
        control.end_turn();
        control.cancel("cancel");
        assert!(!token.is_cancelled());
        assert!(!control.begin_turn(control.epoch()).unwrap().is_cancelled());
    }
}
