//! The supervisor: the process that runs one command and ends every descendant of it.
//!
//! It is a process of its own because it must be the subreaper that orphans come back to: waiting
//! for any child would steal exit statuses from the agent's runtime. It is split off the
//! [`launcher`], which is this binary executed again, and splits in two, so that one is left when
//! the other is killed ([`guard`]). It starts no thread, has an empty environment, and judges
//! nothing. Its descriptors: 0 is the socket to the agent ([`protocol`]), 1 and 2 go nowhere; the
//! command's streams are let go of once the command has them.

mod confined;
mod guard;
mod launcher;
pub(crate) mod protocol;
pub(crate) mod tree;

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use rustix::stdio::stdin;

use crate::plant::Plant;
use crate::sandbox::fork::Fork;
use crate::sandbox::placeholders::Placeholders;
use crate::sandbox::process_limit::is_reached;
use crate::sandbox::start::{Leads, Program};
use confined::Handover;
use launcher::Streams;
use protocol::{MAX_REQUEST, Request, Status, Step};

/// The hidden subcommand that makes the binary a launcher of supervisors.
pub(crate) const SUBCOMMAND: &str = "__supervise";

/// How a supervisor exits that could not start its command.
const FAILED: u8 = 125;

/// How often ended orphans are collected while the command runs.
const REAP_INTERVAL: Duration = Duration::from_secs(1);

/// How long processes have to end by themselves after SIGTERM.
const TERM_GRACE: Duration = Duration::from_millis(200);

/// How long SIGKILL may take before the agent is told that processes are left.
const KILL_LIMIT: Duration = Duration::from_secs(1);

/// The pause between two looks at processes that are about to end.
const ROUND: Duration = Duration::from_millis(2);

/// The pause between two tries once the agent was told that processes are left.
const STUBBORN_ROUND: Duration = Duration::from_millis(500);

/// Runs as the launcher, and as the supervisors that come of it, when this process was started for
/// that; `None` otherwise. Call it first in `main`, before any thread exists.
pub fn run_if_requested() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    let requested = arguments.next()? == SUBCOMMAND && arguments.next().is_none();
    requested.then(|| match launcher::serve() {
        Ok(Some(streams)) => supervise(streams).map_or_else(
            |(step, error)| {
                report(&Status::Failed { step, error });
                ExitCode::from(FAILED)
            },
            |()| ExitCode::SUCCESS,
        ),
        Ok(None) => ExitCode::SUCCESS,
        // The agent sees that it is gone.
        Err(_) => ExitCode::from(FAILED),
    })
}

fn supervise(streams: Streams) -> Result<(), (Step, String)> {
    let setup = |what: &str, error: std::io::Error| (Step::Setup, format!("{what}: {error}"));
    rustix::process::setsid().map_err(|e| setup("setsid", e.into()))?;
    // Split only after the request was read: whatever is heard from here on is the order to stop.
    let request = receive().map_err(|e| setup("reading the request", e))?;
    if is_forsaken() {
        return Ok(());
    }
    let guard = adopt_orphans().map_err(|e| setup("adopting orphans", e))?;
    let placeholders = confined::prepare(request.confinement.as_ref())?;
    let over = rustix::event::eventfd(0, EventfdFlags::CLOEXEC)
        .map_err(|e| setup("making an event", e.into()))?;
    if let Fork::Parent(supervisor) = confined::split_for(request.confinement.as_ref())? {
        drop(streams);
        guard::stand_behind(supervisor, guard, &over);
        // A record that stays tells the agent and the next command of them.
        if placeholders.is_some_and(|it| it.remove().is_ok()) {
            report(&Status::Tidied);
        }
        // The agent waits for this, and not for the system to take this process down.
        rustix::net::shutdown(stdin(), Shutdown::Write).ok();
        return Ok(());
    }
    let ways = placeholders.and_then(Placeholders::into_ways);
    let me = adopt_orphans().map_err(|e| setup("adopting orphans", e))?;
    let (main, handover) = start(&request, streams)?;
    let handle = rustix::process::pidfd_open(main, PidfdFlags::empty()).ok();
    report(&Status::Started { group: guard.as_raw_nonzero().get() });
    let limit = request.confinement.as_ref().map(|it| it.policy.processes);
    confined::watch(request.confinement, handover, ways);
    Watch { me, main, running: true, children: true, limit }.run(handle);
    // A guard that is gone need not know.
    rustix::io::write(&over, &1_u64.to_ne_bytes()).ok();
    // The command may have stopped the guard, which has nothing to wait for any more.
    if rustix::process::getppid() == Some(guard) {
        guard::wake(guard);
    }
    Ok(())
}

