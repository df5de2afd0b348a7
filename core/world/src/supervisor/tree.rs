//! The process table as a tree: who descends from a process, and signals that reach exactly those.
//!
//! Reads `/proc/PID/stat`, which every kernel has, and finds children of any thread. It never
//! matches by name.

use std::collections::HashMap;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// One process, bound to one life of its number by the time it started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: i32,
    parent: i32,
    started: u64,
    /// It has ended and waits for its parent to notice.
    pub(crate) zombie: bool,
}

impl Process {
    /// Its number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Sends `signal`, unless the number has come to mean another process since the scan. A
    /// process that is gone, or that may not be signalled, is left to the next round.
    pub(crate) fn signal(&self, signal: Signal) {
        let Some(pid) = Pid::from_raw(self.pid) else { return };
        let Ok(handle) = pidfd_open(pid, PidfdFlags::empty()) else { return };
        // The handle pins whatever has the number now; the start time says whether it is ours.
        if read(self.pid).is_some_and(|now| now.started == self.started) {
            pidfd_send_signal(&handle, signal).ok();
        }
    }
}

/// The descendants of `root` that the process table shows now, parents before their children.
pub(crate) fn descendants(root: i32) -> Vec<Process> {
    let mut children: HashMap<i32, Vec<Process>> = HashMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process);
    }
    let mut found = Vec::new();
    let mut queue = vec![root];
    while let Some(parent) = queue.pop() {
        for process in children.remove(&parent).unwrap_or_default() {
            queue.push(process.pid);
            found.push(process);
        }
    }
    found
}

/// What the descendants of `root` hold in memory, in bytes. What several of them share is counted for each.
pub(crate) fn resident(root: i32) -> u64 {
    let kib = |process: &Process| -> Option<u64> {
        let status = fs_err::read_to_string(format!("/proc/{}/status", process.pid)).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    descendants(root).iter().filter_map(kib).sum::<u64>() * 1024
}

/// Every process that is visible. One that ends during the scan is left out.
fn all() -> impl Iterator<Item = Process> {
    let entries = fs_err::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| read(entry.file_name().to_str()?.parse().ok()?))
}

fn read(pid: i32) -> Option<Process> {
    parse(pid, &fs_err::read(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `PID (NAME) STATE PARENT … STARTED …`. The name may hold spaces and brackets, so the
/// fields are counted from its last bracket: state is the first, the start time the twentieth.
fn parse(pid: i32, stat: &[u8]) -> Option<Process> {
    let close = stat.iter().rposition(|byte| *byte == b')')?;
    let fields = str::from_utf8(stat.get(close + 1..)?).ok()?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let started = fields.nth(17)?.parse().ok()?;
    Some(Process { pid, parent, started, zombie: matches!(state, "Z" | "X") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_does_not_shift_the_fields() {
        let stat = b"42 (a) Z 7 (b) S 17 42 42 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 98765 11 12";
        assert_eq!(
            parse(42, stat),
            Some(Process { pid: 42, parent: 17, started: 98765, zombie: false })
        );
    }

    #[test]
    fn the_scan_finds_this_process_below_its_parent() {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert!(descendants(parent).iter().any(|process| process.pid() == me));
        assert!(resident(parent) > 100 * 1024);
    }
}
