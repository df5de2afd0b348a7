//! One running command, seen from the agent: its supervisor, its output, its clocks.

use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, Sleep};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio_util::sync::CancellationToken;

use super::launcher::{ATTEMPTS, Launcher, is_gone};
use super::spool::Spool;
use super::{Capture, Finished, ProcessError};
use crate::plant::Plant;
use crate::sandbox::confine::Confinement;
use crate::sandbox::network::is_missed;
use crate::sandbox::placeholders::Record;
use crate::sandbox::{Denial, Verdict};
use crate::supervisor::protocol::{Request, Status, Step};

/// How long output is awaited after the command has ended: something in the background may hold
/// the pipe for as long as it likes.
const DRAIN_GRACE: Duration = Duration::from_millis(150);

/// How long a supervisor and its guard may take to end everything. They report leftovers before.
const STOP_LIMIT: Duration = Duration::from_secs(4);

/// The shortest time between two looks at live output.
const LIVE_INTERVAL: Duration = Duration::from_millis(100);

/// The size asked for the output pipe, in bytes; a larger pipe means fewer wake-ups.
const PIPE_SIZE: usize = 1024 * 1024;

/// The size of one read, in bytes.
const READ_SIZE: usize = 128 * 1024;

/// A command under its supervisor. Dropping it closes the socket, and the supervisor takes that
/// as the order to end everything.
pub(super) struct Call {
    launcher: Arc<Launcher>,
    request: Vec<u8>,
    link: Link,
    /// How many links have been tried.
    attempts: usize,
    /// The process group of supervisor and guard, from when the command runs to when they are done.
    group: Option<Pid>,
    /// Where the placeholders are on record that the guard removes when the command is over.
    record: Option<Record>,
    program: String,
    cwd: std::ffi::OsString,
    clock: Arc<dyn Clock>,
    on_denial: Option<OnDenial>,
    /// The command's ends of its input and its answers, until it has them.
    dialogue: Option<[OwnedFd; 2]>,
}

/// Hears of what the policy refuses.
type OnDenial = Box<dyn FnMut(&Denial) + Send>;

/// What joins the agent to a supervisor.
struct Link {
    status: Lines<BufReader<OwnedReadHalf>>,
    /// Shut down by being dropped.
    control: Option<OwnedWriteHalf>,
    output: Receiver,
    /// Nobody has read the whole request, or will: nothing was started.
    untaken: bool,
}

/// A wait that may not be running.
type Timer = Option<Sleep>;

/// What has happened so far.
struct Course {
    finished: Finished,
    /// The command's own process has ended.
    exited: bool,
    /// The supervisor has reported that nothing is left.
    done: bool,
    /// Nothing holds the output pipe any more.
    silent: bool,
    deadline: Timer,
    /// Bounds the wait for output after the end, and for the supervisor after a stop.
    patience: Timer,
    /// Runs while live output must not be shown again yet.
    quiet: Timer,
    /// Output has been captured since live output was shown last.
    unseen: bool,
    /// What the policy refused the command.
    denials: Vec<Denial>,
    /// Nobody could see what it refused.
    unwatched: bool,
    /// What was read and not yet captured.
    buffer: Vec<u8>,
    spool: Spool,
}

/// What can happen to a running command.
enum Event {
    /// The caller wants it to end.
    Cancelled,
    /// It has run for as long as it may.
    TimedOut,
    /// The supervisor reported something, or is gone.
    Status(std::io::Result<Option<String>>),
    /// There may be output in the buffer.
    Output {
        /// Nothing holds the pipe any more.
        ended: bool,
    },
    /// What was waited for with [`Course::patience`] did not come.
    PatienceOver,
    /// Live output may be shown again.
    QuietOver,
}

