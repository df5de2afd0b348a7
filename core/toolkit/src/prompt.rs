//! The system prompt. Constant, so that every request of a session begins with the same bytes.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::PromptSection;
use bridle_compose::{ActivateError, Plugin, Setup};

/// What the model is told before everything else.
pub fn system_prompt() -> &'static str {
    include_str!("system_prompt.md").trim_end()
}

/// Puts [`system_prompt`] into a scope, as one section.
pub(crate) struct SystemPromptPlugin;

#[async_trait]
impl Plugin for SystemPromptPlugin {
    const NAME: &'static str = "system-prompt";
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let section = PromptSection::verbatim(Self::NAME, PromptSection::IDENTITY, system_prompt());
        Ok(setup.add(Self::NAME, Arc::new(section))?)
    }
}
