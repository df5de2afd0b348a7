//! `shell`: a command of the host's shell, under a supervisor.
//!
//! A command that fails is a failed call whose message carries its output and how it ended.

mod clean;
mod report;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_world::Roots;
use bridle_world::process::{CommandSpec, DEFAULT_TIMEOUT, MAX_TIMEOUT, Processes};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::{Arguments, peek, value_schema};
use crate::file_tool::{render, to_value};
use crate::target::{fenced, one_line};
use clean::clean;

/// How much of the latest output is shown while the command runs, in bytes.
const LIVE_LIMIT: usize = 4 * 1024;

const DESCRIPTION: &str = "\
Runs a command with bash (sh where there is none) in the working directory and returns its output \
(stdout and stderr together) and its exit code. There is no terminal and no input: use flags that \
avoid prompts, pagers and editors. Each call is a new shell: directory and variables do not carry \
over. When it ends, processes that it left in the background are ended. Of long output you get \
the two ends and the path of the whole. Prefer `read`, `search`, `glob` and `edit` for files.";

/// The tool for a session.
pub(crate) fn tool(roots: Arc<Roots>, processes: Processes) -> Arc<dyn Tool> {
    let (spec, values) = (ShellArguments::spec(DESCRIPTION), value_schema::<report::Report>());
    Arc::new(Shell { roots, processes, spec, values })
}

/// Puts the tool into the scope of a session.
pub(crate) struct ShellPlugin;

#[async_trait]
impl Plugin for ShellPlugin {
    const NAME: &'static str = ShellArguments::TOOL;
    type Config = ();
    type Needs = (Arc<Roots>, Arc<Processes>);

    async fn activate(
        &self,
        (): (),
        (roots, processes): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        Ok(setup.add(Self::NAME, tool(roots, Processes::clone(&processes)))?)
    }
}

/// Arguments of `shell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellArguments {
    /// The command.
    command: String,
    /// How many seconds it may run, 1 to 600. Without it: 120.
    #[schemars(range(min = 1, max = 600))]
    timeout_s: Option<u64>,
    /// What it needs beyond writing in the workspace; a person is asked.
    #[serde(default)]
    needs: Vec<Need>,
    /// Why it needs that, in one sentence for the person who is asked.
    reason: Option<String>,
}

/// What a command may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Need {
    Network,
    Unconfined,
}

impl Arguments for ShellArguments {
    const TOOL: &'static str = "shell";
}

struct Shell {
    roots: Arc<Roots>,
    processes: Processes,
    spec: ToolSpec,
    values: Box<RawValue>,
}

#[async_trait]
impl Tool for Shell {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        Some(&self.values)
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        render(value, report::Report::text)
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let arguments = ShellArguments::decode(arguments)?;
        let timeout = timeout(arguments.timeout_s)?;
        if arguments.command.trim().is_empty() || arguments.command.contains('\0') {
            return Err(ToolFailure::bad_arguments(
                "`command` is empty or holds a NUL character; nothing was run.",
            ));
        }
        let cwd = self.roots.cwd().to_owned();
        Ok(Box::new(PlannedShell {
            processes: self.processes.clone(),
            spec: CommandSpec { command: arguments.command, cwd, timeout },
            needs: arguments.needs,
            reason: arguments.reason,
        }))
    }

    fn outline(&self, arguments: &str) -> Display {
        match peek(arguments, "command") {
            Some(command) => display(&command),
            None => Display::new(ShellArguments::TOOL, ToolKind::Execute),
        }
    }
}

fn timeout(seconds: Option<u64>) -> Result<Duration, ToolFailure> {
    let timeout = seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs);
    if timeout.is_zero() || timeout > MAX_TIMEOUT {
        return Err(ToolFailure::bad_arguments(format!(
            "`timeout_s` must be from 1 to {}; nothing was run.",
            MAX_TIMEOUT.as_secs()
        )));
    }
    Ok(timeout)
}

/// The command as a title, and whole below it where one short line does not do.
fn display(command: &str) -> Display {
    let title = one_line(command);
    let text = (title != command).then(|| fenced("sh", command));
    Display { text, ..Display::new(title, ToolKind::Execute) }
}

struct PlannedShell {
    processes: Processes,
    spec: CommandSpec,
    needs: Vec<Need>,
    reason: Option<String>,
}

#[async_trait]
impl PlannedCall for PlannedShell {
    fn display(&self) -> Display {
        display(&self.spec.command)
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::Run {
            command: self.spec.command.clone(),
            network: self.needs.contains(&Need::Network),
            unconfined: self.needs.contains(&Need::Unconfined),
            reason: self.reason.clone(),
        }]
    }

    async fn run(
        self: Box<Self>,
        // Nothing is confined until there is a sandbox, so nothing is granted beyond the call.
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let mut display = self.display();
        let timeout = self.spec.timeout;
        let progress = context.progress;
        let finished = self
            .processes
            .run(self.spec, context.token, |output| {
                progress.show(fenced("", &clean(&output.recent(LIVE_LIMIT))));
            })
            .await
            .map_err(report::not_run)?;
        let report = report::Report::of(&finished, timeout);
        let text = report.text();
        display.text = Some(fenced("", &text));
        display.raw_output = Some(to_value(&report.facts)?);
        let failed =
            |failure: ToolFailure| ToolFailure { display: Some(display.clone()), ..failure };
        if finished.cancelled {
            return Err(failed(ToolFailure::aborted(text)));
        }
        if finished.timed_out || finished.exit_code != Some(0) {
            return Err(failed(ToolFailure::failed(text)));
        }
        Ok(ToolOutcome::new(to_value(&report)?, display))
    }
}
