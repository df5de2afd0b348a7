//! The agent: the driver that owns one session and runs its turns.
//!
//! [`Agent::start`] spawns the driver; an [`AgentHandle`] talks to it; everything a client must
//! see in order comes out of one bounded stream of [`AgentUpdate`]s. Tools implement [`Tool`],
//! whoever answers questions implements [`Approver`]. This crate knows no client protocol and no
//! provider's wire, and it alone appends to the session's log.

mod agent;
mod approval;
mod asker;
mod budget;
mod compaction;
mod context;
mod cut;
mod display;
mod driver;
mod fallback;
mod guard;
mod hooks;
mod keeper;
mod mailbox;
mod mode;
mod notice;
mod plant;
mod plugin;
mod policy;
mod progress;
mod prompt;
mod recorder;
mod reference;
mod replay;
mod rules;
mod schema;
mod tool;
mod transcript;
mod update;
mod update_queue;
mod warmup;

pub use agent::{Agent, AgentGone, AgentHandle, AgentParts, AgentStatus, JobFact, Phase};
pub use approval::{Answer, Approver, Question, Subject};
pub use asker::{
    Asker, ForeignQuestion, ForeignReply, FormAnswer, FormOption, FormQuestion, FormReply, Shows,
    Wanted,
};
pub use budget::{BUDGET_LIMITS, BudgetConfig, BudgetPlugin};
pub use compaction::{CompactionConfig, CompactionPlugin, Fill};
pub use context::{ContextInput, ContextPart, ContextSource, wrapped};
pub use display::{Display, FileDiff, Location, ToolKind};
pub use driver::RESULT_LIMIT;
pub use fallback::{FallbackConfig, FallbackPlugin};
pub use hooks::{
    Body, CallInfo, OnRequest, OnRequestError, OnStream, PreStep, Ran, Reading, RequestFailed,
    RequestInput, SessionEvent, StepDecision, StepInput, StoppingTurn, StreamInput, ToolFinished,
    ToolPost, ToolPre, ToolRun, TurnStopping, Verdict,
};
pub use keeper::{Before, ChangedFile, Changes, FileKeeper};
pub use mode::{Mode, Ruling, Sandboxing};
pub use notice::Notice;
pub use plugin::{DriverConfig, DriverPlugin, Seated, SessionSeat, plugins};
pub use policy::{CallGuard, Judgement, ModeTable, PermissionModes, PermissionPolicy};
pub use prompt::{PromptSection, PromptVariable};
pub use reference::{Reference, ReferenceSource, SKILL};
pub use replay::replay;
pub use rules::{Effect, Rule, RuleError, Rules, RulesConfig};
pub use schema::read_arguments;
pub use tool::{
    Access, Concurrency, Confinement, Grant, Observed, OfferedTools, Outlives, PlannedCall,
    Progress, SessionChange, Tool, ToolContext, ToolFailure, ToolOutcome,
};
pub use transcript::{Asked, Call, Entry, Shown, Unsent, transcript};
pub use update::{AgentUpdate, Compaction, Meter, NoticeLevel, ToolStatus, TurnOutcome};
pub use update_queue::{NobodyListens, UpdateReceiver, UpdateSender, json_size, update_queue};
pub use warmup::Warmup;
