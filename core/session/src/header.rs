//! The header of a session: what is fixed at creation and stands outside the log.

use std::num::NonZeroU64;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::id::{EventCount, SessionId, UnixMillis};

/// The immutable facts of one session, written once before any event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// Version of the log format; this build writes [`Header::FORMAT`].
    pub format: u32,
    /// The session's own id.
    pub id: SessionId,
    /// When the session was created.
    pub created_at: UnixMillis,
    /// The canonical, absolute working directory.
    pub cwd: PathBuf,
    /// Further absolute roots that the session may work in.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_roots: Vec<PathBuf>,
    /// The session this one was forked from, and how many of its events were inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Who asked for the session: `acp`, `exec`, `demo`.
    pub origin: String,
    /// How deep in a chain of delegations this session stands; 0 for a person's own.
    #[serde(default)]
    pub delegation_depth: u32,
    /// What whoever created the session asked of it.
    #[serde(default, skip_serializing_if = "Terms::is_empty")]
    pub terms: Terms,
}

/// What a session is bound to besides the user's settings, from its beginning on. A fork has the
/// same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Terms {
    /// The id of the permission mode that nothing can raise the session above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ceiling: Option<String>,
    /// What the model is told besides Bridle's own system prompt, or instead of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<SystemPrompt>,
    /// The model it begins with, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The only tools that the model is offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// The most steps of one turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub turn_steps: Option<NonZeroU64>,
}

/// Instructions for the model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemPrompt {
    /// The text.
    pub text: String,
    /// Whether Bridle's own instructions are left out.
    #[serde(default)]
    pub replaces: bool,
}

impl Terms {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Where a forked session came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's id; the parent itself may have been deleted.
    pub id: SessionId,
    /// The length of the inherited prefix.
    pub inherited: EventCount,
}

impl Header {
    /// The format version that this build writes.
    pub const FORMAT: u32 = 1;
}
