//! Facts that belong to one plugin each.

use serde::{Deserialize, Serialize};

use crate::blob::{BlobHash, BlobRef};
use crate::id::Seq;
use crate::vocabulary::{Usage, UserMessage};

/// The session has a (new) title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleSet {
    /// The title, one line.
    pub title: String,
}

/// A person said what they think of the session. No model reads it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedbackRecord {
    /// In their words.
    pub text: String,
}

/// The whole list of what is to be done; the last one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoWrite {
    /// The items in their order; none clears the list.
    pub items: Vec<TodoItem>,
}

/// One thing to be done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TodoItem {
    /// What.
    pub text: String,
    /// How far it is.
    pub status: TodoStatus,
}

/// How far a thing to be done is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoStatus {
    /// Not begun.
    Pending,
    /// Begun.
    InProgress,
    /// Done.
    Completed,
}

/// What the agent works towards over many turns changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoalChange {
    /// The goal; `None` when there is none any more.
    pub goal: Option<String>,
}

/// A compaction began: a lock on the surface until its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionStart {
    /// Why now.
    pub trigger: CompactionTrigger,
    /// The size of the context before it, in tokens.
    pub tokens: u64,
    /// What the summary request says behind the conversation: a model reads it. `None` when no
    /// model is asked, because leaving out parts of old results is enough.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction: Option<UserMessage>,
    /// What of the conversation the summary request leaves out, because all of it is too long.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub omits: Option<Span>,
}

/// A run of nodes of a surface, both ends inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// The first one.
    pub first: Seq,
    /// The last one.
    pub last: Seq,
}

/// Why a compaction began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CompactionTrigger {
    /// The conversation neared the route's limit.
    Pressure,
    /// The provider refused a request as too long.
    Overflow,
    /// A person asked for it.
    Person,
}

/// A compaction ended; what it put in place stands on the surface before this.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompactionEnd {
    /// How.
    pub outcome: CompactionOutcome,
    /// What the summary request cost, where one was sent and the provider counted it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usage: Option<Usage>,
}

/// How a compaction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum CompactionOutcome {
    /// The surface is shorter.
    Compacted {
        /// The size of the context now, in tokens: an estimate until the next answer.
        tokens: u64,
    },
    /// The surface is as it was.
    Failed {
        /// Why, for a person.
        message: String,
    },
    /// Somebody cancelled it.
    Cancelled,
    /// It was broken off before anything was put in place. Written by repair.
    Interrupted,
}

/// From here on models are shown another file in the place of an image, because it is larger than a
/// provider takes. Wherever the conversation has that image, the last one counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageScaled {
    /// The image as it came in; its file stays.
    pub image: BlobHash,
    /// Its size as a person sees it.
    pub from: PixelSize,
    /// What is shown.
    pub blob: BlobRef,
    /// Its media type.
    pub mime_type: String,
    /// Its size.
    pub to: PixelSize,
    /// Whether it is only the first picture of several.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub first_of_several: bool,
}

/// The sides of a picture in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PixelSize {
    /// From left to right.
    pub width: u32,
    /// From top to bottom.
    pub height: u32,
}

/// Images that are shown to models as a note of text from here on. Their blobs stay. Where an answer of
/// the current series has seen one of them, the next request begins a series.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageOffload {
    /// The messages whose images these are.
    pub messages: Vec<Seq>,
    /// Why they are not shown.
    #[serde(default, skip_serializing_if = "OffloadReason::is_lost")]
    pub reason: OffloadReason,
    /// How many images of the last of the messages these are, from its first on; all of them where
    /// nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of_last: Option<u32>,
}

/// Why images are not shown any more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OffloadReason {
    /// Their files cannot be read.
    #[default]
    Lost,
    /// A provider refused a request because of one of them.
    Refused,
    /// A provider takes fewer, or smaller requests, and later ones stay.
    Room,
}

impl OffloadReason {
    fn is_lost(&self) -> bool {
        *self == Self::Lost
    }
}
