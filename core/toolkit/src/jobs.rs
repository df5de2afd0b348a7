//! Commands that run on beside the turns of a session, and end with it at the latest.
//!
//! `shell` starts them, the tool `job` looks after them. Each is on the log (`job/started`,
//! `job/ended`); when one ends, the person is told and the model reads it before its next step. Of
//! its output memory keeps the beginning and the end; the whole grows in a file without a name,
//! which becomes a blob when the model looks at a job that has ended.

mod tool;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bridle_agent::{AgentHandle, Confinement, JobFact, Tool, ToolFailure};
use bridle_compose::{ActivateError, Clock, Plugin, ServiceKey, Setup, TaskSet};
use bridle_session::{
    Content, JobEnded, JobId, JobOutcome, JobStarted, MessageId, UserMessage, UserSource,
};
use bridle_store::BlobStore;
use bridle_world::process::{Capture, CommandSpec, Finished, Processes, Running};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{OnceCell, watch};
use tokio_util::sync::CancellationToken;

use crate::shell::clean::clean;
use crate::shell::report;
use crate::shell::spool::{Kept, Spool};
use crate::target::one_line;

/// How many jobs of a session may run at once.
const MAX_RUNNING: usize = 8;

/// How many jobs that have ended are remembered with their output.
const MAX_ENDED: usize = 16;

/// How many jobs of a session have a file for the whole of their output, each up to the limit of
/// one. A new job takes the place of the one that has ended first.
const MAX_SPOOLS: usize = MAX_RUNNING;

/// Puts the jobs of a session into its scope, and the tool that looks after them. Closing the row
/// ends every job and awaits it.
pub(crate) struct JobsPlugin;

#[async_trait]
impl Plugin for JobsPlugin {
    const NAME: &'static str = "jobs";
    type Config = ();
    type Needs = (Arc<AgentHandle>, Arc<dyn Clock>, Arc<dyn BlobStore>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Jobs>()]
    }

    async fn activate(
        &self,
        (): (),
        (agent, clock, blobs): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let jobs = Arc::new(Jobs {
            agent,
            clock,
            blobs,
            tasks: setup.scope().tasks().clone(),
            closing: setup.token().clone(),
            all: Mutex::default(),
        });
        let ending = Arc::clone(&jobs);
        setup.on_retract("the jobs", move || async move {
            ending.end_all().await;
            Ok(())
        })?;
        setup.add::<dyn Tool>(tool::NAME, Arc::new(tool::JobTool::new(Arc::clone(&jobs))))?;
        Ok(setup.provide(jobs)?)
    }
}

/// The jobs of one session.
pub(crate) struct Jobs {
    agent: Arc<AgentHandle>,
    clock: Arc<dyn Clock>,
    blobs: Arc<dyn BlobStore>,
    tasks: TaskSet,
    /// Cancelled when the session is closed: ends every job.
    closing: CancellationToken,
    /// Oldest first.
    all: Mutex<Vec<Arc<Job>>>,
}

/// One command that runs, or ran, in the background.
pub(crate) struct Job {
    id: JobId,
    title: String,
    timeout: Option<Duration>,
    granted: Confinement,
    token: CancellationToken,
    state: watch::Sender<JobState>,
    /// Up to where the model has read the output.
    read: Mutex<u64>,
    /// Until it becomes a blob, is not needed, or a newer job takes its place.
    spool: Mutex<Option<Spool>>,
    /// What became of the whole, once the model has looked at it.
    kept: OnceCell<Kept>,
}

/// What the call that started a job yields.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Begun {
    job: String,
    running: bool,
}

#[derive(Clone, Default)]
struct JobState {
    output: Capture,
    end: Option<End>,
}

/// How a job ended; why that is not known.
type End = Result<Arc<Finished>, String>;

impl Jobs {
    /// Starts a command that runs on. It begins under the caller's token and then no longer ends
    /// with it.
    pub(crate) async fn start(
        self: &Arc<Self>,
        processes: &Processes,
        spec: CommandSpec,
        granted: Confinement,
        token: &CancellationToken,
    ) -> Result<Arc<Job>, ToolFailure> {
        if self.lock().iter().filter(|job| job.runs()).count() >= MAX_RUNNING {
            return Err(ToolFailure::failed(format!(
                "{MAX_RUNNING} jobs are running, which is the most; nothing was run. End one with \
                 `job` first."
            )));
        }
        self.make_room();
        let spool = Spool::of(Arc::clone(&self.blobs)).await;
        let spec = CommandSpec { spool: spool.file.clone(), ..spec };
        let job = Arc::new(Job {
            // Short enough for a model to repeat, random enough for the life of a session.
            id: JobId::new(format!("job-{:06x}", uuid::Uuid::new_v4().as_u128() & 0xff_ffff)),
            title: one_line(&spec.command),
            timeout: spec.timeout,
            granted,
            token: self.closing.child_token(),
            state: watch::Sender::default(),
            read: Mutex::default(),
            spool: Mutex::new(Some(spool)),
            kept: OnceCell::new(),
        });
        let running = begin(processes, spec, token).await?;
        let started = JobStarted { id: job.id.clone(), title: job.title.clone() };
        if let Err(gone) = self.agent.record_job(JobFact::Started(started)) {
            job.token.cancel();
            running.finish(job.token.clone(), |_| ()).await.map_err(report::not_run)?;
            return Err(ToolFailure::failed(format!("{gone}; the command was ended.")));
        }
        self.add(Arc::clone(&job));
        self.tasks.spawn(Arc::clone(self).follow(Arc::clone(&job), running));
        Ok(job)
    }

