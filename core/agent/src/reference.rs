//! What a prompt refers to: files and other things that are read when the prompt is, so that the model
//! has them before it.

use async_trait::async_trait;
use bridle_session::{Content, UserMessage};

use crate::context::ContextInput;
use crate::tool::SessionChange;

/// Before the name of a reference in the source of its message.
pub(crate) const REFERENCE: &str = "reference: ";

/// Before the name of a skill that a prompt calls, in the source of the message with its body.
pub const SKILL: &str = "skill ";

/// Whether what a message says came with a prompt, so that nobody says it again by himself.
pub(crate) fn came_with_prompt(source: &str) -> bool {
    [REFERENCE, SKILL].iter().any(|start| source.starts_with(start))
}

/// Looks up what the prompts of a person refer to.
#[async_trait]
pub trait ReferenceSource: Send + Sync + 'static {
    /// What `prompt` refers to, in its order. Never fails: what cannot be read is said, and what
    /// is no reference is passed over.
    ///
    /// # Cancel safety
    /// Must be cancel safe: a cancelled turn, or one that has waited too long, drops it.
    async fn resolve(&self, prompt: &UserMessage, now: &ContextInput) -> Vec<Reference>;
}

/// Something that a prompt refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    /// How the prompt names it; the log keeps it as the source of the message.
    pub name: String,
    /// What the model is told of it.
    pub content: Vec<Content>,
    /// What the model knows with it, recorded when it is told.
    pub changes: Vec<SessionChange>,
    /// What the person is told.
    pub notice: Option<String>,
}
