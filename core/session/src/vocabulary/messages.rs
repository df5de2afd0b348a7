//! What a model reads and says, and the queue in which input waits.

use serde::{Deserialize, Serialize};

use crate::content::{Content, TimedBlock, UserSource};
use crate::id::{MessageId, Route, StepNumber, TurnNumber};
use crate::vocabulary::Failure;

/// The rendered system prompt. On the surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemMessage {
    /// The whole prompt.
    pub text: String,
}

/// Human input or injected context. On the surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UserMessage {
    /// The message's id.
    pub id: MessageId,
    /// Its parts, never empty.
    pub content: Vec<Content>,
    /// Who said it.
    pub source: UserSource,
}

/// Tools that came or went since the last request header. On the surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeveloperMessage {
    /// The names of the tools that can be called from here on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added: Vec<String>,
    /// The names of the tools that cannot be called any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<String>,
}

/// A settled answer of the model. On the surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantMessage {
    /// The message's id, the same as on the live stream.
    pub id: MessageId,
    /// The assembled blocks in the order they came.
    pub blocks: Vec<TimedBlock>,
    /// Who answered.
    pub route: Route,
    /// Why the answer ended, in the neutral words of the model seam.
    pub stop: String,
    /// What it cost.
    pub usage: Usage,
    /// True when the answer was cut off and only a safe prefix is kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
}

/// Tokens of one request as the provider counted them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were neither read from nor written to a cache.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from a cache.
    #[serde(default)]
    pub cache_read: u64,
    /// Input tokens written to a cache.
    #[serde(default)]
    pub cache_write: u64,
}

impl Usage {
    /// All tokens of the prompt and of the answer: what the next request starts from.
    pub fn context(&self) -> u64 {
        [self.input, self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Both together; saturates.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cache_read: self.cache_read.saturating_add(other.cache_read),
            cache_write: self.cache_write.saturating_add(other.cache_write),
        }
    }

    /// What is more here than in an earlier sum.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            input: self.input.saturating_sub(earlier.input),
            output: self.output.saturating_sub(earlier.output),
            cache_read: self.cache_read.saturating_sub(earlier.cache_read),
            cache_write: self.cache_write.saturating_sub(earlier.cache_write),
        }
    }
}

/// A piece of an answer that is still streamed. The pieces of one message in their order are its
/// beginning; they count only until the attempt is settled or has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantPartial {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// The message's id, the same as on the live stream; another one for each attempt.
    pub id: MessageId,
    /// Whether the text of the first block goes on where the last piece ended.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// What came since the last piece: text as it stands, reasoning in complete blocks only.
    pub blocks: Vec<TimedBlock>,
    /// Who answers.
    pub route: Route,
    /// What it cost so far.
    pub usage: Usage,
}

/// A request that failed or was retried; kept for diagnosis, never shown to the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AssistantAttempt {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// Which try of the step's request, from 1.
    pub attempt: u32,
    /// What went wrong.
    pub failure: Failure,
    /// What it cost all the same, where the provider said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// Input entered or left the queue of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxSpliced {
    /// Messages that were queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<UserMessage>,
    /// What the inserted messages wait for.
    #[serde(default, skip_serializing_if = "InputQueue::is_next_turn")]
    pub queue: InputQueue,
    /// Messages that left the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MessageId>,
    /// Why they left: one of the constants below. Empty for insertions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What queued input waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InputQueue {
    /// A turn of its own.
    #[default]
    NextTurn,
    /// The next step of the running turn; of the next turn when none runs.
    NextStep,
}

impl InputQueue {
    fn is_next_turn(&self) -> bool {
        *self == Self::NextTurn
    }
}

impl InboxSpliced {
    /// Why input left the queue: a turn took it.
    pub const CLAIMED: &str = "claimed";

    /// Why input left the queue: it was cancelled before a turn took it.
    pub const CANCELLED: &str = "cancelled";

    /// Why input left the queue of a session whose process died: nobody has read it.
    pub const DISCARDED_BY_RESTART: &str = "discarded: restart";

    /// Why input left the queue of a fork: it was for the session that was forked.
    pub const DISCARDED_BY_FORK: &str = "discarded: fork";

    /// A message enters the queue.
    pub fn queued(message: UserMessage, queue: InputQueue) -> Self {
        Self { inserted: vec![message], queue, removed: Vec::new(), reason: String::new() }
    }

    /// Messages leave the queue.
    pub fn removed(removed: Vec<MessageId>, reason: impl Into<String>) -> Self {
        let (inserted, queue) = (Vec::new(), InputQueue::default());
        Self { inserted, queue, removed, reason: reason.into() }
    }

    /// Whether what left the queue was sent to nobody and taken back by nobody.
    pub fn is_discarded(&self) -> bool {
        [Self::DISCARDED_BY_RESTART, Self::DISCARDED_BY_FORK].contains(&self.reason.as_str())
    }
}