    /// Follows a job to its end, which is on the log before anybody who waits hears of it.
    async fn follow(self: Arc<Self>, job: Arc<Job>, running: Running) {
        let live = |output: &Capture| {
            job.state.send_modify(|state| state.output.clone_from(output));
        };
        let end = running.finish(job.token.clone(), live).await;
        let end = end.map(Arc::new).map_err(|error| error.to_string());
        let ended = JobEnded { id: job.id.clone(), outcome: outcome(&end) };
        if let Err(error) = self.agent.record_job(JobFact::Ended(ended)) {
            tracing::warn!(%error, job = job.id.as_str(), "the end of a job is not on the log");
        }
        // Who waits for it reads it there; what closes the session waits, and reads nothing.
        if job.state.receiver_count() == 0 || self.closing.is_cancelled() {
            self.tell(&job, &end);
        }
        if end.as_ref().is_ok_and(|finished| finished.output.omitted_bytes() == 0) {
            job.take_spool();
        }
        job.state.send_modify(|state| {
            if let Ok(finished) = &end {
                state.output.clone_from(&finished.output);
            }
            state.end = Some(end);
        });
    }

    /// Lets the model know before its next step.
    fn tell(&self, job: &Job, end: &End) {
        let output = match self.closing.is_cancelled() {
            true => {
                "The session was closed, so its output is gone; start it again if it is needed."
            }
            false => "Its output: `job` with the action \"output\".",
        };
        let (id, title, end) = (&job.id, &job.title, job.end(end).join("; "));
        let text = format!("The background job {id} (`{title}`) has ended: {end}. {output}");
        let told = self.agent.inject(UserMessage {
            id: MessageId::new(format!("{}-ended", job.id)),
            content: vec![Content::text(text)],
            source: UserSource::Context { name: tool::NAME.to_owned() },
        });
        if let Err(error) = told {
            tracing::debug!(%error, "the model is not told of the end of a job");
        }
    }

    fn add(&self, job: Arc<Job>) {
        let mut all = self.lock();
        let ended = all.iter().filter(|job| !job.runs()).count();
        if ended >= MAX_ENDED
            && let Some(oldest) = all.iter().position(|job| !job.runs())
        {
            all.remove(oldest);
        }
        all.push(job);
    }

    /// Lets files of jobs that have ended go until there is room for that of another, oldest first.
    fn make_room(&self) {
        let all = self.lock();
        let mut held = all.iter().filter(|job| job.has_spool()).count();
        for job in all.iter().filter(|job| !job.runs() && job.has_spool()) {
            if held < MAX_SPOOLS {
                return;
            }
            job.take_spool();
            held -= 1;
        }
    }

    fn find(&self, id: &str) -> Option<Arc<Job>> {
        self.lock().iter().find(|job| job.id.as_str() == id).map(Arc::clone)
    }

    async fn end_all(&self) {
        self.closing.cancel();
        let all = self.lock().clone();
        for job in all {
            job.ended().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Job>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the command and waits until it runs; a cancel ends it.
async fn begin(
    processes: &Processes,
    spec: CommandSpec,
    token: &CancellationToken,
) -> Result<Running, ToolFailure> {
    let cancelled = || ToolFailure::aborted("Cancelled while it began; nothing is left of it.");
    let running = processes.start(spec, token).await.map_err(report::not_run)?;
    let mut running = running.ok_or_else(cancelled)?;
    tokio::select! {
        biased;
        started = running.started() => started.map_err(report::not_run)?,
        () = token.cancelled() => {
            running.finish(token.clone(), |_| ()).await.map_err(report::not_run)?;
            return Err(cancelled());
        }
    }
    Ok(running)
}

fn outcome(end: &End) -> JobOutcome {
    let Ok(finished) = end else { return JobOutcome::Lost };
    match (finished.exit_code, finished.signal) {
        (Some(code), _) => JobOutcome::Exited { code },
        (None, Some(signal)) => JobOutcome::Killed { signal },
        (None, None) => JobOutcome::Lost,
    }
}

impl Begun {
    /// What the model reads.
    pub(crate) fn text(&self) -> String {
        let Self { job, .. } = self;
        format!(
            "Runs in the background as {job}. You are told when it ends; `job` shows its output, \
             waits for it, or ends it.\n"
        )
    }
}

impl Job {
    /// What the call that started it answers.
    pub(crate) fn begun(&self) -> Begun {
        Begun { job: self.id.to_string(), running: self.runs() }
    }

    fn runs(&self) -> bool {
        self.state.borrow().end.is_none()
    }

    /// Waits for its end.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn ended(&self) {
        // The sender lives as long as this job, so the wait ends only with the end.
        self.state.subscribe().wait_for(|state| state.end.is_some()).await.ok();
    }

    fn end(&self, end: &End) -> Vec<String> {
        match end {
            Ok(finished) => report::end(finished, self.timeout, self.granted),
            Err(error) => vec![format!("{error}; whether it had any effect is unknown")],
        }
    }

    fn take_spool(&self) -> Option<Spool> {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn has_spool(&self) -> bool {
        self.spool.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// What became of the whole of its output.
    async fn kept(&self, finished: &Finished) -> &Kept {
        let keep = async || match self.take_spool() {
            Some(spool) => spool.kept(finished).await,
            None if finished.output.omitted_bytes() == 0 => Ok(None),
            None => Err("newer jobs took its place".to_owned()),
        };
        self.kept.get_or_init(keep).await
    }

    /// The output since the last look.
    fn unread(&self) -> (JobState, String) {
        let state = self.state.borrow().clone();
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        let since = state.output.since(*read);
        *read = since.next;
        let text = clean(&since.text);
        let later =
            if state.end.is_none() { "; the whole can be read once it has ended" } else { "" };
        let text = match since.omitted {
            0 => text,
            omitted => format!("[... {omitted} bytes omitted{later} ...]\n{text}"),
        };
        (state, text)
    }
}
