//! The guard: a second process above the supervisor, for when that one is lost.
//!
//! A command has the rights of its user, so it can kill or stop the process that watches it. The
//! guard is the subreaper above: what a killed supervisor leaves behind comes to it and is ended.
//! A supervisor in turn outlives its guard, so that either of the two is enough. The guard does
//! nothing else: it reads no request, starts no command and reports only in a lost supervisor's
//! place.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, WaitStatus};
use rustix::stdio::stdin;

use super::{REAP_INTERVAL, Watch, pause};

/// How long a supervisor may take after the order to end everything before it is killed and
/// replaced. Longer than it takes to report processes that cannot be ended.
const STOP_LIMIT: Duration = Duration::from_millis(1500);

/// The pause between two signals that make a stopped supervisor go on.
pub(super) const WAKE_INTERVAL: Duration = Duration::from_millis(20);

/// Waits for `supervisor` to end, and ends what is left when it did not end by itself.
pub(super) fn stand_behind(supervisor: Pid, me: Pid) {
    let handle = rustix::process::pidfd_open(supervisor, PidfdFlags::empty()).ok();
    let mut ordered = None;
    let status = loop {
        let watched = WaitOptions::NOHANG | WaitOptions::UNTRACED;
        match rustix::process::waitpid(Some(supervisor), watched) {
            Ok(Some((_, status))) if status.stopped() => wake(supervisor),
            Ok(Some((_, status))) => break Some(status),
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => break None,
        }
        match ordered {
            None if stop_requested(handle.as_ref()) => ordered = Some(Instant::now()),
            None => {}
            Some(since) => urge(supervisor, since, handle.as_ref()),
        }
    };
    if status.and_then(WaitStatus::exit_status).is_none() {
        Watch { me, main: supervisor, running: false, children: true }.end_all();
    }
}

/// Waits for the agent's order, the supervisor's end or a while. True when it was the order.
fn stop_requested(supervisor: Option<&OwnedFd>) -> bool {
    let control = stdin();
    let mut waited = vec![PollFd::new(&control, PollFlags::IN)];
    waited.extend(supervisor.map(|handle| PollFd::new(handle, PollFlags::IN)));
    pause(&mut waited, REAP_INTERVAL);
    waited.first().is_some_and(|control| !control.revents().is_empty())
}

/// Makes a supervisor that was ordered to end everything go on, or kills it when it had its time,
/// and waits a little for its end.
fn urge(supervisor: Pid, ordered: Instant, handle: Option<&OwnedFd>) {
    if ordered.elapsed() > STOP_LIMIT {
        rustix::process::kill_process(supervisor, Signal::KILL).ok();
    } else {
        wake(supervisor);
    }
    let mut waited: Vec<_> =
        handle.map(|handle| PollFd::new(handle, PollFlags::IN)).into_iter().collect();
    pause(&mut waited, WAKE_INTERVAL);
}

/// Makes a stopped supervisor or guard go on. The number is its own: that of a child which only
/// this process can collect, or of this process's parent.
pub(super) fn wake(process: Pid) {
    rustix::process::kill_process(process, Signal::CONT).ok();
}
