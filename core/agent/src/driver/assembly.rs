//! What the requests of a turn are assembled from: the system prompt and the tool table, as the
//! scope has them when the turn begins.
//!
//! Both are frozen for the turn, because a change between two requests would begin a new series in
//! the middle of the work. A tool that goes away meanwhile is refused when it is called.

use std::collections::BTreeMap;
use std::sync::Arc;

use bridle_model::ToolSpec;

use super::Driver;
use super::halt::Halt;
use super::turn::internal;
use crate::prompt::{PromptSection, PromptVariable, render};
use crate::tool::{OfferedTools, Tool};

/// The prompt and the table of the current turn.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    /// The system prompt; empty when nothing contributes to it.
    pub(super) system_prompt: String,
    /// The tools offered, by name: the same order for every request of a series.
    pub(super) specs: Arc<[ToolSpec]>,
    /// Whether the specs differ from those of the current series. The log keeps names only, so
    /// this is how a tool that came back in another shape is noticed.
    pub(super) specs_changed: bool,
}

impl Driver {
    /// Takes the prompt and the table from the scope.
    pub(super) fn assemble(&mut self) -> Result<(), Halt> {
        let variables = self.scope.all::<PromptVariable>();
        let system_prompt = render(self.scope.all::<PromptSection>(), &variables)
            .map_err(|error| Halt::Failed(internal(&error.to_string())))?;
        // Of two with one name the nearer, which comes later, stays.
        let mut tools = self.scope.all::<dyn Tool>();
        if let Some(offered) = self.scope.get::<OfferedTools>() {
            tools.retain(|tool| offered.0.contains(&tool.spec().name));
        }
        let specs: BTreeMap<_, _> =
            tools.iter().map(|tool| (&tool.spec().name, tool.spec())).collect();
        let assembly = &mut self.assembly;
        assembly.system_prompt = system_prompt;
        if !same(&assembly.specs, specs.values().copied()) {
            assembly.specs_changed |= !assembly.specs.is_empty();
            assembly.specs = specs.into_values().cloned().collect();
        }
        Ok(())
    }

    /// Whether the model was told of a tool with this name.
    pub(super) fn offers(&self, name: &str) -> bool {
        self.assembly.specs.iter().any(|spec| spec.name == name)
    }

    /// The tool of this name as the scope has it now.
    pub(super) fn tool(&self, name: &str) -> Option<Arc<dyn Tool>> {
        let mut tools = self.scope.all::<dyn Tool>().into_iter().rev();
        tools.find(|tool| tool.spec().name == name)
    }
}

fn same<'a>(old: &'a [ToolSpec], new: impl Iterator<Item = &'a ToolSpec>) -> bool {
    old.iter().map(shape).eq(new.map(shape))
}

fn shape(spec: &ToolSpec) -> (&str, &str, &str) {
    (&spec.name, &spec.description, spec.input_schema.get())
}
