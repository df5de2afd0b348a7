//! What fills the window, in about how many tokens.

use bridle_model::ToolSpec;
use bridle_session::{Message, Projection, UserSource, estimate_data};

use super::SOURCE;

/// What fills the context. The parts are estimates, scaled to the size as it was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// The system prompt.
    pub system: u64,
    /// The definitions of tools.
    pub tools: u64,
    /// What Bridle tells: AGENTS.md, the environment, skills …
    pub context: u64,
    /// The summary of what was said before.
    pub summary: u64,
    /// What the person said.
    pub prompts: u64,
    /// What the model said.
    pub answers: u64,
    /// The results of tools.
    pub results: u64,
}

impl Fill {
    /// The parts of a conversation before they are scaled.
    pub(crate) fn of(surface: &Projection, tools: &[ToolSpec]) -> Self {
        let mut fill = Self { tools: tokens_of(tools), ..Self::default() };
        for message in surface.messages() {
            let part = match message {
                Message::System(_) => &mut fill.system,
                Message::User(user) => match &user.source {
                    UserSource::Human => &mut fill.prompts,
                    UserSource::Context { name } if name == SOURCE => &mut fill.summary,
                    UserSource::Context { .. } => &mut fill.context,
                },
                Message::Developer(_) => &mut fill.context,
                Message::Assistant(_) => &mut fill.answers,
                Message::ToolResult(_) => &mut fill.results,
            };
            *part = part.saturating_add(message.tokens());
        }
        fill
    }

    /// All of it.
    pub fn total(&self) -> u64 {
        self.named().into_iter().map(|(_, tokens)| tokens).sum()
    }

    /// The same parts of a whole of `total` tokens.
    #[must_use]
    pub(crate) fn scaled(self, total: u64) -> Self {
        let all = self.total().max(1);
        let scale = |part: u64| part.saturating_mul(total) / all;
        Self {
            system: scale(self.system),
            tools: scale(self.tools),
            context: scale(self.context),
            summary: scale(self.summary),
            prompts: scale(self.prompts),
            answers: scale(self.answers),
            results: scale(self.results),
        }
    }

    /// The parts with their names for a person.
    pub fn named(&self) -> [(&'static str, u64); 7] {
        [
            ("system prompt", self.system),
            ("tools", self.tools),
            ("instructions and context", self.context),
            ("summary", self.summary),
            ("your messages", self.prompts),
            ("answers", self.answers),
            ("tool results", self.results),
        ]
    }
}

/// The size of the definitions of tools.
pub(crate) fn tokens_of<'a>(tools: impl IntoIterator<Item = &'a ToolSpec>) -> u64 {
    let bytes = tools
        .into_iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.input_schema.get().len());
    estimate_data(bytes.sum())
}
