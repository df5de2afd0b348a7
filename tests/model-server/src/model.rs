//! The models the server pretends to serve, with the limits it enforces.

use crate::strict::Dialect;

/// Whether a model's thinking can be turned off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thinking {
    /// Adaptive thinking is on by default and `disabled` is accepted.
    Optional,
    /// Adaptive thinking is always on and `disabled` is refused.
    Always,
}

/// One model: what it takes and what it refuses.
#[derive(Clone, Debug)]
pub struct ModelSpec {
    /// The id requests name it by.
    pub id: String,
    /// The context window, in tokens.
    pub window: u64,
    /// The largest `max_tokens` it accepts.
    pub max_output: u64,
    /// Whether thinking can be turned off.
    pub thinking: Thinking,
    /// Whether images are accepted.
    pub images: bool,
    /// The most images of a request.
    pub most_images: usize,
    /// Whether `system` messages are accepted after the first message.
    pub system_messages: bool,
}

impl ModelSpec {
    /// A model with a window and output limit of its own (both in tokens), optional thinking,
    /// images, and system messages.
    pub fn new(id: &str, window: u64, max_output: u64) -> Self {
        Self {
            id: id.to_owned(),
            window,
            max_output,
            thinking: Thinking::Optional,
            images: true,
            most_images: 100,
            system_messages: true,
        }
    }

    fn always_thinking(self) -> Self {
        Self { thinking: Thinking::Always, ..self }
    }

    fn without_images(self) -> Self {
        Self { images: false, ..self }
    }

    fn without_system_messages(self) -> Self {
        Self { system_messages: false, ..self }
    }
}

/// The models of a dialect, as of 2026-12-01.
pub(crate) fn known(dialect: Dialect) -> Vec<ModelSpec> {
    let claude = |id| ModelSpec::new(id, 1_000_000, 128_000);
    let deepseek = |id| ModelSpec::new(id, 1_000_000, 384_000).without_system_messages();
    match dialect {
        Dialect::Anthropic => vec![
            claude("claude-fable-5-2").always_thinking(),
            claude("claude-fable-5-1").always_thinking(),
            claude("claude-opus-5-5").always_thinking(),
            claude("claude-sonnet-5-5"),
            claude("claude-haiku-5-5"),
            claude("claude-opus-5"),
            claude("claude-sonnet-5").without_system_messages(),
        ],
        Dialect::DeepSeek => vec![
            deepseek("deepseek-flash"),
            deepseek("deepseek-v4-flash"),
            deepseek("deepseek-v4-pro").without_images(),
        ],
    }
}
