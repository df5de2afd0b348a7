//! The queue of the agent.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::id::MessageId;
use crate::vocabulary::{EventData, UserMessage};

/// Input that was queued and has not left the queue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Inbox {
    /// The messages, oldest first.
    pub messages: Vec<UserMessage>,
}

impl Inbox {
    pub(crate) fn holds(&self, id: &MessageId) -> bool {
        self.messages.iter().any(|message| message.id == *id)
    }
}

impl Fold for Inbox {
    const NAME: &'static str = "inbox";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        if let EventData::InboxSpliced(splice) = &event.data {
            let queued_again =
                |message: &UserMessage| splice.inserted.iter().any(|new| new.id == message.id);
            self.messages
                .retain(|message| !splice.removed.contains(&message.id) && !queued_again(message));
            self.messages.extend(splice.inserted.iter().cloned());
        }
    }
}
