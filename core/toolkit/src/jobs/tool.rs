//! `job`: the model's look at what runs in the background.
//!
//! It asks for no permission: it reads and ends only what a permitted `shell` has started.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{
    Access, Concurrency, Display, Grant, PlannedCall, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome,
};
use bridle_model::ToolSpec;
use bridle_session::{BlobRef, Content};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{Job, JobState, Jobs};
use crate::arguments::{Arguments, peek, value_schema};
use crate::file_tool::{render, to_value};
use crate::shell::report::{self, Facts};
use crate::target::fenced;

pub(super) const NAME: &str = "job";

/// How long a wait takes when nobody said otherwise.
const DEFAULT_WAIT: Duration = Duration::from_secs(30);

const DESCRIPTION: &str = "\
Looks after commands that `shell` started with `background`. `list` shows them. `output` returns \
what one has written since you looked last, and whether it still runs. `wait` does so once it has \
ended or `timeout_s` is over, whichever comes first. `kill` ends it with every process that it \
started. You are told when one ends, so there is no need to ask again and again.";

/// Arguments of `job`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct JobArguments {
    /// What to do.
    action: Action,
    /// Which job; for all actions but `list`, unless there is only one.
    id: Option<String>,
    /// For `wait`: how many seconds at most, 1 to 600. Without it: 30.
    #[schemars(range(min = 1, max = 600))]
    timeout_s: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Action {
    List,
    Output,
    Wait,
    Kill,
}

impl Action {
    fn verb(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Output => "output",
            Self::Wait => "wait",
            Self::Kill => "kill",
        }
    }
}

impl Arguments for JobArguments {
    const TOOL: &'static str = NAME;
}

/// What a call yields.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Look {
    /// What the model reads.
    text: String,
    jobs: Vec<Row>,
    /// All that the job has written, where `text` may leave some of it out.
    #[schemars(with = "Option<Value>")]
    whole: Option<BlobRef>,
}

/// Where a job stands.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Row {
    job: String,
    command: String,
    running: bool,
    output_bytes: u64,
    /// How it ended, in words.
    end: Vec<String>,
    /// The same as data, as far as it is known.
    facts: Option<Facts>,
}

pub(super) struct JobTool {
    jobs: Arc<Jobs>,
    spec: ToolSpec,
    values: Box<RawValue>,
}

impl JobTool {
    pub(super) fn new(jobs: Arc<Jobs>) -> Self {
        let (spec, values) = (JobArguments::spec(DESCRIPTION), value_schema::<Look>());
        Self { jobs, spec, values }
    }

    /// The job that is meant.
    fn job(&self, action: Action, id: Option<String>) -> Result<Arc<Job>, ToolFailure> {
        let Some(id) = id else {
            let all = self.jobs.lock().clone();
            return match all.as_slice() {
                [only] => Ok(Arc::clone(only)),
                _ => Err(ToolFailure::bad_arguments(format!(
                    "`{}` needs the `id` of a job. {}",
                    action.verb(),
                    self.known()
                ))),
            };
        };
        let unknown = || format!("There is no job {id:?}. {}", self.known());
        self.jobs.find(&id).ok_or_else(|| ToolFailure::failed(unknown()))
    }

    fn known(&self) -> String {
        let ids: Vec<_> = self.jobs.lock().iter().map(|job| job.id.to_string()).collect();
        match ids.is_empty() {
            true => "There are no jobs.".to_owned(),
            false => format!("The jobs are: {}.", ids.join(", ")),
        }
    }
}

#[async_trait]
impl Tool for JobTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn value_schema(&self) -> Option<&RawValue> {
        Some(&self.values)
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        render(value, |look: &Look| vec![report::content(look.text.clone(), look.whole.as_ref())])
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        let JobArguments { action, id, timeout_s } = JobArguments::decode(arguments)?;
        let wait = timeout_s.map_or(DEFAULT_WAIT, Duration::from_secs);
        let job = match action {
            Action::List => None,
            _ => Some(self.job(action, id)?),
        };
        Ok(Box::new(PlannedJob { jobs: Arc::clone(&self.jobs), action, job, wait }))
    }

    fn outline(&self, arguments: &str) -> Display {
        let words = ["action", "id"].map(|name| peek(arguments, name).unwrap_or_default());
        let title = [NAME].into_iter().chain(words.iter().map(String::as_str));
        let title: Vec<_> = title.filter(|word| !word.is_empty()).collect();
        Display::new(crate::target::one_line(&title.join(" ")), ToolKind::Execute)
    }
}

