//! How a tool call looks to a person. Stored with the result, so that a replay shows the same.

use std::path::PathBuf;

use bridle_session::{MessageId, ToolCallId};
use serde::{Deserialize, Serialize};

use crate::update::AgentUpdate;

/// What a client shows of a tool call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Display {
    /// One short line with the path or the command.
    pub title: String,
    /// What sort of thing it is.
    pub kind: ToolKind,
    /// Absolute places it concerns.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locations: Vec<Location>,
    /// File changes, planned or made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub diffs: Vec<FileDiff>,
    /// Markdown text below the title: output, an error, an explanation. Code is fenced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// What the person is told in a message of its own, beside the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Whether its live output is also written as lines.
    #[serde(default, skip)]
    pub streams: bool,
    /// The outcome as data.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw_output: Option<serde_json::Value>,
}

impl Display {
    /// A display with nothing but its head.
    pub fn new(title: impl Into<String>, kind: ToolKind) -> Self {
        Self {
            title: title.into(),
            kind,
            locations: Vec::new(),
            diffs: Vec::new(),
            text: None,
            message: None,
            streams: false,
            raw_output: None,
        }
    }
}

impl Display {
    /// The message beside the call, as an update.
    pub(crate) fn said_beside(&self, call: &ToolCallId) -> Option<AgentUpdate> {
        let text = self.message.clone()?;
        Some(AgentUpdate::MessageChunk { id: MessageId::new(format!("said-{call}")), text })
    }
}

/// The sorts of tool calls that clients tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolKind {
    /// Reads.
    Read,
    /// Changes what files hold.
    Edit,
    /// Deletes files.
    Delete,
    /// Moves files.
    Move,
    /// Searches.
    Search,
    /// Runs a command.
    Execute,
    /// Keeps track of the work or thinks aloud.
    Think,
    /// Changes what the session may do.
    SwitchMode,
    /// Anything else.
    Other,
}

impl ToolKind {
    /// Whether calls of this kind change files by themselves.
    pub fn changes_files(self) -> bool {
        matches!(self, Self::Edit | Self::Delete | Self::Move)
    }
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Absolute path.
    pub path: PathBuf,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// A change of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileDiff {
    /// Absolute path.
    pub path: PathBuf,
    /// The text before; `None` for a new file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// The text after.
    pub new_text: String,
}
