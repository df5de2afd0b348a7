//! The sessions that are open on this connection: from an id to the mailbox of its actor.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bridle_session::SessionId;
use tokio::sync::mpsc;

use super::errors;
use super::ledger::MAX_OPEN;
use super::session::Command;

/// How many commands may wait for one session. Requests alone cannot fill it, since no more than
/// [`MAX_OPEN`] are unanswered.
const MAILBOX: usize = 2 * MAX_OPEN;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    open: Mutex<HashMap<SessionId, mpsc::Sender<Command>>>,
}

impl Sessions {
    /// Puts a command into the mailbox of an open session. What cannot be delivered is answered.
    pub(super) fn send(&self, id: &str, command: Command) {
        if let Some(command) = self.deliver(id, command) {
            command.refuse(&errors::session_not_open(id));
        }
    }

    /// As [`Sessions::send`], but gives the command back when the session is not open.
    pub(super) fn deliver(&self, id: &str, command: Command) -> Option<Command> {
        let Some(id) = SessionId::parse(id) else {
            return Some(command);
        };
        let mut open = self.open();
        let Some(mailbox) = open.get(&id) else {
            return Some(command);
        };
        match mailbox.try_send(command) {
            Ok(()) => None,
            Err(mpsc::error::TrySendError::Full(command)) => {
                // Only cancels can pile up like this, and one of them is enough.
                command.refuse(&errors::too_many_requests(MAILBOX));
                None
            }
            // The actor ended without retiring its id: it panicked.
            Err(mpsc::error::TrySendError::Closed(command)) => {
                open.remove(&id);
                Some(command)
            }
        }
    }

    /// Opens a mailbox for a session that has none; the caller runs its actor.
    pub(super) fn register(&self, id: &SessionId) -> mpsc::Receiver<Command> {
        let (sender, receiver) = mpsc::channel(MAILBOX);
        self.open().insert(id.clone(), sender);
        receiver
    }

    /// Closes the mailbox of a session that has ended, unless a command has arrived in it.
    pub(super) fn retire(&self, id: &SessionId, mailbox: &mpsc::Receiver<Command>) -> bool {
        let mut open = self.open();
        // Commands are sent under the same lock, so none can slip in between.
        let idle = mailbox.is_empty();
        if idle {
            open.remove(id);
        }
        idle
    }

    fn open(&self) -> MutexGuard<'_, HashMap<SessionId, mpsc::Sender<Command>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
