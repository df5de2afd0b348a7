//! `shell`: a command of the host's shell, under a supervisor.
//!
//! A command that fails is a failed call whose message carries its output and how it ended. One in
//! the background becomes a job.

pub(crate) mod clean;
mod early;
pub(crate) mod report;
pub(crate) mod spool;
mod stream;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Confinement, Display, Grant, PlannedCall, PreStep, Sandboxing, Tool, ToolContext,
    ToolFailure, ToolKind, ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::Content;
use bridle_store::BlobStore;
use bridle_world::Roots;
use bridle_world::process::{
    Capture, CommandSpec, DEFAULT_TIMEOUT, Finished, MAX_TIMEOUT, Processes,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::arguments::{Arguments, peek, value_schema};
use crate::file_tool::{render, to_value};
use crate::jobs::{Begun, Jobs};
use crate::sandbox::CommandSandbox;
use crate::target::{fenced, one_line};
use clean::clean;
use early::Early;
use report::Report;
use spool::Spool;
use stream::Stream;

/// How much of the latest output is shown while the command runs, in bytes.
pub(crate) const LIVE_LIMIT: usize = 4 * 1024;

const DESCRIPTION: &str = "\
Runs a command with bash (sh where there is none) in the working directory and returns its output \
(stdout and stderr together) and its exit code. There is no terminal and no input: use flags that \
avoid prompts, pagers and editors. Each call is a new shell: directory and variables do not carry \
over. When it ends, processes that it left in the background are ended; a server or another long \
process belongs in a call with `background`, which returns at once (see `job`). Of long output you \
get the two ends and the path of the whole. Where the machine has a sandbox, a command can change \
only the workspace (not the settings and hooks of git and of editors in it) and `/tmp`, which is this session's own, and has no \
network but a loopback that no other command reaches; what it needs beyond that goes into `needs`, and a person is asked. Prefer `read`, `search`, `glob` and `edit` for files.";

/// Puts the tool into the scope of a session.
pub(crate) struct ShellPlugin;

#[async_trait]
impl Plugin for ShellPlugin {
    const NAME: &'static str = ShellArguments::TOOL;
    type Config = ();
    type Needs = (Arc<Roots>, Arc<Processes>, Arc<dyn BlobStore>, Arc<Jobs>, Arc<CommandSandbox>);

    async fn activate(
        &self,
        (): (),
        (roots, processes, blobs, jobs, sandbox): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let (spec, values) = (ShellArguments::spec(DESCRIPTION), value_schema::<Yield>());
        let processes = Processes::clone(&processes);
        setup.hook::<PreStep>(Arc::new(Early {
            processes: processes.clone(),
            tasks: setup.scope().tasks().clone(),
            token: setup.token().clone(),
        }))?;
        let tool = Shell { roots, processes, blobs, jobs, sandbox, spec, values };
        Ok(setup.add::<dyn Tool>(Self::NAME, Arc::new(tool))?)
    }
}

/// Arguments of `shell`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ShellArguments {
    /// The command.
    command: String,
    /// How many seconds it may run, 1 to 600. Without it: 120; in the background: until the session
    /// is closed.
    #[schemars(range(min = 1, max = 600))]
    timeout_s: Option<u64>,
    /// What it needs beyond writing in the workspace; a person is asked.
    #[serde(default)]
    needs: Vec<Need>,
    /// Why it needs that, in one sentence for the person who is asked.
    reason: Option<String>,
    /// Whether to return at once with the id of a job, and to let the command run beside the turn.
    #[serde(default)]
    background: bool,
}

/// What a command may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Need {
    Network,
    Unconfined,
}

impl Need {
    /// What a shell has that was granted this.
    pub(crate) fn confinement(self) -> Confinement {
        match self {
            Self::Network => Confinement::Workspace { network: true },
            Self::Unconfined => Confinement::Unconfined,
        }
    }
}

impl Arguments for ShellArguments {
    const TOOL: &'static str = "shell";
}

/// What a call yields.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(untagged)]
enum Yield {
    Ended(Report),
    Begun(Begun),
}

