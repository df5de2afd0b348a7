//! Input that waits: for the next step of the running turn, or for a turn of its own.
//!
//! Every way in and out is on the log. A turn begins with all that waits for a step and the first
//! that waits for a turn. Design: driver.

use std::collections::VecDeque;

use bridle_session::{InboxSpliced, InputQueue, MessageId, UserMessage};

use super::Driver;
use crate::mailbox::Epoch;
use crate::update::{AgentUpdate, TurnOutcome};

/// What waits, in the order in which it came.
#[derive(Debug, Default)]
pub(super) struct Inbox(VecDeque<Waiting>);

#[derive(Debug)]
struct Waiting {
    id: MessageId,
    what: What,
    /// When it was sent, for what somebody waits for. The rest wakes nobody.
    epoch: Option<Epoch>,
}

#[derive(Debug)]
enum What {
    /// Input for the model.
    Input(UserMessage, InputQueue),
    /// The conversation is to be shortened, with this in focus. It is no input, and on no queue of
    /// the log: what comes of it is there.
    Compaction(String),
}

impl Waiting {
    fn is_for(&self, wanted: InputQueue) -> bool {
        matches!(&self.what, What::Input(_, queue) if *queue == wanted)
    }
}

/// Input on its way to the model.
#[derive(Debug, Default)]
pub(super) struct Claimed {
    pub(super) messages: Vec<UserMessage>,
    /// Of them, those whose end somebody waits for, in the order in which they came.
    pub(super) awaited: Vec<MessageId>,
}

impl Inbox {
    /// What is to be done next: the oldest that wakes. A turn that this input begins, or shortening
    /// the conversation with this focus.
    pub(super) fn waking(&self) -> Option<(MessageId, Epoch, Option<String>)> {
        self.0.iter().find_map(|waiting| {
            let focus = match &waiting.what {
                What::Input(..) => None,
                What::Compaction(focus) => Some(focus.clone()),
            };
            Some((waiting.id.clone(), waiting.epoch?, focus))
        })
    }

    /// Whether something waits for the next step.
    pub(super) fn has_next_step(&self) -> bool {
        self.0.iter().any(|waiting| waiting.is_for(InputQueue::NextStep))
    }

    /// What a session that was left has to tell its model still.
    pub(super) fn left(messages: &[UserMessage]) -> Self {
        let waiting = |message: &UserMessage| Waiting {
            id: message.id.clone(),
            what: What::Input(message.clone(), InputQueue::NextStep),
            epoch: None,
        };
        Self(messages.iter().map(waiting).collect())
    }

    pub(super) fn remove(&mut self, id: &MessageId) {
        self.0.retain(|waiting| waiting.id != *id);
    }

    fn claim(&mut self, begins_turn: bool) -> Claimed {
        let is_turn = |waiting: &Waiting| waiting.is_for(InputQueue::NextTurn);
        let first_turn = begins_turn.then(|| self.0.iter().position(is_turn)).flatten();
        let mut claimed = Claimed::default();
        let mut turn_input = None;
        for (place, waiting) in std::mem::take(&mut self.0).into_iter().enumerate() {
            let Waiting { id, what, epoch } = waiting;
            match what {
                What::Input(message, InputQueue::NextStep) => claimed.messages.push(message),
                What::Input(message, InputQueue::NextTurn) if Some(place) == first_turn => {
                    turn_input = Some(message);
                }
                what => {
                    self.0.push_back(Waiting { id, what, epoch });
                    continue;
                }
            }
            claimed.awaited.extend(epoch.map(|_| id));
        }
        claimed.messages.extend(turn_input);
        claimed
    }
}

impl Driver {
    /// Takes input in.
    pub(super) fn queue(&mut self, message: UserMessage, queue: InputQueue, epoch: Option<Epoch>) {
        // A failed record is not lost: the turn's own barrier reports it.
        self.record(InboxSpliced::queued(message.clone(), queue));
        let (id, what) = (message.id.clone(), What::Input(message, queue));
        self.inbox.0.push_back(Waiting { id, what, epoch });
    }

    /// Takes note that the conversation is to be shortened when its turn comes.
    pub(super) fn queue_compaction(&mut self, id: MessageId, focus: String, epoch: Epoch) {
        let what = What::Compaction(focus);
        self.inbox.0.push_back(Waiting { id, what, epoch: Some(epoch) });
    }

    /// What Bridle itself has to say before the next step; it wakes nobody.
    pub(super) fn inject(&mut self, message: UserMessage) {
        self.queue(message, InputQueue::NextStep, None);
    }

    /// Takes out what the next step begins with.
    pub(super) fn claim(&mut self, begins_turn: bool) -> Claimed {
        let claimed = self.inbox.claim(begins_turn);
        let ids: Vec<_> = claimed.messages.iter().map(|message| message.id.clone()).collect();
        if !ids.is_empty() {
            self.unqueue(ids, InboxSpliced::CLAIMED);
        }
        claimed
    }

    /// Input that joins the turn between its steps.
    pub(super) async fn claim_joining(&mut self) -> Vec<UserMessage> {
        let claimed = self.claim(false);
        for id in &claimed.awaited {
            self.send(AgentUpdate::Joined { prompt: id.clone() }).await;
        }
        self.awaited.extend(claimed.awaited);
        claimed.messages
    }

    /// Answers one input that was taken back by name; it need not wait for the turn that runs.
    pub(super) async fn take_back(&mut self, id: &MessageId) {
        let waits = self.inbox.0.iter().any(|waiting| {
            waiting.id == *id
                && waiting.epoch.is_some_and(|epoch| self.control.is_cancelled(id, epoch))
        });
        if waits {
            self.answer_cancelled(vec![id.clone()]).await;
        }
    }

    /// Answers the input that no turn will take, now that none runs: it was cancelled before the
    /// model read it, or was to join a turn that has ended.
    pub(super) async fn take_back_cancelled(&mut self) {
        let cancelled = self.inbox.0.iter().filter(|waiting| {
            waiting.epoch.is_some_and(|epoch| self.control.is_void(&waiting.id, epoch))
        });
        let cancelled: Vec<_> = cancelled.map(|waiting| waiting.id.clone()).collect();
        self.answer_cancelled(cancelled).await;
    }

    /// Answers all that somebody waits for when the driver ends. What Bridle itself has to say is
    /// said before the next step, in whatever process that is.
    pub(super) async fn take_back_all(&mut self) {
        let waiting = self.inbox.0.iter().filter(|waiting| waiting.epoch.is_some());
        let ids = waiting.map(|waiting| waiting.id.clone()).collect();
        self.answer_cancelled(ids).await;
    }

    async fn answer_cancelled(&mut self, ids: Vec<MessageId>) {
        if ids.is_empty() {
            return;
        }
        let is_input = |id: &&MessageId| {
            self.inbox.0.iter().any(|it| it.id == **id && matches!(it.what, What::Input(..)))
        };
        let input: Vec<_> = ids.iter().filter(is_input).cloned().collect();
        if !input.is_empty() {
            self.unqueue(input, InboxSpliced::CANCELLED);
        }
        for id in ids {
            self.inbox.remove(&id);
            self.end(id, TurnOutcome::Cancelled).await;
        }
    }

    fn unqueue(&mut self, removed: Vec<MessageId>, reason: &str) {
        self.record(InboxSpliced::removed(removed, reason));
    }
}