struct PlannedJob {
    jobs: Arc<Jobs>,
    action: Action,
    job: Option<Arc<Job>>,
    wait: Duration,
}

#[async_trait]
impl PlannedCall for PlannedJob {
    fn display(&self) -> Display {
        let title = match &self.job {
            Some(job) => format!("{NAME} {} {}: {}", self.action.verb(), job.id, job.title),
            None => format!("{NAME} list"),
        };
        Display::new(title, ToolKind::Execute)
    }

    fn access(&self) -> Vec<Access> {
        Vec::new()
    }

    fn concurrency(&self) -> Concurrency {
        Concurrency::Parallel
    }

    async fn run(
        self: Box<Self>,
        _: Grant,
        context: ToolContext,
    ) -> Result<ToolOutcome, ToolFailure> {
        let mut display = self.display();
        let looked = match &self.job {
            None => self.list(),
            Some(job) => {
                self.act(job, &context).await?;
                look(job).await
            }
        };
        display.text = Some(fenced("", &looked.text));
        display.raw_output = Some(to_value(&looked.jobs)?);
        Ok(ToolOutcome::new(to_value(&looked)?, display))
    }
}

impl PlannedJob {
    /// Waits for what the action waits for.
    async fn act(&self, job: &Job, context: &ToolContext) -> Result<(), ToolFailure> {
        match self.action {
            Action::List | Action::Output => {}
            Action::Wait => {
                let clock = self.jobs.clock.sleep(self.wait);
                tokio::select! {
                    biased;
                    () = job.ended() => {}
                    () = context.token.cancelled() => {
                        let text = format!("The wait was cancelled; {} goes on.", job.id);
                        return Err(ToolFailure::aborted(text));
                    }
                    () = clock => {}
                }
            }
            // The supervisor bounds the wait.
            Action::Kill => {
                job.token.cancel();
                job.ended().await;
            }
        }
        Ok(())
    }

    fn list(&self) -> Look {
        let all = self.jobs.lock().clone();
        let mut look = Look { text: String::new(), jobs: Vec::new(), whole: None };
        for job in &all {
            let row = Row::of(job, &job.state.borrow());
            let how = if row.running { "runs".to_owned() } else { row.end.join("; ") };
            let Row { job, command, output_bytes, .. } = &row;
            look.text
                .push_str(&format!("{job}: {how}, {output_bytes} bytes of output: {command}\n"));
            look.jobs.push(row);
        }
        if look.jobs.is_empty() {
            look.text.push_str("There are no jobs.\n");
        }
        look
    }
}

/// What a job has written since the last look, and where it stands.
async fn look(job: &Job) -> Look {
    let (state, text) = job.unread();
    let row = Row::of(job, &state);
    let text = if text.is_empty() { "(no new output)".to_owned() } else { text };
    let mut end = if row.running { vec![format!("{} runs", job.id)] } else { row.end.clone() };
    let mut whole = None;
    if let Some(Ok(finished)) = &state.end {
        let kept = job.kept(finished).await;
        end.extend(report::not_kept(finished, kept));
        whole = kept.clone().unwrap_or_default();
    }
    Look { text: report::with_end(text, &end), jobs: vec![row], whole }
}

impl Row {
    fn of(job: &Job, state: &JobState) -> Self {
        let finished = state.end.as_ref().and_then(|end| end.as_ref().ok());
        Self {
            job: job.id.to_string(),
            command: job.title.clone(),
            running: state.end.is_none(),
            output_bytes: state.output.total_bytes(),
            end: state.end.as_ref().map(|end| job.end(end)).unwrap_or_default(),
            facts: finished.map(|finished| Facts::of(finished)),
        }
    }
}
