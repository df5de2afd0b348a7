//! The provider-neutral pieces of a streamed answer.

use bridle_session::{Block, OpaqueBlock, Usage};

/// One piece of an answer, in the order the provider sent it.
#[derive(Clone, Debug)]
pub enum Chunk {
    /// The answer began; carries the input usage where the provider gives it first.
    Start {
        /// Usage so far.
        usage: Usage,
    },
    /// A block began.
    BlockStart {
        /// The provider's index of the block.
        index: u32,
        /// What it is.
        kind: BlockKind,
    },
    /// More text of a text block.
    TextDelta {
        /// The block.
        index: u32,
        /// The piece.
        text: String,
    },
    /// More reasoning of a thinking block, as shown to a person.
    ThinkingDelta {
        /// The block.
        index: u32,
        /// The piece.
        text: String,
    },
    /// More argument text of a tool call.
    ArgumentsDelta {
        /// The block.
        index: u32,
        /// The piece.
        json: String,
    },
    /// The provider's own form of a block that ends with the next chunk, sent where the block
    /// keeps only a part of it. It is stored beside the block and returned in its place.
    OwnForm {
        /// The block.
        index: u32,
        /// The JSON of the block as the provider wrote it.
        raw: OpaqueBlock,
    },
    /// A block is complete, exactly as it must be stored and returned.
    BlockEnd {
        /// The block.
        index: u32,
        /// Its final form.
        block: Block,
    },
    /// Why the model refuses.
    Refusal(Refusal),
    /// Usage, cumulative for this request.
    Usage(Usage),
    /// The answer is complete; nothing follows.
    Stop(StopReason),
}

/// What a provider says of a refusal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The provider's word for what was refused, e.g. `cyber`; many refusals have none.
    pub category: Option<String>,
    /// A sentence for a person.
    pub explanation: Option<String>,
}

/// What a block is, known when it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BlockKind {
    /// Text.
    Text,
    /// Reasoning (also when redacted).
    Thinking,
    /// A tool call; id and name are known from the start.
    ToolCall {
        /// The call's id.
        id: bridle_session::ToolCallId,
        /// The tool's name.
        name: String,
    },
    /// Something this build does not understand.
    Opaque,
}

/// Why an answer ended, in neutral words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model was done.
    EndTurn,
    /// The model wants its tool calls run.
    ToolUse,
    /// The output limit was reached.
    MaxTokens,
    /// The context window was reached; handled like `MaxTokens` until compaction exists.
    ContextFull,
    /// The provider paused a long turn; sending the answer back continues it.
    Pause,
    /// The model refused.
    Refusal,
}

impl StopReason {
    /// The word under which the log keeps it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::EndTurn => "end-turn",
            Self::ToolUse => "tool-use",
            Self::MaxTokens => "max-tokens",
            Self::ContextFull => "context-full",
            Self::Pause => "pause",
            Self::Refusal => "refusal",
        }
    }
}
