//! Tool calls, their results, and what tools leave running or have seen.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::blob::BlobRef;
use crate::content::Content;
use crate::id::{JobId, ToolCallId};

/// The model asked for a tool; logged before anything of it happens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// The raw argument text.
    pub arguments: String,
}

/// What came of a tool call. On the surface.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ToolResult {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: String,
    /// What the model reads.
    pub content: Vec<Content>,
    /// Set when the call did not succeed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ToolErrorCode>,
    /// What a client is shown, live and on a replay; opaque here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub presentation: Option<Box<RawValue>>,
}

/// Why a tool call did not succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ToolErrorCode {
    /// The model named a tool that does not exist.
    UnknownTool,
    /// The arguments are not JSON or break the schema; the body did not run.
    BadArguments,
    /// A person, a mode or a rule said no; the body did not run.
    Denied,
    /// The turn was cancelled before the body began.
    AbortedBeforeDispatch,
    /// The turn was cancelled while the body ran; its effect may be partial.
    Aborted,
    /// The body ran and failed.
    Failed,
    /// The log ended (the process died, or a fork cut it) before the call was taken up: this
    /// session has not run it. Written by repair.
    ToolNotStarted,
    /// The log ended after the call was taken up: the effect may have happened. Written by
    /// repair.
    ToolOutcomeUnknown,
}

/// A process that a tool started runs on after its call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobStarted {
    /// The job's id.
    pub id: JobId,
    /// What it is, for a person: one line, as a rule the command.
    pub title: String,
}

/// A job does not run any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobEnded {
    /// The job's id.
    pub id: JobId,
    /// How it ended.
    pub outcome: JobOutcome,
}

/// How a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum JobOutcome {
    /// By itself.
    Exited {
        /// The exit code.
        code: i32,
    },
    /// By a signal, also when Bridle sent it because the job was to end.
    Killed {
        /// The signal's number.
        signal: i32,
    },
    /// Nobody saw it end: the process that ran it died, or a fork left it to the parent. Written
    /// by repair.
    Lost,
}

/// The agent has seen a file as it is now, so that a later edit can notice another's change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileObserved {
    /// The file's absolute path.
    pub path: PathBuf,
    /// The hash of its content, in hexadecimal digits, as the provider of files makes it; `None`
    /// when nothing is there any more. The content is not kept: this names no stored blob.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// A tool is about to change a file for the first time in this turn, or a command has changed one:
/// what it held until then, so that the turn can be undone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileKept {
    /// The file's absolute path.
    pub path: PathBuf,
    /// What is there.
    pub before: FileBefore,
    /// The hash of what a command left there, as in [`FileObserved`]; `None` when it left nothing,
    /// and where a tool is about to change the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<String>,
}

/// What is at a path before a turn changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum FileBefore {
    /// Nothing.
    Absent,
    /// A file.
    File {
        /// Its content.
        blob: BlobRef,
        /// Its permission bits.
        mode: u32,
    },
    /// Something that could not be kept.
    Unkept {
        /// Why, for a person.
        reason: String,
    },
}
