//! What a supervisor does for a command that has a policy. Each step fails closed: a policy that is
//! not in force means that nothing is started.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::process::{Pid, Signal, WaitOptions};

use super::protocol::{Status, Step};
use super::report;
use crate::plant::Plant;
use crate::sandbox::confine::{Confinement, Lock};
use crate::sandbox::denials::Watcher;
use crate::sandbox::fork::{Fork, split};
use crate::sandbox::listener::Listener;
use crate::sandbox::namespaces::split_into;
use crate::sandbox::placeholders::Placeholders;
use crate::sandbox::start::{self, Leads, Program, Started};
use crate::sandbox::ways::Ways;

/// What came of locking a command in: who is to be asked, if anybody is.
pub(super) type Handover = Option<Listener>;

type Failure = (Step, String);

fn sandbox(error: io::Error) -> Failure {
    (Step::Sandbox, error.to_string())
}

/// Makes the placeholders that the command needs, in the process that will remove them.
pub(super) fn prepare(confinement: Option<&Confinement>) -> Result<Option<Placeholders>, Failure> {
    let Some(confinement) = confinement else { return Ok(None) };
    let made = confinement
        .record()
        .map(|record| Placeholders::make(record, &confinement.policy.protected.absent));
    made.transpose().map_err(sandbox)
}

/// Splits off the supervisor, in namespaces of its own where the policy wants them.
pub(super) fn split_for(confinement: Option<&Confinement>) -> Result<Fork, Failure> {
    match confinement.and_then(Confinement::namespaces) {
        Some(own) => {
            split_into(own).map_err(|error| (Step::Sandbox, format!("no namespaces: {error}")))
        }
        None => split().map_err(|error| (Step::Setup, format!("splitting: {error}"))),
    }
}

/// Puts the policy in force around this process, and prepares the rest of it.
pub(super) fn enter(
    confinement: Option<&Confinement>,
    terminal: Option<&OwnedFd>,
) -> Result<Option<Lock>, Failure> {
    confinement.map(|it| it.enter(terminal)).transpose().map_err(sandbox)
}

/// Starts the command. Tells a program that cannot be executed from a command that could not be locked
/// in.
pub(super) fn start(
    program: &Program,
    streams: [BorrowedFd<'_>; 3],
    leads: Leads,
    lock: Option<&Lock>,
) -> Result<(Pid, Option<Handover>), Failure> {
    let Started { child, locked, error } = start::start(program, streams, leads, lock)
        .map_err(|error| (Step::Setup, format!("splitting: {error}")))?;
    let is_right = lock.is_none() || locked.is_some() || Plant::PolicyAfterExec.is_in();
    match error {
        None if is_right => Ok((child, lock.map(|_| locked.flatten()))),
        None => {
            // Nobody knows what it is, so it is not to run.
            rustix::process::kill_process(child, Signal::KILL)
                .and_then(|()| rustix::process::waitpid(Some(child), WaitOptions::empty()))
                .map_err(|error| sandbox(error.into()))?;
            Err((Step::Sandbox, "the command was not locked in".to_owned()))
        }
        Some(error) if is_right => Err((Step::Program, error.to_string())),
        Some(error) => Err((Step::Sandbox, format!("locking the command in: {error}"))),
    }
}

/// Tells what the command is refused, from a thread that ends with the last of its processes. This
/// process splits no more, so a thread does no harm.
pub(super) fn watch(
    confinement: Option<Confinement>,
    handover: Option<Handover>,
    ways: Option<Ways>,
) {
    let (Some(confinement), Some(handover)) = (confinement, handover) else { return };
    let Some(listener) = handover else {
        report(&Status::Unwatched);
        return;
    };
    let watcher = std::thread::Builder::new().name("denials".to_owned());
    let watched = watcher.spawn(move || {
        let tell = |denial: &_| report(&Status::Denied { denial: Clone::clone(denial) });
        Watcher::new(&confinement, ways, tell).serve(&listener);
    });
    // Without the thread the listener is closed, and the kernel refuses what is asked.
    drop(watched);
}
