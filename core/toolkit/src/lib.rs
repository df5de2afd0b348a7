//! The tools that a model is offered and the context sources of a session.
//!
//! One file per tool; each plans a call (check, resolve, preview) and runs it through
//! `bridle-world`. Nothing here decides whether a call is allowed.

use std::sync::Arc;

use bridle_agent::{ContextSource, Tool};
use bridle_world::Roots;
use bridle_world::process::Processes;

/// What the tools of a session work on.
#[derive(Clone, Debug)]
pub struct ToolWorld {
    /// The session's folders.
    pub roots: Arc<Roots>,
    /// Where commands run.
    pub processes: Processes,
}

/// The built-in tools for one session.
pub fn tools(world: &ToolWorld) -> Vec<Arc<dyn Tool>> {
    let _ = world;
    todo!()
}

/// The context sources for one session: environment, then AGENTS.md of the root.
pub fn contexts(world: &ToolWorld) -> Vec<Arc<dyn ContextSource>> {
    let _ = world;
    todo!()
}
