//! The agent's side of its launcher (`supervisor::launcher`): started with the first command, and
//! again whenever it is gone, which a command can bring about at any time.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bridle_compose::Clock;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, Shutdown, sendmsg};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use tokio::io::Interest;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};

use crate::plant::Plant;
use crate::supervisor::SUBCOMMAND;

/// How many launchers are tried for one command.
pub(super) const ATTEMPTS: usize = 5;

/// How long a launcher may take to end.
const STOP_LIMIT: Duration = Duration::from_secs(1);

/// Gives each command a process that will be its supervisor.
pub(super) struct Launcher {
    program: PathBuf,
    running: Mutex<Option<Running>>,
}

/// One life of the launcher.
struct Running {
    child: Child,
    socket: Arc<UnixStream>,
}

impl Launcher {
    /// One that executes `program`, whose `main` calls [`crate::supervisor::run_if_requested`].
    pub(super) fn new(program: PathBuf) -> Self {
        Self { program, running: Mutex::new(None) }
    }

    pub(super) fn program(&self) -> &std::path::Path {
        &self.program
    }

    /// Has a process split off that gets its socket, the pipe for a command's output and what else the
    /// command reads and writes.
    /// It is not known whether the launcher took them: when it did not, the socket is reset.
    ///
    /// # Errors
    /// When none can be started, or each was gone before it could be told.
    ///
    /// # Cancel safety
    /// When it is dropped, the descriptors may or may not have been handed over.
    pub(super) async fn hand_over(&self, descriptors: &[OwnedFd]) -> std::io::Result<()> {
        let mut attempts = 1;
        loop {
            let socket = self.socket()?;
            self.wake();
            match socket.async_io(Interest::WRITABLE, || send(&socket, descriptors)).await {
                Err(error) if is_gone(&error) && attempts < ATTEMPTS => self.forget(&socket),
                done => return done,
            }
            attempts += 1;
        }
    }

    /// Makes it go on should a command have stopped it, or the one that waits beside it for a command.
    pub(super) fn wake(&self) {
        if let Some(number) = self.lock().as_ref().and_then(Running::number) {
            // Refused when it is gone; the number is its own until it is waited for, and its group is
            // there soon after it has begun.
            kill_process(number, Signal::CONT).ok();
            kill_process_group(number, Signal::CONT).ok();
        }
    }

    /// Ends it, and waits for that: it ends when no process of a command is left, or in the
    /// background when that takes too long.
    ///
    /// # Cancel safety
    /// When it is dropped, the launcher ends in the background.
    pub(super) async fn close(&self, clock: &dyn Clock) {
        self.wake();
        let Some(mut running) = self.lock().take() else { return };
        rustix::net::shutdown(&*running.socket, Shutdown::Write).ok();
        tokio::select! {
            _ = running.child.wait() => {}
            () = clock.sleep(STOP_LIMIT) => {}
        }
    }

    /// The socket to one that runs, as far as is known.
    fn socket(&self) -> std::io::Result<Arc<UnixStream>> {
        let mut running = self.lock();
        let running = match running.take() {
            Some(it) => running.insert(it),
            None => running.insert(self.start()?),
        };
        Ok(Arc::clone(&running.socket))
    }

    /// Executes it with an empty environment and one descriptor, its socket.
    #[expect(clippy::disallowed_methods, reason = "the one place where the agent starts processes")]
    fn start(&self) -> std::io::Result<Running> {
        let (ours, theirs) = StdUnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let socket = Arc::new(UnixStream::from_std(ours)?);
        let child = Command::new(&self.program)
            .arg(SUBCOMMAND)
            .env_clear()
            .envs(Plant::passed_on())
            .current_dir("/")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Running { child, socket })
    }

    /// The next command starts another, unless that has been done.
    fn forget(&self, socket: &Arc<UnixStream>) {
        self.lock().take_if(|running| Arc::ptr_eq(&running.socket, socket));
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    fn number(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()?).ok()?)
    }
}

fn send(socket: &UnixStream, descriptors: &[OwnedFd]) -> std::io::Result<()> {
    let descriptors: Vec<_> = descriptors.iter().map(OwnedFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    Ok(sendmsg(socket, &[IoSlice::new(&[0])], &mut ancillary, flags).map(drop)?)
}

/// Whether nobody has the other end of a socket any more.
pub(super) fn is_gone(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    matches!(error.kind(), BrokenPipe | ConnectionReset)
}
