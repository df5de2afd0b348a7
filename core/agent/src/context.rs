//! Where context that nobody typed comes from: AGENTS.md, the environment, the mode.

use async_trait::async_trait;
use bridle_session::{StepNumber, TurnNumber};

use crate::mode::Mode;
use crate::tool::Observed;

/// Feeds context into a session as logged user messages.
#[async_trait]
pub trait ContextSource: Send + Sync + 'static {
    /// The source's name, as the log keeps it. One name, one source.
    fn name(&self) -> &str;

    /// What the model should know now; `None` when there is nothing. Asked before each step; the
    /// model is told when it differs from what it was told last. Never fails: what cannot be read
    /// is said in the text.
    ///
    /// # Cancel safety
    /// Must be cancel safe: a cancelled turn, or one that has waited too long, drops it.
    async fn collect(&self, now: &ContextInput) -> Option<String>;
}

/// The step before which a source is asked.
#[derive(Clone, Debug)]
pub struct ContextInput {
    /// Which turn.
    pub turn: TurnNumber,
    /// Which step of it, from 1.
    pub step: StepNumber,
    /// The mode in force.
    pub mode: Mode,
    /// The files that the model has seen, and the hash of what each one held then.
    pub observed: Observed,
}
