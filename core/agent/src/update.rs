//! What the driver tells a client, in order. The stream is bounded: a slow client slows the
//! turn, never the memory.

use bridle_model::Effort;
use bridle_session::{
    CompactionOutcome, Content, Cost, Failure, MessageId, Route, Seq, SessionState, TodoItem,
    ToolCallId, Usage,
};

use crate::compaction::Fill;
use crate::display::Display;
use crate::mode::Mode;

/// One thing a client must see. A replay of a stored session yields the same updates.
#[derive(Clone, Debug)]
pub enum AgentUpdate {
    /// A user message; only in a replay.
    UserMessage {
        /// The message.
        id: MessageId,
        /// Its parts.
        content: Vec<Content>,
    },
    /// More text of an answer. Adjacent pieces may be joined on their way.
    MessageChunk {
        /// The answer.
        id: MessageId,
        /// The piece.
        text: String,
    },
    /// More reasoning of an answer.
    ThoughtChunk {
        /// The answer.
        id: MessageId,
        /// The piece.
        text: String,
    },
    /// The text or the reasoning that was being given is complete.
    BlockEnded,
    /// The model asked for a tool. `status` is `Pending` live, final in a replay.
    ToolCall {
        /// The call.
        id: ToolCallId,
        /// The tool's name.
        name: String,
        /// The argument text as the model wrote it.
        arguments: String,
        /// Where it stands.
        status: ToolStatus,
        /// What to show.
        display: Display,
    },
    /// A call moved on. The display replaces what was shown.
    ToolCallUpdate {
        /// The call.
        id: ToolCallId,
        /// Where it stands.
        status: ToolStatus,
        /// What to show; `None` leaves it as it is.
        display: Option<Display>,
    },
    /// Live output of a running call; replaces earlier live output.
    ToolProgress {
        /// The call.
        id: ToolCallId,
        /// The text that should be visible now.
        text: String,
    },
    /// More live output of a running call whose display says that it streams: the same as
    /// [`AgentUpdate::ToolProgress`] shows, for a client that keeps what it has.
    ToolOutput {
        /// The call.
        id: ToolCallId,
        /// What was written.
        lines: String,
    },
    /// How full the context is after a request, and what the session has cost.
    Usage(Meter),
    /// What fills the context now.
    Fill(Fill),
    /// A compaction, by its id, moved on.
    Compaction(String, Compaction),
    /// The whole list of what is to be done, in the place of the one before; empty when there is
    /// none any more.
    Todo(Vec<TodoItem>),
    /// The session has a (new) title.
    Title(String),
    /// The mode changed.
    Mode(Mode),
    /// The model changed.
    Model(Route),
    /// The thinking level changed; `None` is the model's own choice.
    Effort(Option<Effort>),
    /// Something a person should know now: a retry, a limit, a storage problem.
    Notice {
        /// How bad.
        level: NoticeLevel,
        /// One line.
        title: String,
        /// More, if there is more.
        detail: Option<String>,
    },
    /// What was said and done up to here, for a client that asked for it again. The answer that is
    /// being given is not in it.
    Replay(Vec<AgentUpdate>),
    /// A prompt that was to join a running turn has done so: what follows knows of it.
    Joined {
        /// The prompt's message id.
        prompt: MessageId,
    },
    /// The turn that took `prompt` is over; nothing of it follows.
    TurnEnded {
        /// The prompt's message id.
        prompt: MessageId,
        /// How it ended.
        outcome: TurnOutcome,
    },
}

/// How full the context is, and what the session has cost up to here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Meter {
    /// Tokens in the context: as counted after the last request, with an estimate of what came
    /// since.
    pub used: u64,
    /// The window of the route that answered last, in tokens; 0 where it is not known.
    pub window: u64,
    /// All tokens of the session.
    pub total: Usage,
    /// Of them, those of requests for summaries.
    pub compaction: Usage,
    /// What they cost.
    pub cost: Cost,
}

impl Meter {
    /// What a session's own state says.
    pub(crate) fn of(state: &SessionState) -> Self {
        Self {
            used: state.context_size.tokens(),
            window: state.context.as_ref().map_or(0, |context| context.window),
            total: state.summary.usage.total,
            compaction: state.summary.usage.compaction,
            cost: state.summary.usage.cost.clone(),
        }
    }
}

/// Where a compaction stands: the conversation is made shorter for the model, and for nobody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// It began.
    Began {
        /// The size of the context, in tokens.
        tokens: u64,
        /// The window, in tokens; 0 where it is not known.
        window: u64,
    },
    /// From here on the model reads less.
    Done {
        /// The size of the context before, in tokens.
        before: u64,
        /// The size now; an estimate.
        after: u64,
        /// What the model reads in the place of what is gone; `None` where only parts of old
        /// results are.
        summary: Option<String>,
    },
    /// It failed; the model reads what it read before.
    Failed {
        /// Why.
        message: String,
    },
    /// It was cancelled.
    Cancelled,
}

impl Compaction {
    /// The id of the compaction that began at this event.
    pub(crate) fn id_of(start: Seq) -> String {
        format!("compaction-{start}")
    }

    /// How it ended; `before` is the size that it began with.
    pub(crate) fn ended(outcome: &CompactionOutcome, before: u64, summary: Option<String>) -> Self {
        match outcome {
            CompactionOutcome::Compacted { tokens } => {
                Self::Done { before, after: *tokens, summary }
            }
            CompactionOutcome::Failed { message } => Self::Failed { message: message.clone() },
            CompactionOutcome::Cancelled => Self::Cancelled,
            CompactionOutcome::Interrupted => {
                Self::Failed { message: "the process ended in the middle of it".to_owned() }
            }
        }
    }
}

/// Where a tool call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToolStatus {
    /// Announced, or waiting for permission.
    Pending,
    /// Running.
    Running,
    /// Succeeded.
    Completed,
    /// Did not succeed.
    Failed,
}

/// How bad a notice is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoticeLevel {
    /// Worth knowing.
    Info,
    /// Something did not go as asked.
    Warning,
    /// Something failed.
    Error,
}

/// How a turn ended, towards a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The model had nothing more to do.
    EndTurn,
    /// The output limit was reached.
    MaxTokens,
    /// A budget or guard stopped it; a message said which.
    MaxTurnRequests,
    /// The model refused.
    Refusal,
    /// A person or the client cancelled.
    Cancelled,
    /// It failed; `auth` as code means that no key is set or the key was refused.
    Failed(Failure),
}