impl Call {
    /// Has a supervisor started and gives it the request.
    pub(super) async fn start(
        launcher: &Arc<Launcher>,
        request: Request,
        dialogue: Option<[OwnedFd; 2]>,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, ProcessError> {
        let mut line = serde_json::to_vec(&request).map_err(failure)?;
        line.push(b'\n');
        Ok(Self {
            launcher: Arc::clone(launcher),
            link: Link::new(launcher, &line, dialogue.as_ref()).await.map_err(failure)?,
            request: line,
            attempts: 1,
            group: None,
            record: request.confinement.as_ref().and_then(Confinement::record),
            program: request.program.to_string_lossy().into_owned(),
            cwd: request.cwd,
            clock,
            on_denial: None,
            dialogue,
        })
    }

    pub(super) fn on_denial(&mut self, told: OnDenial) {
        self.on_denial = Some(told);
    }

    /// Waits until the command runs.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn started(&mut self) -> Result<(), ProcessError> {
        let begun = self.begin().await;
        if begun.is_err() {
            self.tidy().await;
        }
        begun
    }

    async fn begin(&mut self) -> Result<(), ProcessError> {
        while self.group.is_none() {
            match self.link.status.next_line().await {
                Ok(Some(line)) => match serde_json::from_str(&line).map_err(failure)? {
                    Status::Started { group } => self.runs(group),
                    Status::Failed { step, error } => return Err(self.refused(step, error)),
                    _ => return Err(failure("it reports nonsense")),
                },
                end => self.died(end).await?,
            }
        }
        Ok(())
    }

    /// The process that everything the command starts descends from; `None` while it does not run.
    pub(super) fn group(&self) -> Option<Pid> {
        self.group
    }

    /// Follows the command to its end.
    pub(super) async fn finish(
        mut self,
        timeout: Option<Duration>,
        spool: Spool,
        token: CancellationToken,
        mut on_output: impl FnMut(&Capture) + Send,
    ) -> Result<Finished, ProcessError> {
        let mut course = Course::new(timeout.map(|timeout| self.clock.sleep(timeout)), spool);
        let followed = self.follow(&mut course, &token, &mut on_output).await;
        if course.finished.left == 0 {
            self.tidy().await;
        }
        followed?;
        let needed = course.finished.output.omitted_bytes() > 0;
        course.finished.denied = course.verdict();
        course.finished.spooled = course.spool.finish(needed).await;
        Ok(course.finished)
    }

    async fn follow(
        &mut self,
        course: &mut Course,
        token: &CancellationToken,
        on_output: &mut (impl FnMut(&Capture) + Send),
    ) -> Result<(), ProcessError> {
        while !(course.done && course.silent) {
            let event = self.next(course, token).await.map_err(failure)?;
            self.handle(event, course).await?;
            if course.unseen && course.quiet.is_none() {
                course.unseen = false;
                course.quiet = Some(self.clock.sleep(LIVE_INTERVAL));
                on_output(&course.finished.output);
            }
        }
        if course.unseen {
            on_output(&course.finished.output);
        }
        Ok(())
    }

    /// Waits until no placeholder of this command stands any more, and removes them in the place of a guard
    /// that is gone. Should a command have stopped the guard, they go with a later command.
    ///
    /// # Cancel safety
    /// Cancel safe.
    async fn tidy(&mut self) {
        let Some(record) = self.record.clone().filter(|_| !Plant::NoTidying.is_in()) else {
            return;
        };
        // Who still waits for an order is not to.
        drop(self.link.control.take());
        let limit = self.clock.sleep(STOP_LIMIT);
        let status = &mut self.link.status;
        let told = async {
            while let Ok(Some(line)) = status.next_line().await {
                if matches!(serde_json::from_str(&line), Ok(Status::Tidied)) {
                    return true;
                }
            }
            false
        };
        let tidied = tokio::select! {
            tidied = told => tidied,
            () = limit => return,
        };
        self.record = None;
        // Whoever had the socket is gone.
        if !tidied
            && let Ok(Err(error)) = tokio::task::spawn_blocking(move || record.give_up()).await
        {
            tracing::warn!(%error, "placeholders of a command may be left in the workspace");
        }
    }

