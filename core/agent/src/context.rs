//! Where context that nobody typed comes from: AGENTS.md, the environment.

use async_trait::async_trait;

/// Feeds context into a session as logged user messages.
#[async_trait]
pub trait ContextSource: Send + Sync + 'static {
    /// The source's name, as the log keeps it.
    fn name(&self) -> &str;

    /// The text to add before the session's first prompt; `None` when there is nothing.
    /// Never fails: what cannot be read is said in the text.
    async fn collect(&self) -> Option<String>;
}
