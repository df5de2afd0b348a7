//! Where context that nobody typed comes from: AGENTS.md, the environment, the mode.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_model::{attribute, unclosing};
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

    /// The same in parts, each of which is told for itself, again when it alone changes, and
    /// withdrawn when it is gone. A source that says one thing has no need of it.
    ///
    /// # Cancel safety
    /// As [`ContextSource::collect`].
    async fn collect_parts(&self, now: &ContextInput) -> Vec<ContextPart> {
        self.collect(now).await.map(ContextPart::whole).into_iter().collect()
    }
}

/// Something that a source says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextPart {
    /// Which part it is of what the source says: the path of a file, for one. Empty for all of it.
    pub name: String,
    /// What the model is told.
    pub text: String,
    /// What the person is told when the model is told this.
    pub notice: Option<String>,
}

impl ContextPart {
    /// All that a source says.
    pub fn whole(text: String) -> Self {
        Self { name: String::new(), text, notice: None }
    }
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
    /// What the model still has of what the sources said last, by the names of the log. What a source
    /// does not know yet it says as it said it there: to be unknown is no change.
    pub told: Arc<BTreeMap<String, String>>,
}

/// A text of Bridle's in a tag that names its source, so that a model can tell it from what the user
/// says. The text cannot close the tag.
pub fn wrapped(source: &str, text: &str) -> String {
    let (source, text) = (attribute(source), unclosing("context", text));
    let end = if text.ends_with('\n') { "" } else { "\n" };
    format!("<context source=\"{source}\">\n{text}{end}</context>")
}
