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
use crate::tool::Tool;

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
        let tools = self.scope.all::<dyn Tool>();
        let specs: BTreeMap<_, _> =
            tools.iter().map(|tool| (&tool.spec().name, tool.spec())).collect();
        let specs: Vec<_> = specs.into_values().cloned().collect();
        let old = &self.assembly.specs;
        self.assembly = Assembly {
            system_prompt,
            specs_changed: self.assembly.specs_changed || (!old.is_empty() && !same(old, &specs)),
            specs: specs.into(),
        };
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

fn same(old: &[ToolSpec], new: &[ToolSpec]) -> bool {
    let shape = |spec: &ToolSpec| {
        (spec.name.clone(), spec.description.clone(), spec.input_schema.get().to_owned())
    };
    old.iter().map(shape).eq(new.iter().map(shape))
}
