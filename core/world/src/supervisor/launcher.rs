//! The launcher: this binary, executed when an agent starts its first command, that splits off a
//! process for each command.
//!
//! Executing the binary for each command would cost more than most commands do. The launcher does
//! next to nothing, so that it stays small, has nothing to lose and can be replaced at any time: it
//! reads no request, keeps no descriptor of a command, and knows no command. A command's supervisor
//! and guard do not need it once they run. What they lose, should both be killed, comes to the
//! launcher and ends with the agent.

use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::time::{Duration, Instant};

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use rustix::process::{Pid, Signal, WaitOptions};
use rustix::stdio::{dup2_stdin, stdin};

use super::guard::WAKE_INTERVAL;
use super::protocol::{Status, Step};
use super::{Watch, adopt_orphans, pause, report_to, tree};
use crate::plant::Plant;
use crate::sandbox::descriptors::close_inherited;
use crate::sandbox::fork::{Collector, Fork, collect_children_by, split};

/// How long supervisors and guards may take to end everything once the agent is gone.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// What a command reads and writes, apart from a terminal.
pub(super) struct Streams {
    /// Takes what it writes: all of it, or only its errors where it is spoken with.
    pub(super) output: OwnedFd,
    /// Its input and its answers, where it is spoken with.
    pub(super) dialogue: Option<(OwnedFd, OwnedFd)>,
}

/// Serves the agent. Returns in the process of each new command, with its streams and
/// its socket as descriptor 0; and in the launcher with `None` when the agent and all commands are
/// gone.
pub(super) fn serve() -> std::io::Result<Option<Streams>> {
    if !Plant::InheritedDescriptors.is_in() {
        close_inherited()?;
    }
    rustix::process::setsid()?;
    let me = adopt_orphans()?;
    collect_children_by(Collector::System)?;
    while let Some(descriptors) = receive()? {
        // With too few the agent sees its socket reset, as it does when this process is killed.
        let mut descriptors = descriptors.into_iter();
        let (Some(control), Some(output)) = (descriptors.next(), descriptors.next()) else {
            continue;
        };
        let dialogue = descriptors.next().zip(descriptors.next());
        match split() {
            Ok(Fork::Parent(_)) => {}
            Ok(Fork::Child) => {
                collect_children_by(Collector::Itself)?;
                dup2_stdin(&control)?;
                return Ok(Some(Streams { output, dialogue }));
            }
            Err(error) => {
                let error = format!("splitting off a process: {error}");
                report_to(control.as_fd(), &Status::Failed { step: Step::Setup, error });
            }
        }
    }
    end(me);
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
            Watch { me, main: me, running: false, children: true }.end_all();
            return;
        }
        for process in tree::descendants(me.as_raw_nonzero().get()) {
            process.signal(Signal::CONT);
        }
        pause(&mut [], WAKE_INTERVAL);
    }
}
