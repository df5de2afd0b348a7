//! The launcher: this binary, executed when an agent starts its first command, that splits off a
//! process for each command.
//!
//! Executing the binary for each command would cost more than most commands do. So would splitting
//! then: one process is always split off ahead, which takes the next command from the agent itself.
//! The launcher does next to nothing, so that it stays small, has nothing to lose and can be replaced at
//! any time: it reads no request, keeps no descriptor of a command, and knows no command; so what it
//! splits off knows none but its own. A command's supervisor and guard do not need it once they run. What
//! they lose, should both be killed, comes to the launcher and ends with the agent.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal};
use rustix::stdio::{dup2_stdin, stdin};

use super::guard::WAKE_INTERVAL;
use super::protocol::{Status, Step};
use super::{Watch, adopt_orphans, pause, report_to, tree};
use crate::plant::Plant;
use crate::sandbox::descriptors::close_inherited;
use crate::sandbox::fork::{Collector, Fork, collect_children_by, split};

/// How long supervisors and guards may take to end everything once the agent is gone.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// How long a command that was taken has the processors for itself before another process is split off,
/// unless the next one comes before.
const HEAD_START: Duration = Duration::from_millis(1);

/// What a command reads and writes, apart from a terminal.
pub(super) struct Streams {
    /// Takes what it writes: all of it, or only its errors where it is spoken with.
    pub(super) output: OwnedFd,
    /// Its input and its answers, where it is spoken with.
    pub(super) dialogue: Option<(OwnedFd, OwnedFd)>,
}

/// Serves the agent. Returns in the process of each new command, with its streams and
/// its socket as descriptor 0; and in the launcher with `None` when the agent and all commands are
/// gone, as in the process that waited for a command then.
pub(super) fn serve() -> std::io::Result<Option<Streams>> {
    if !Plant::InheritedDescriptors.is_in() {
        close_inherited()?;
    }
    rustix::process::setsid()?;
    let me = adopt_orphans()?;
    collect_children_by(Collector::System)?;
    loop {
        let taken = eventfd(0, EventfdFlags::CLOEXEC)?;
        match split() {
            Ok(Fork::Parent(next)) if takes(next, &taken) => {
                pause(&mut [PollFd::new(&stdin(), PollFlags::IN)], HEAD_START);
                continue;
            }
            Ok(Fork::Child) => {
                let streams = next_command(Some(&taken))?;
                return streams.map(|(control, streams)| serve_only(&control, streams)).transpose();
            }
            // It was killed, the agent is gone, or there can be no other process for now.
            Ok(Fork::Parent(_)) | Err(_) => {}
        }
        let Some((control, streams)) = next_command(None)? else { break };
        match split() {
            Ok(Fork::Parent(_)) => {}
            Ok(Fork::Child) => return serve_only(&control, streams).map(Some),
            Err(error) => {
                let error = format!("splitting off a process: {error}");
                report_to(control.as_fd(), &Status::Failed { step: Step::Setup, error });
            }
        }
    }
    end(me);
    Ok(None)
}

/// Makes this process the one of the command whose socket is `control`.
fn serve_only(control: &OwnedFd, streams: Streams) -> std::io::Result<Streams> {
    collect_children_by(Collector::Itself)?;
    dup2_stdin(control)?;
    Ok(streams)
}

/// Waits for the process `next`, which waits for a command, and tells whether it has taken one:
/// otherwise it is gone.
fn takes(next: Pid, taken: &OwnedFd) -> bool {
    // A command may have killed it already.
    let Ok(handle) = pidfd_open(next, PidfdFlags::empty()) else { return false };
    let control = stdin();
    let mut over = false;
    loop {
        let mut watched = vec![
            PollFd::new(taken, PollFlags::IN),
            PollFd::new(&handle, PollFlags::IN),
            PollFd::new(&control, PollFlags::RDHUP),
        ];
        let limit = over.then_some(WAKE_INTERVAL);
        if over {
            // Nobody else wakes it, should a command have stopped it, now that the agent is gone.
            pidfd_send_signal(&handle, Signal::CONT).ok();
            // An end stays to be heard.
            watched.pop();
        }
        let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
        // An interruption only makes the wait shorter.
        poll(&mut watched, limit.as_ref()).ok();
        let heard = watched.iter().map(|it| !it.revents().is_empty());
        match heard.collect::<Vec<_>>()[..] {
            [true, ..] => return true,
            [_, true, ..] => return false,
            [_, _, is_over] => over = is_over,
            _ => {}
        }
    }
}

/// Waits for the next command, and notes on `taken` that it is there. Returns its socket and its
/// streams; `None` when the agent is gone.
fn next_command(taken: Option<&OwnedFd>) -> std::io::Result<Option<(OwnedFd, Streams)>> {
    while let Some(descriptors) = receive()? {
        // With too few the agent sees its socket reset, as it does when this process is killed.
        let mut descriptors = descriptors.into_iter();
        let (Some(control), Some(output)) = (descriptors.next(), descriptors.next()) else {
            continue;
        };
        if let Some(taken) = taken {
            rustix::io::write(taken, &1_u64.to_ne_bytes())?;
        }
        let dialogue = descriptors.next().zip(descriptors.next());
        return Ok(Some((control, Streams { output, dialogue })));
    }
    Ok(None)
}

/// Takes the descriptors of the next command; `None` when the agent is gone.
fn receive() -> std::io::Result<Option<Vec<OwnedFd>>> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = rustix::io::retry_on_intr(|| {
        let into = &mut [IoSliceMut::new(&mut byte)];
        recvmsg(stdin(), into, &mut ancillary, RecvFlags::CMSG_CLOEXEC)
    })?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let messages = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    Ok(Some(messages.flatten().collect()))
}

/// The agent is gone, which every supervisor and guard has heard, too. Wakes those that a command
/// stopped, and ends in the end what has none any more.
fn end(me: Pid) {
    let limit = Instant::now() + STOP_LIMIT;
    while rustix::process::wait(WaitOptions::NOHANG).is_ok() {
        if Instant::now() > limit {
            Watch { me, main: me, running: false, children: true, limit: None }.end_all();
            return;
        }
        for process in tree::descendants(me.as_raw_nonzero().get()) {
            process.signal(Signal::CONT);
        }
        pause(&mut [], WAKE_INTERVAL);
    }
}