/// Makes this process the one that orphans come to, and its parent's end a reason to go on if it
/// is stopped: what then is to be done, it learns from the socket.
fn adopt_orphans() -> std::io::Result<Pid> {
    let me = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(me))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::CONT))?;
    Ok(me)
}

/// Whether the agent is gone, and not just done with speaking: then nobody wants the command any more.
fn is_forsaken() -> bool {
    let control = stdin();
    let mut watched = [PollFd::new(&control, PollFlags::empty())];
    pause(&mut watched, Duration::ZERO);
    watched.iter().any(|it| it.revents().contains(PollFlags::HUP))
}

/// Reads the one request line.
fn receive() -> std::io::Result<Request> {
    let mut line = Vec::new();
    let mut buffer = [0; 4096];
    while !line.ends_with(b"\n") {
        let count = rustix::io::retry_on_intr(|| rustix::io::read(stdin(), &mut buffer))?;
        line.extend(buffer.iter().take(count));
        if count == 0 || line.len() > MAX_REQUEST {
            return Err(std::io::ErrorKind::InvalidData.into());
        }
    }
    serde_json::from_slice(&line).map_err(std::io::Error::from)
}

/// Starts the command, which alone keeps its streams.
fn start(request: &Request, streams: Streams) -> Result<(Pid, Option<Handover>), (Step, String)> {
    let setup = |error: std::io::Error| (Step::Setup, error.to_string());
    let Streams { output, dialogue } = streams;
    // The command may have no path to it.
    let terminal = request.terminal.as_ref().map(|path| open_terminal(path.as_ref()));
    let terminal = terminal.transpose().map_err(setup)?;
    let lock = confined::enter(request.confinement.as_ref(), terminal.as_ref())?;
    // Entered here and not by the child: its error would be that of a missing program.
    std::env::set_current_dir(&request.cwd)
        .map_err(|error| (Step::WorkingDirectory, error.to_string()))?;
    let program = Program::new(&request.program, &request.arguments, &request.environment)
        .map_err(|error| (Step::Program, error.to_string()))?;
    let nothing = fs_err::File::open("/dev/null").map_err(setup)?;
    let (leads, streams) = match (&terminal, &dialogue) {
        (Some(terminal), _) => (Leads::Session, [terminal.as_fd(); 3]),
        (None, Some((input, answers))) => {
            (Leads::Group, [input.as_fd(), answers.as_fd(), output.as_fd()])
        }
        (None, None) => (Leads::Group, [nothing.as_fd(), output.as_fd(), output.as_fd()]),
    };
    confined::start(&program, streams, leads, lock.as_ref())
}

/// Opens a terminal without making it that of this process.
fn open_terminal(path: &Path) -> std::io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(rustix::fs::open(path, flags, Mode::empty())?)
}

/// Tells the agent.
fn report(status: &Status) {
    report_to(stdin(), status);
}

/// Tells the agent. An agent that is gone cannot be told, and its end is noticed elsewhere.
fn report_to(control: BorrowedFd<'_>, status: &Status) {
    let Ok(mut line) = serde_json::to_vec(status) else { return };
    line.push(b'\n');
    let mut rest = line.as_slice();
    while !rest.is_empty() {
        match rustix::io::retry_on_intr(|| rustix::io::write(control, rest)) {
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(_) => return,
        }
    }
}

