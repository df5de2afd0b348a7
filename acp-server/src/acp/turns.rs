//! The prompts of one session that wait for their answer, and what the person is still to be told.
//!
//! Shared by the session's actor, which opens them in the order of the wire, and its outbox, which
//! answers them in that order. A prompt is answered exactly once: whoever takes its responder
//! answers.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use agent_client_protocol::v1::Responder;
use agent_client_protocol::v1::schema::{PromptResponse, SessionUpdate};
use bridle_session::MessageId;
use serde_json::Value;
use tokio::sync::Notify;
use tokio_util::sync::DropGuard;

use super::commands::LocalCommand;
use super::steering::Steerings;

/// How many notes wait for the next turn; the oldest are kept.
const MAX_NOTES: usize = 32;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    /// Told when a local command may have come to the front.
    local: Notify,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Loads of this session while it is open, in the order in which the agent is asked for them.
    replays: VecDeque<Responder<Value>>,
    steerings: Steerings,
    notes: Vec<SessionUpdate>,
    closing: bool,
}

#[derive(Debug)]
struct Waiting {
    id: MessageId,
    work: Work,
    responder: Responder<PromptResponse>,
    /// Ends whatever watches this prompt.
    _answered: DropGuard,
}

/// What answers a prompt.
#[derive(Clone, Copy, Debug)]
pub(super) enum Work {
    /// A turn of the agent.
    Turn,
    /// Bridle itself, when everything before it is answered.
    Local(LocalCommand),
    /// Nothing any more: a cancel reached the local command before its place came.
    CancelledLocal,
}

/// A prompt that needs no turn and whose place has come.
pub(super) struct LocalPrompt {
    /// What is asked for; `None` when it was cancelled.
    pub(super) command: Option<LocalCommand>,
    pub(super) responder: Responder<PromptResponse>,
}

impl Turns {
    /// Notes a prompt, before the agent gets it where it is one for a turn.
    pub(super) fn open(
        &self,
        id: MessageId,
        work: Work,
        responder: Responder<PromptResponse>,
        answered: DropGuard,
    ) {
        let waiting = Waiting { id, work, responder, _answered: answered };
        self.state().waiting.push_back(waiting);
        if matches!(work, Work::Local(_)) {
            self.local.notify_one();
        }
    }

    /// Takes the responder of a prompt; `None` when it was taken already.
    pub(super) fn take(&self, id: &MessageId) -> Option<Responder<PromptResponse>> {
        self.remove(|waiting| waiting.id == *id)
    }

    /// As [`Turns::take`], for a prompt that waits for no turn only.
    pub(super) fn take_local(&self, id: &MessageId) -> Option<Responder<PromptResponse>> {
        self.remove(|waiting| waiting.id == *id && !matches!(waiting.work, Work::Turn))
    }

    fn remove(&self, which: impl Fn(&Waiting) -> bool) -> Option<Responder<PromptResponse>> {
        let mut state = self.state();
        let at = state.waiting.iter().position(which)?;
        state.waiting.remove(at).map(|waiting| waiting.responder)
    }

    /// Whether the agent has something to do that is not over.
    pub(super) fn is_busy(&self) -> bool {
        let state = self.state();
        !state.steerings.is_empty()
            || state.waiting.iter().any(|waiting| matches!(waiting.work, Work::Turn))
    }

    /// Takes the first prompt if it needs no turn.
    pub(super) fn next_local(&self) -> Option<LocalPrompt> {
        let mut state = self.state();
        let command = match state.waiting.front()?.work {
            Work::Turn => return None,
            Work::Local(command) => Some(command),
            Work::CancelledLocal => None,
        };
        let responder = state.waiting.pop_front()?.responder;
        Some(LocalPrompt { command, responder })
    }

    /// Waits until a local command may have come to the front.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn local(&self) {
        self.local.notified().await;
    }

    /// A cancel was sent behind everything that is open now. The agent answers for what it has.
    pub(super) fn cancel(&self) {
        let mut state = self.state();
        state.steerings.cancel();
        for waiting in &mut state.waiting {
            if matches!(waiting.work, Work::Local(_)) {
                waiting.work = Work::CancelledLocal;
            }
        }
    }

    /// Notes a load, before the agent is asked for the replay.
    pub(super) fn open_replay(&self, responder: Responder<Value>) {
        self.state().replays.push_back(responder);
    }

    /// Takes the load whose replay has come.
    pub(super) fn take_replay(&self) -> Option<Responder<Value>> {
        self.state().replays.pop_front()
    }

    /// Takes the load back that was noted last.
    pub(super) fn take_last_replay(&self) -> Option<Responder<Value>> {
        self.state().replays.pop_back()
    }

    /// Calls on the messages for running turns.
    pub(super) fn steerings<T>(&self, call: impl FnOnce(&mut Steerings) -> T) -> T {
        call(&mut self.state().steerings)
    }

    /// Takes every responder, in order.
    pub(super) fn take_all(&self) -> Vec<Responder<PromptResponse>> {
        self.state().waiting.drain(..).map(|waiting| waiting.responder).collect()
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
        let mut state = self.state();
        state.closing = true;
        state.steerings.cancel();
    }

    /// Whether [`Turns::close`] was called.
    pub(super) fn is_closing(&self) -> bool {
        self.state().closing
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
