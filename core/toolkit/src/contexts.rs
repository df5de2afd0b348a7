//! What a session is told that nobody typed: where it runs, what the user's and the project's own
//! instructions say, which files are not as the model saw them.
//!
//! Each text is wrapped in a tag that names its source, so that a model can tell it from what the
//! user says; the wrapped text cannot close the tag.

mod changes;
mod environment;
mod instructions;
mod signature;

use std::sync::Arc;

use bridle_agent::ContextSource;
pub(crate) use bridle_agent::wrapped as wrap;
use bridle_compose::{ActivateError, Setup};

pub(crate) use changes::FileChangesPlugin;
pub(crate) use environment::EnvironmentPlugin;
pub(crate) use instructions::InstructionsPlugin;
pub use instructions::{InstructionFile, InstructionFiles};
pub(crate) use signature::Signature;

/// Contributes a source under its name.
pub(crate) fn add(setup: &Setup, source: impl ContextSource) -> Result<(), ActivateError> {
    let source: Arc<dyn ContextSource> = Arc::new(source);
    Ok(setup.add(source.name(), Arc::clone(&source))?)
}

#[cfg(test)]
mod tests;