    /// Waits for whatever happens next. Every branch is cancel safe: lines and reads lose nothing,
    /// and a timer that was not waited for to the end stays where it is.
    async fn next(
        &mut self,
        course: &mut Course,
        token: &CancellationToken,
    ) -> std::io::Result<Event> {
        Ok(tokio::select! {
            biased;
            () = token.cancelled(), if self.link.control.is_some() => Event::Cancelled,
            () = expired(&mut course.deadline) => Event::TimedOut,
            line = self.link.status.next_line(), if !course.done => Event::Status(line),
            read = self.link.output.read_buf(&mut course.buffer), if !course.silent => {
                Event::Output { ended: read? == 0 }
            }
            () = expired(&mut course.patience) => Event::PatienceOver,
            () = expired(&mut course.quiet) => Event::QuietOver,
        })
    }

    async fn handle(&mut self, event: Event, course: &mut Course) -> Result<(), ProcessError> {
        match event {
            Event::Cancelled => {
                course.finished.cancelled = !course.exited;
                self.stop(course);
            }
            Event::TimedOut => {
                course.finished.timed_out = true;
                self.stop(course);
            }
            Event::Status(Ok(Some(line))) => {
                self.take(serde_json::from_str(&line).map_err(failure)?, course)?;
            }
            Event::Status(end) => {
                self.died(end).await?;
                // Another supervisor has another pipe.
                course.silent = false;
            }
            Event::Output { ended } => {
                course.unseen |= !course.buffer.is_empty();
                course.finished.output.push(&course.buffer);
                course.spool.push(&course.buffer).await;
                course.buffer.clear();
                course.silent = ended;
                if course.exited && course.silent {
                    self.stop(course);
                }
            }
            Event::PatienceOver if course.done => course.silent = true,
            Event::PatienceOver if self.link.control.is_some() => self.stop(course),
            // Nobody is killed here: who is only slow goes on ending the command.
            Event::PatienceOver => {
                return Err(failure("it did not end the command in time; processes may be left"));
            }
            Event::QuietOver => {}
        }
        Ok(())
    }

    /// Orders the end of everything.
    fn stop(&mut self, course: &mut Course) {
        course.deadline = None;
        if self.link.control.take().is_some() && !course.done {
            self.wake();
            course.patience = Some(self.clock.sleep(STOP_LIMIT));
        }
    }

    /// Notes what the supervisor reported.
    fn take(&mut self, status: Status, course: &mut Course) -> Result<(), ProcessError> {
        match status {
            Status::Started { group } => self.runs(group),
            Status::Unwatched => course.unwatched = true,
            Status::Crowded => course.finished.crowded = true,
            // It comes where it is waited for, behind everything else.
            Status::Tidied => self.record = None,
            // Nobody is there whom the command could have reached.
            Status::Denied { denial: Denial::Network(Some(address)) } if !is_missed(address) => {}
            Status::Denied { denial } => {
                if let Some(told) = &mut self.on_denial {
                    told(&denial);
                }
                course.denials.push(denial);
            }
            Status::Failed { step, error } => return Err(self.refused(step, error)),
            Status::Exited { code, signal } => {
                course.exited = true;
                course.deadline = None;
                course.finished.exit_code = code;
                course.finished.signal = signal;
                if course.silent {
                    self.stop(course);
                } else if self.link.control.is_some() {
                    course.patience = Some(self.clock.sleep(DRAIN_GRACE));
                }
            }
            Status::Done { left, .. } if !course.exited => return Err(lost(left)),
            Status::Done { survivors, left } => {
                course.done = true;
                self.group = None;
                course.finished.survivors = survivors;
                course.finished.left = left;
                course.patience = Some(self.clock.sleep(DRAIN_GRACE));
            }
        }
        Ok(())
    }

    /// The command runs, and has its descriptors.
    fn runs(&mut self, group: i32) {
        self.group = Pid::from_raw(group);
        self.dialogue = None;
    }

    fn refused(&self, step: Step, reason: String) -> ProcessError {
        match step {
            Step::Setup => ProcessError::Supervisor { reason },
            Step::Sandbox => ProcessError::Sandbox { reason },
            Step::WorkingDirectory => {
                ProcessError::WorkingDirectory { path: self.cwd.clone().into(), reason }
            }
            Step::Program => ProcessError::Program { program: self.program.clone(), reason },
        }
    }

