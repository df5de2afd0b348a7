//! Every event type with its typed data.
//!
//! One struct per type; the table at the end ties each to its wire name. A new type needs a row
//! there and nothing else. Types belong to the part that appends them; this file only knows their
//! shape. Design: session log, Events.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::content::{Content, TimedBlock, UserSource};
use crate::event::DecodeError;
use crate::id::{MessageId, Route, Seq, SeriesNumber, StepNumber, ToolCallId, TurnNumber};

/// A turn opened; logged before its input is claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStart {
    /// Which turn.
    pub turn: TurnNumber,
}

/// A turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnEnd {
    /// Which turn.
    pub turn: TurnNumber,
    /// Why.
    pub reason: TurnEndReason,
}

/// Why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TurnEndReason {
    /// The model had nothing more to do.
    Completed,
    /// A hook, a budget or a guard stopped it.
    Blocked {
        /// What stopped it, for the person.
        message: String,
        /// Whether a budget or guard (not a hook) did.
        limit: bool,
    },
    /// The model hit its output limit.
    MaxTokens,
    /// The model refused.
    Refused,
    /// A person or the client cancelled.
    Aborted {
        /// What asked for it: `cancel`, `close`, `eof`.
        cause: String,
    },
    /// The turn failed.
    Error {
        /// What failed.
        failure: Failure,
    },
    /// The process died in mid-turn; written by repair.
    Interrupted,
    /// A fork cut the turn open; written by repair.
    Forked,
}

/// A failure as it is stored: never a secret, never a provider's raw body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// A short stable code: `auth`, `rate-limited`, `overloaded`, `transport`, …
    pub code: String,
    /// One sentence for a person.
    pub message: String,
    /// The HTTP status, where there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's request id, where it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
}

/// A step (one request and its tool calls) began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepStart {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
}

/// A step ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepEnd {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
}

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
}

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
    /// The process died before the call was taken up: safe to ask again. Written by repair.
    ToolNotStarted,
    /// The process died after the call was taken up: the effect may have happened. Written by
    /// repair.
    ToolOutcomeUnknown,
}

/// The frame of the requests that follow: a series whose prefix only grows at its end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestHeader {
    /// Which series.
    pub series: SeriesNumber,
    /// Why a new series began: `start`, `model-changed`, `tools-changed`, `resumed`, …
    pub reason: String,
    /// Who is asked.
    pub route: Route,
    /// The names of the tools offered, in the order they are sent.
    pub tools: Vec<String>,
}

/// What the chosen route can take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestContext {
    /// The context window, in tokens.
    pub window: u64,
    /// The most tokens an answer may have.
    pub max_output: u64,
}

/// Input entered or left the queue of the agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InboxSpliced {
    /// Messages that were queued.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub inserted: Vec<UserMessage>,
    /// Messages that left the queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed: Vec<MessageId>,
    /// Why they left: `claimed`, `cancelled`, `discarded: restart`. Empty for insertions.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl InboxSpliced {
    /// Why input left the queue of a session whose process died: nobody has read it.
    pub const DISCARDED: &str = "discarded: restart";
}

/// A person was asked whether one call may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// The call in question.
    pub call: ToolCallId,
    /// The question as shown.
    pub title: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The call in question.
    pub call: ToolCallId,
    /// Whether exactly this call may run, once.
    pub allowed: bool,
    /// Who or what decided: `client`, `cancelled`, `client-error`, `no-approver`.
    pub by: String,
}

/// The permission mode changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionMode {
    /// The new mode's id.
    pub mode: String,
}

/// The model for the requests that follow was chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSelected {
    /// The chosen route.
    pub route: Route,
}

/// A failed request will be tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRetry {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// The number of the try to come, from 2.
    pub attempt: u32,
    /// How long the wait is, in milliseconds.
    pub delay_ms: u64,
    /// Why.
    pub code: String,
}

