//! `exit_plan_mode`: hands the plan in. Whoever reads it decides whether planning is over.
//!
//! The tool is offered in every mode, because the table of tools does not change with the mode; the
//! gate refuses it outside the plan mode and asks the person within it. What follows the yes, the
//! mode before, is the driver's to set.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, ContextInput, ContextSource, Display, Grant, Mode, Outlives, PlannedCall,
    SessionChange, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::arguments::{Arguments, peek};

/// The longest plan, in bytes.
const MAX_PLAN: usize = 64 * 1024;

const DESCRIPTION: &str = "\
Only in plan mode: shows your finished plan to the user and asks whether to start with it. Look at \
everything the plan rests on before you call this. If the user agrees, the session leaves plan mode \
and you carry the plan out; if not, you keep planning.";

/// What the model is told while the mode lasts.
const PLANNING: &str = "\
<plan_mode>
The session is in plan mode: nothing may be changed, neither by a tool nor by a command. Look at what \
matters, work out a plan that is concrete enough to be carried out without further questions, and hand \
it in with `exit_plan_mode`. The user reads it and decides.
</plan_mode>";

/// Puts the tool, and what the model is told of the mode, into the scope of a session.
pub(crate) struct ExitPlanPlugin;

#[async_trait]
impl Plugin for ExitPlanPlugin {
    const NAME: &'static str = ExitPlanArguments::TOOL;
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let tool: Arc<dyn Tool> = Arc::new(ExitPlan { spec: ExitPlanArguments::spec(DESCRIPTION) });
        setup.add(Self::NAME, tool)?;
        let context: Arc<dyn ContextSource> = Arc::new(PlanMode);
        Ok(setup.add(PlanMode.name(), context)?)
    }
}

/// Tells the model that the session is in plan mode, and when it is no more.
struct PlanMode;

#[async_trait]
impl ContextSource for PlanMode {
    fn name(&self) -> &str {
        "plan-mode"
    }

    async fn collect(&self, now: &ContextInput) -> Option<String> {
        (now.mode == Mode::Plan).then(|| PLANNING.to_owned())
    }
}

/// Arguments of `exit_plan_mode`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ExitPlanArguments {
    /// The whole plan, in Markdown: what is changed where, in which order, and how it is checked.
    plan: String,
}

impl Arguments for ExitPlanArguments {
    const TOOL: &'static str = "exit_plan_mode";
}

struct ExitPlan {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for ExitPlan {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let ExitPlanArguments { plan } = ExitPlanArguments::decode(arguments)?;
        if plan.trim().is_empty() || plan.len() > MAX_PLAN {
            return Err(ToolFailure::bad_arguments(format!(
                "`plan` is empty or longer than {MAX_PLAN} bytes; nobody was asked."
            )));
        }
        Ok(Box::new(HandedIn { plan }))
    }

    fn outlives(&self, arguments: &str, _: &[Content]) -> Option<Outlives> {
        peek(arguments, "plan").map(Outlives::Plan)
    }

    fn outline(&self, arguments: &str) -> Display {
        display(peek(arguments, "plan"))
    }
}

fn display(plan: Option<String>) -> Display {
    Display { text: plan, ..Display::new("Plan", ToolKind::SwitchMode) }
}

struct HandedIn {
    plan: String,
}

#[async_trait]
impl PlannedCall for HandedIn {
    fn display(&self) -> Display {
        display(Some(self.plan.clone()))
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::LeavePlan]
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        let text = "The user agrees with the plan. The session has left plan mode; what may be done \
                    without asking is again what it was before. Carry the plan out now.";
        let outcome = ToolOutcome::new(text, self.display());
        Ok(ToolOutcome { changes: vec![SessionChange::LeavePlan], ..outcome })
    }
}
