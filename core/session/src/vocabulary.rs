//! Every event type with its typed data.
//!
//! One struct per type; the table ties each to its wire name. A new type needs a struct in the
//! file of its owner, a row in the table, and its rule in `admission`. Types belong to the part
//! that appends them; this folder only knows their shape. Design: session log, Events.

mod log;
mod messages;
mod modes;
mod plugins;
mod requests;
mod tools;
mod turns;

use serde_json::value::RawValue;

pub use self::log::*;
pub use self::messages::*;
pub use self::modes::*;
pub use self::plugins::*;
pub use self::requests::*;
pub use self::tools::*;
pub use self::turns::*;
use crate::event::DecodeError;

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

            /// Whether this build knows events of the type.
            pub(crate) fn knows(type_name: &str) -> bool {
                matches!(type_name, $($name)|+)
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
    DeveloperMessage = "developer/message",
    AssistantMessage = "assistant/message",
    AssistantPartial = "assistant/partial",
    AssistantAttempt = "assistant/attempt",
    ToolCall = "tool/call",
    ToolResult = "tool/result",
    RequestHeader = "request/header",
    RequestContext = "request/context",
    InboxSpliced = "agent/inbox/spliced",
    SeedEnd = "session/seed-end",
    ApprovalAsked = "approval/asked",
    ApprovalDecided = "approval/decided",
    PermissionMode = "permission/mode",
    SandboxMode = "sandbox/mode",
    PlanMode = "plan/mode",
    ModelSelected = "model/selected",
    ThinkingSelected = "thinking/selected",
    LlmRetry = "llm/retry",
    LlmRetryStarted = "llm/retry-started",
    CompactionStart = "compaction/start",
    CompactionEnd = "compaction/end",
    ImageOffload = "image/offload",
    ImageScaled = "image/scaled",
    TodoWrite = "todo/write",
    GoalChange = "goal/change",
    JobStarted = "job/started",
    JobEnded = "job/ended",
    FileObserved = "file/observed",
    FileKept = "file/kept",
    TitleSet = "title/set",
    FeedbackRecord = "feedback/record",
    LogGap = "log/gap",
}

impl EventData {
    /// Whether events of this type produce a model message and so must be on the surface.
    pub fn is_message(&self) -> bool {
        matches!(
            self,
            Self::SystemMessage(_)
                | Self::UserMessage(_)
                | Self::DeveloperMessage(_)
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
                | Self::FeedbackRecord(_)
                | Self::FileKept(_)
                | Self::Unknown(_)
        )
    }
}
