//! The guard: a second process above the supervisor, for when that one is lost.
//!
//! A command has the rights of its user, so it can kill or stop the process that watches it. The
//! guard is the subreaper above: what a killed supervisor leaves behind comes to it and is ended.
//! A supervisor in turn outlives its guard, so that either of the two is enough. The guard does
//! nothing else: it reads no request, starts no command and reports only in a lost supervisor's
//! place.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
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

/// Waits for `supervisor` to end, or to say with `over` that nothing is left of its command, and ends
/// what is left when it did neither by itself. Its last word comes long before its end when it has
/// mounts of its own, which the system takes down at leisure.
pub(super) fn stand_behind(supervisor: Pid, me: Pid, over: &OwnedFd) {
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
        let limit = match ordered {
            None => REAP_INTERVAL,
            Some(since) => urge(supervisor, since),
        };
        // An order stays to be heard, so nobody listens for another.
        let order = ordered.is_none().then(stdin);
        let handle = handle.as_ref().map(OwnedFd::as_fd);
        let [is_ordered, has_spoken, _] = hear([order, Some(over.as_fd()), handle], limit);
        if is_ordered {
            ordered = Some(Instant::now());
        }
        if has_spoken {
            return;
        }
    };
    if status.and_then(WaitStatus::exit_status).is_none() {
        Watch { me, main: supervisor, running: false, children: true, limit: None }.end_all();
    }
}

/// Waits for one of these to be readable or closed, or for `limit`. Tells which of them are.
fn hear<const N: usize>(from: [Option<BorrowedFd<'_>>; N], limit: Duration) -> [bool; N] {
    let all = from.iter().flatten();
    let mut waited: Vec<PollFd<'_>> = all.map(|it| PollFd::new(it, PollFlags::IN)).collect();
    pause(&mut waited, limit);
    let mut answers = waited.iter().map(|it| !it.revents().is_empty());
    from.map(|it| it.is_some() && answers.next().unwrap_or_default())
}

/// Makes a supervisor that was ordered to end everything go on, or kills it when it had its time.
/// Returns how long to wait for what comes of it.
fn urge(supervisor: Pid, ordered: Instant) -> Duration {
    if ordered.elapsed() > STOP_LIMIT {
        rustix::process::kill_process(supervisor, Signal::KILL).ok();
    } else {
        wake(supervisor);
    }
    WAKE_INTERVAL
}

/// Makes a stopped supervisor or guard go on. The number is its own: that of a child which only
/// this process can collect, or of this process's parent.
pub(super) fn wake(process: Pid) {
    rustix::process::kill_process(process, Signal::CONT).ok();
}