    /// The supervisor ended without a last word. When it had not taken the request, which is so
    /// when its launcher was killed, another is given it.
    async fn died(&mut self, end: std::io::Result<Option<String>>) -> Result<(), ProcessError> {
        self.group = None;
        let reset = end.as_ref().is_err_and(is_gone);
        self.link.untaken |= reset;
        match end {
            Err(error) if !reset => Err(failure(error)),
            _ if !self.link.untaken => Err(failure("it ended early; processes may be left")),
            _ if self.link.control.is_none() || self.attempts == ATTEMPTS => {
                Err(failure("it did not begin; nothing was started"))
            }
            _ => {
                self.attempts += 1;
                let link = Link::new(&self.launcher, &self.request, self.dialogue.as_ref());
                self.link = link.await.map_err(failure)?;
                Ok(())
            }
        }
    }

    /// Makes those go on that the command may have stopped. Supervisor and guard live until they
    /// have reported the end, so the number of their group is their own.
    fn wake(&self) {
        self.launcher.wake();
        if let Some(group) = self.group {
            // Refused when there is nobody to wake any more.
            kill_process_group(group, Signal::CONT).ok();
        }
    }
}

impl Link {
    /// Has a supervisor started, which gets the other end of the socket and of the output pipe and
    /// its own handles of `dialogue`, and gives it the request.
    async fn new(
        launcher: &Launcher,
        request: &[u8],
        dialogue: Option<&[OwnedFd; 2]>,
    ) -> std::io::Result<Self> {
        let (ours, theirs) = StdUnixStream::pair()?;
        let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        // A smaller pipe works as well; the limit for unprivileged users may be used up.
        rustix::pipe::fcntl_setpipe_size(&reader, PIPE_SIZE).ok();
        ours.set_nonblocking(true)?;
        let (status, mut control) = UnixStream::from_std(ours)?.into_split();
        let output = Receiver::from_owned_fd(reader)?;
        let mut descriptors = vec![OwnedFd::from(theirs), writer];
        for end in dialogue.into_iter().flatten() {
            descriptors.push(end.try_clone()?);
        }
        launcher.hand_over(&descriptors).await?;
        // Kept open here, the end of a stream would never be seen.
        drop(descriptors);
        // A supervisor that cannot take the request says why on its way out, if it can.
        let untaken = control.write_all(request).await.is_err();
        let status = BufReader::new(status).lines();
        Ok(Self { status, control: Some(control), output, untaken })
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        drop(self.link.control.take());
        self.wake();
    }
}

impl Course {
    fn new(deadline: Timer, spool: Spool) -> Self {
        Self {
            finished: Finished { cancelled: false, ..Finished::not_started() },
            exited: false,
            done: false,
            silent: false,
            deadline,
            patience: None,
            quiet: None,
            unseen: false,
            denials: Vec::new(),
            unwatched: false,
            buffer: Vec::with_capacity(READ_SIZE),
            spool,
        }
    }
}

impl Course {
    /// Whether the policy stood in the way.
    fn verdict(&mut self) -> Verdict {
        if Plant::DenialByText.is_in() {
            let text = self.finished.output.text(str::to_owned);
            let told = text.contains("denied") || text.contains("ermitted");
            return if told { Verdict::Confirmed { what: Vec::new() } } else { Verdict::None };
        }
        match std::mem::take(&mut self.denials) {
            what if !what.is_empty() => Verdict::Confirmed { what },
            _ if self.unwatched && self.finished.exit_code != Some(0) => Verdict::Suspected,
            _ => Verdict::None,
        }
    }
}

/// Completes once the timer does, and clears it; never when there is none. Cancel safe.
async fn expired(timer: &mut Timer) {
    match timer {
        Some(running) => running.await,
        None => std::future::pending().await,
    }
    *timer = None;
}

/// The supervisor was killed, and its guard ended the command in its place.
fn lost(left: usize) -> ProcessError {
    match left {
        0 => failure("it was killed, and then all processes of the command were ended"),
        left => failure(format!("it was killed; {left} processes of the command may go on")),
    }
}

pub(super) fn failure(reason: impl std::fmt::Display) -> ProcessError {
    ProcessError::Supervisor { reason: reason.to_string() }
}
