//! The prompts of one session that wait for their answer, and what the person is still to be told.
//!
//! Shared by the session's actor, which opens turns, and its outbox, which answers them. A prompt
//! is answered exactly once: whoever takes its responder answers.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, SessionUpdate};
use bridle_session::MessageId;
use tokio_util::sync::DropGuard;

/// How many notes wait for the next turn; the oldest are kept.
const MAX_NOTES: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    waiting: HashMap<MessageId, Waiting>,
    notes: Vec<SessionUpdate>,
    closing: bool,
}

#[derive(Debug)]
struct Waiting {
    responder: Responder<PromptResponse>,
    /// Ends whatever watches this prompt.
    _answered: DropGuard,
}

impl Turns {
    /// Notes a prompt before the agent gets it.
    pub(super) fn open(
        &self,
        id: MessageId,
        responder: Responder<PromptResponse>,
        answered: DropGuard,
    ) {
        self.state().waiting.insert(id, Waiting { responder, _answered: answered });
    }

    /// Takes the responder of a prompt; `None` when it was taken already.
    pub(super) fn take(&self, id: &MessageId) -> Option<Responder<PromptResponse>> {
        self.state().waiting.remove(id).map(|waiting| waiting.responder)
    }

    /// Takes every responder.
    pub(super) fn take_all(&self) -> Vec<Responder<PromptResponse>> {
        self.state().waiting.drain().map(|(_, waiting)| waiting.responder).collect()
    }

    /// Keeps a message for the next turn, because a client shows messages only in a turn.
    pub(super) fn note(&self, note: SessionUpdate) {
        let mut state = self.state();
        if state.notes.len() < MAX_NOTES {
            state.notes.push(note);
        }
    }

    /// Takes the notes if a turn is open to show them in.
    pub(super) fn take_notes(&self) -> Vec<SessionUpdate> {
        let mut state = self.state();
        if state.waiting.is_empty() { Vec::new() } else { std::mem::take(&mut state.notes) }
    }

    /// From now on the end of the agent is wanted, so what waits is cancelled, not failed.
    pub(super) fn close(&self) {
        self.state().closing = true;
    }

    /// Whether [`Turns::close`] was called.
    pub(super) fn is_closing(&self) -> bool {
        self.state().closing
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
