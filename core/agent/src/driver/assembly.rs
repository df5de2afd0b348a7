//! What the requests of a turn are assembled from: the system prompt and the tool table, as the
//! scope has them when the turn begins.
//!
//! Both are frozen for the turn, because a change between two requests would begin a new series in
//! the middle of the work. A tool that goes away meanwhile is refused when it is called. Tools that
//! come and go by themselves ([`Tool::waits_for_series`]) change nothing until a series begins for
//! another reason.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bridle_model::{ModelFailure, ToolSpec};
use futures::future::join_all;
use tokio_util::sync::CancellationToken;

use super::Driver;
use super::halt::Halt;
use super::turn::internal;
use crate::prompt::{PromptSection, PromptVariable, render};
use crate::tool::{OfferedTools, Tool};
use crate::update::NoticeLevel;
use crate::warmup::{self, Warmup};

/// The part of the window, in so many, that the tools which wait for a series may take up together. What
/// is beyond is reached in another way (`find_tools`).
const WAITING_SHARE: u64 = 10;

/// About how many bytes of a tool's definition are one token.
const BYTES_PER_TOKEN: u64 = 4;

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
    /// Whether tools that are on their way had their moment.
    warmed: bool,
    /// Which of the specs are of tools that wait for a series.
    waiting: BTreeSet<String>,
    /// Those that a provider refused, as they were.
    refused: Vec<ToolSpec>,
}

impl Assembly {
    /// The specs of the tools that do not wait for a series, and so are offered in any window.
    pub(super) fn own_specs(&self) -> impl Iterator<Item = &ToolSpec> {
        self.specs.iter().filter(|spec| !self.waiting.contains(&spec.name))
    }
}

impl Driver {
    /// Gives tools that are on their way a moment to arrive, once.
    pub(super) async fn warm_up(&mut self, token: &CancellationToken) {
        let warmups = self.scope.all::<dyn Warmup>();
        if std::mem::replace(&mut self.assembly.warmed, true) || warmups.is_empty() {
            return;
        }
        tokio::select! {
            _ = join_all(warmups.iter().map(|it| it.ready())) => {}
            () = self.clock.sleep(warmup::LIMIT) => {}
            () = token.cancelled() => {}
        }
    }

    /// Takes the prompt and the table from the scope.
    pub(super) fn assemble(&mut self) -> Result<(), Halt> {
        let variables = self.scope.all::<PromptVariable>();
        let system_prompt = render(self.scope.all::<PromptSection>(), &variables)
            .map_err(|error| Halt::Failed(internal(&error.to_string())))?;
        self.assembly.system_prompt = system_prompt;
        let tools = self.offered();
        let begun = !self.assembly.specs.is_empty();
        let now = tools.values().filter(|tool| !tool.waits_for_series());
        let is_same = self.assembly.own_specs().map(shape).eq(now.map(|tool| shape(tool.spec())));
        if !begun || !is_same {
            self.assembly.specs_changed |= begun;
            // As it was last; when a series begins with this, its own window decides again.
            let state = &self.recorder.session().state().context;
            let window = state.as_ref().map_or(0, |context| context.window);
            self.offer(tools, window);
        }
        Ok(())
    }

    /// Offers every tool that there is room for in a window of so many tokens: a series begins, and the
    /// table may change with it.
    pub(super) fn offer_all(&mut self, window: u64) {
        let tools = self.offered();
        self.offer(tools, window);
    }

    fn offer(&mut self, mut tools: BTreeMap<String, Arc<dyn Tool>>, window: u64) {
        // Where the window is not known yet, it is before a series begins.
        let mut room = match window {
            0 => u64::MAX,
            tokens => tokens / WAITING_SHARE * BYTES_PER_TOKEN,
        };
        tools.retain(|_, tool| {
            if !tool.waits_for_series() {
                return true;
            }
            let rest = room.checked_sub(size(tool.spec()));
            room = rest.unwrap_or(room);
            rest.is_some()
        });
        let waiting = tools.iter().filter(|(_, tool)| tool.waits_for_series());
        self.assembly.waiting = waiting.map(|(name, _)| name.clone()).collect();
        let specs = || tools.values().map(|tool| tool.spec());
        if !self.assembly.specs.iter().map(shape).eq(specs().map(shape)) {
            self.assembly.specs = specs().cloned().collect();
        }
    }

    /// The tools of the scope by name. Of two with one name the nearer, which comes later, stays.
    fn offered(&self) -> BTreeMap<String, Arc<dyn Tool>> {
        let limit = self.scope.get::<OfferedTools>();
        let is_offered = |name: &str| limit.as_ref().is_none_or(|it| it.offers(name));
        let tools = self.scope.all::<dyn Tool>().into_iter();
        let named = tools.map(|tool| (tool.spec().name.clone(), tool));
        let is_refused = |tool: &Arc<dyn Tool>| {
            self.assembly.refused.iter().any(|spec| shape(spec) == shape(tool.spec()))
        };
        named.filter(|(name, tool)| is_offered(name) && !is_refused(tool)).collect()
    }

    /// Offers a tool no more that the provider refuses, so that it costs no further request; says whether
    /// the request can be tried again without it. Only tools that come by themselves: what another program
    /// says of them is all that there is to them.
    pub(super) async fn give_up_tool(&mut self, failure: &ModelFailure) -> bool {
        let named = failure.refused_tool.and_then(|place| self.assembly.specs.get(place));
        let Some(spec) = named.filter(|spec| self.assembly.waiting.contains(&spec.name)).cloned()
        else {
            return false;
        };
        let title = format!("The provider refuses the tool {}, which is left out", spec.name);
        self.assembly.waiting.remove(&spec.name);
        self.assembly.specs =
            self.assembly.specs.iter().filter(|it| it.name != spec.name).cloned().collect();
        self.assembly.refused.push(spec);
        self.notice(NoticeLevel::Warning, title, Some(failure.message.clone())).await;
        true
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

/// How much of a request a definition is, in bytes.
fn size(spec: &ToolSpec) -> u64 {
    (spec.name.len() + spec.description.len() + spec.input_schema.get().len()) as u64
}

fn shape(spec: &ToolSpec) -> (&str, &str, &str) {
    (&spec.name, &spec.description, spec.input_schema.get())
}