/// The wait is over and the request goes out again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LlmRetryStarted {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it.
    pub step: StepNumber,
    /// The number of the try, from 2.
    pub attempt: u32,
}

/// The session has a (new) title.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TitleSet {
    /// The title, one line.
    pub title: String,
}

/// Stored events were found damaged and are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogGap {
    /// The first lost event.
    #[serde(rename = "a")]
    pub first: Seq,
    /// The last lost event, inclusive.
    #[serde(rename = "b")]
    pub last: Seq,
    /// What the damaged bytes hash to; empty where no bytes are between the neighbours.
    pub hash: String,
}

/// An event of a type that this build does not know, kept so that it can be rewritten untouched.
#[derive(Clone, Debug)]
pub struct UnknownEvent {
    /// The type as written.
    pub type_name: Arc<str>,
    /// The data as written.
    pub data: Box<RawValue>,
}

macro_rules! vocabulary {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        /// What happened, by type.
        #[derive(Clone, Debug)]
        #[expect(missing_docs, reason = "each variant is documented at its struct")]
        pub enum EventData {
            $($variant($variant),)+
            Unknown(UnknownEvent),
        }

        impl EventData {
            /// The wire name, e.g. `turn/start`.
            pub fn type_name(&self) -> &str {
                match self {
                    $(Self::$variant(_) => $name,)+
                    Self::Unknown(unknown) => &unknown.type_name,
                }
            }

            pub(crate) fn to_raw(&self) -> Result<Box<RawValue>, serde_json::Error> {
                match self {
                    $(Self::$variant(data) => serde_json::value::to_raw_value(data),)+
                    Self::Unknown(unknown) => Ok(unknown.data.clone()),
                }
            }

            pub(crate) fn from_raw(
                type_name: &str,
                data: &RawValue,
                ignorable: bool,
            ) -> Result<Self, DecodeError> {
                match type_name {
                    $($name => Ok(Self::$variant(serde_json::from_str(data.get())?)),)+
                    _ if ignorable => Ok(Self::Unknown(UnknownEvent {
                        type_name: type_name.into(),
                        data: data.to_owned(),
                    })),
                    _ => Err(DecodeError::UnknownRequired(type_name.to_owned())),
                }
            }
        }

        $(impl From<$variant> for EventData {
            fn from(data: $variant) -> Self {
                Self::$variant(data)
            }
        })+
    };
}

vocabulary! {
    TurnStart = "turn/start",
    TurnEnd = "turn/end",
    StepStart = "step/start",
    StepEnd = "step/end",
    SystemMessage = "system/message",
    UserMessage = "user/message",
    AssistantMessage = "assistant/message",
    AssistantPartial = "assistant/partial",
    AssistantAttempt = "assistant/attempt",
    ToolCall = "tool/call",
    ToolResult = "tool/result",
    RequestHeader = "request/header",
    RequestContext = "request/context",
    InboxSpliced = "agent/inbox/spliced",
    ApprovalAsked = "approval/asked",
    ApprovalDecided = "approval/decided",
    PermissionMode = "permission/mode",
    ModelSelected = "model/selected",
    LlmRetry = "llm/retry",
    LlmRetryStarted = "llm/retry-started",
    TitleSet = "title/set",
    LogGap = "log/gap",
}

impl EventData {
    /// Whether events of this type produce a model message and so must be on the surface.
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            Self::SystemMessage(_)
                | Self::UserMessage(_)
                | Self::AssistantMessage(_)
                | Self::ToolResult(_)
        )
    }
    /// Whether a reader that does not know this type may skip its events: true only where that
    /// changes nothing a model sees and nothing a person is allowed to do.
    pub fn is_ignorable(&self) -> bool {
        matches!(
            self,
            Self::AssistantPartial(_)
                | Self::AssistantAttempt(_)
                | Self::LlmRetry(_)
                | Self::LlmRetryStarted(_)
                | Self::TitleSet(_)
                | Self::Unknown(_)
        )
    }
}