struct Shell {
    roots: Arc<Roots>,
    processes: Processes,
    blobs: Arc<dyn BlobStore>,
    jobs: Arc<Jobs>,
    sandbox: Arc<CommandSandbox>,
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
        render(value, |value: &Yield| match value {
            Yield::Ended(report) => vec![report.content()],
            Yield::Begun(job) => vec![Content::text(job.text())],
        })
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
        let kind = match arguments.background {
            true => Kind::Job(Arc::clone(&self.jobs), arguments.timeout_s.map(|_| timeout)),
            false => Kind::Call(Arc::clone(&self.blobs), timeout),
        };
        Ok(Box::new(PlannedShell {
            processes: self.processes.clone(),
            sandboxing: self.sandbox.sandboxing().await,
            sandbox: Arc::clone(&self.sandbox),
            command: arguments.command,
            cwd: self.roots.cwd().to_owned(),
            kind,
            needs: arguments.needs,
            reason: arguments.reason,
        }))
    }

    fn outline(&self, arguments: &str) -> Display {
        match (serde_json::from_str(arguments), peek(arguments, "command")) {
            (Ok(ShellArguments { command, background, .. }), _) => display(&command, background),
            (Err(_), Some(command)) => display(&command, false),
            (Err(_), None) => Display::new(ShellArguments::TOOL, ToolKind::Execute),
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
fn display(command: &str, background: bool) -> Display {
    let title = one_line(command);
    let text = (title != command).then(|| fenced("sh", command));
    let title = if background { format!("{title} (in the background)") } else { title };
    Display { text, streams: !background, ..Display::new(title, ToolKind::Execute) }
}

/// What becomes of the command.
enum Kind {
    /// It is over with the call. Large output goes here.
    Call(Arc<dyn BlobStore>, Duration),
    /// It runs on.
    Job(Arc<Jobs>, Option<Duration>),
}

struct PlannedShell {
    processes: Processes,
    sandboxing: Sandboxing,
    sandbox: Arc<CommandSandbox>,
    command: String,
    cwd: PathBuf,
    kind: Kind,
    needs: Vec<Need>,
    reason: Option<String>,
}

#[async_trait]
impl PlannedCall for PlannedShell {
    fn display(&self) -> Display {
        let is_job = matches!(self.kind, Kind::Job(..));
        let mut display = display(&self.command, is_job);
        if is_job && self.needs.contains(&Need::Network) {
            display.title.push_str(" (later commands can use its network while it runs)");
        }
        display
    }

    fn access(&self) -> Vec<Access> {
        vec![Access::Run {
            command: self.command.clone(),
            network: self.needs.contains(&Need::Network),
            unconfined: self.needs.contains(&Need::Unconfined),
            reason: self.reason.clone(),
            sandboxing: self.sandboxing,
        }]
    }

    async fn run(
        self: Box<Self>,
        grant: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let display = self.display();
        let granted = grant.confinement();
        let confinement = self.sandbox.policy(granted).await?;
        let Self { processes, command, cwd, kind, .. } = *self;
        match kind {
            Kind::Call(blobs, timeout) => {
                let spool = Spool::of(blobs).await;
                let file = spool.file.clone();
                let spec =
                    CommandSpec { command, cwd, timeout: Some(timeout), spool: file, confinement };
                let progress = context.progress;
                let mut stream = Stream::default();
                let live = |output: &Capture| {
                    progress.show(fenced("", &clean(&output.recent(LIVE_LIMIT))));
                    progress.write(stream.lines(output));
                };
                let finished = processes.run(spec, context.token, live).await;
                let finished = finished.map_err(report::not_run)?;
                progress.write(stream.rest(&finished, timeout, granted));
                over(&finished, timeout, granted, spool, display).await
            }
            Kind::Job(jobs, timeout) => {
                let spec = CommandSpec { command, cwd, timeout, spool: None, confinement };
                let job = jobs.start(&processes, spec, granted, &context.token).await?;
                let value = to_value(&Yield::Begun(job.begun()))?;
                let display = Display { raw_output: Some(value.clone()), ..display };
                Ok(ToolOutcome::new(value, display))
            }
        }
    }
}

/// The result of a command that is over with its call.
async fn over(
    finished: &Finished,
    timeout: Duration,
    granted: Confinement,
    spool: Spool,
    mut display: Display,
) -> Result<ToolOutcome, ToolFailure> {
    let report = Report::of(finished, timeout, granted, &spool.kept(finished).await);
    let text = report.text();
    display.text = Some(fenced("", &text));
    display.raw_output = Some(to_value(&report.facts)?);
    let failure = match () {
        () if finished.cancelled => ToolFailure::aborted(text),
        () if finished.timed_out || finished.exit_code != Some(0) => ToolFailure::failed(text),
        () => return Ok(ToolOutcome::new(to_value(&Yield::Ended(report))?, display)),
    };
    Err(ToolFailure { whole: report.whole.map(Box::new), display: Some(display), ..failure })
}