/// What a supervisor knows of its command.
struct Watch {
    me: Pid,
    main: Pid,
    /// The command's own process has not ended.
    running: bool,
    /// Some child of the supervisor, adopted ones included, has not been collected.
    children: bool,
    /// How many processes and threads it may have at once, until it was seen to have them.
    limit: Option<u32>,
}

impl Watch {
    /// Follows the command until nothing of it is left or the agent says stop, then ends the rest.
    fn run(mut self, handle: Option<OwnedFd>) {
        while !self.stop_requested(handle.as_ref()) {
            self.reap();
            if !self.children {
                report(&Status::Done { survivors: 0, left: 0 });
                return;
            }
            self.count();
        }
        self.end_all();
    }

    /// Waits for the agent, the command's end or the next time to reap. True when the agent is
    /// gone or has shut down its half of the socket.
    fn stop_requested(&self, handle: Option<&OwnedFd>) -> bool {
        let control = stdin();
        let mut waited = vec![PollFd::new(&control, PollFlags::IN)];
        // A process that has ended stays readable, which would make this a busy loop.
        if let Some(handle) = handle.filter(|_| self.running) {
            waited.push(PollFd::new(handle, PollFlags::IN));
        }
        pause(&mut waited, REAP_INTERVAL);
        // The agent sends nothing after its request: whatever is heard is the end.
        waited.first().is_some_and(|control| !control.revents().is_empty())
    }

    /// Collects what has ended, and reports the end of the command's own process.
    fn reap(&mut self) {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.main => {
                    self.running = false;
                    report(&Status::Exited {
                        code: status.exit_status(),
                        signal: status.terminating_signal(),
                    });
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return,
                Err(_) => {
                    self.children = false;
                    return;
                }
            }
        }
    }

    /// SIGTERM, a short grace, then SIGKILL in rounds until no descendant is left. Orphans come
    /// back to this process, so a round also finds what was forked while the last one ran.
    fn end_all(&mut self) {
        self.reap();
        self.count();
        let first = self.alive();
        let survivors = first.iter().filter(|process| !self.is_main(process)).count();
        for process in &first {
            process.signal(Signal::TERM);
        }
        if Plant::GroupKill.is_in() {
            rustix::process::kill_process_group(self.main, Signal::KILL).ok();
            rustix::process::waitpid(Some(self.main), WaitOptions::empty()).ok();
            report(&Status::Exited { code: None, signal: Some(Signal::TERM.as_raw()) });
            report(&Status::Done { survivors, left: 0 });
            return;
        }
        let patience = Instant::now() + TERM_GRACE;
        while self.children && Instant::now() < patience {
            pause(&mut [], ROUND);
            self.reap();
        }
        let limit = Instant::now() + KILL_LIMIT;
        let mut told = false;
        while self.children {
            let alive = self.alive();
            for process in &alive {
                process.signal(Signal::KILL);
            }
            if !told && Instant::now() > limit {
                told = true;
                report(&Status::Done { survivors, left: alive.len() });
            }
            pause(&mut [], if told { STUBBORN_ROUND } else { ROUND });
            self.reap();
        }
        if !told {
            report(&Status::Done { survivors, left: 0 });
        }
    }

    /// Tells once when the command has all the processes and threads that it may have.
    fn count(&mut self) {
        if self.limit.take_if(|limit| is_reached(*limit)).is_some() {
            report(&Status::Crowded);
        }
    }

    fn alive(&self) -> Vec<tree::Process> {
        let mut found = tree::descendants(self.me.as_raw_nonzero().get());
        found.retain(|process| !process.zombie);
        found
    }

    fn is_main(&self, process: &tree::Process) -> bool {
        process.pid() == self.main.as_raw_nonzero().get()
    }
}

/// Waits for `descriptors` or for `limit`, whatever comes first.
fn pause(descriptors: &mut [PollFd<'_>], limit: Duration) {
    // An interruption only makes the wait shorter.
    poll(descriptors, Timespec::try_from(limit).ok().as_ref()).ok();
}
