//! The process table, as a test sees it: who descends from whom, who belongs to a place, and
//! waiting for an end without asking again and again.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, PidfdFlags};

/// A live process. Zombies are not live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// Its parent's id.
    pub parent: u32,
    /// Its command line, words joined by spaces.
    pub command: String,
}

/// All live descendants of `root`, itself not included.
pub fn descendants(root: u32) -> Vec<Process> {
    let all = all();
    let parents: HashMap<u32, u32> = all.iter().map(|one| (one.pid, one.parent)).collect();
    let descends = |pid: u32| {
        let mut seen = HashSet::new();
        let mut at = pid;
        while let Some(parent) = parents.get(&at).copied().filter(|_| seen.insert(at)) {
            if parent == root {
                return true;
            }
            at = parent;
        }
        false
    };
    all.into_iter().filter(|one| descends(one.pid)).collect()
}

/// The children of `root` and of its live descendants that have ended and that nobody has waited for.
pub fn unnoticed_ends(root: u32) -> Vec<u32> {
    let parents: HashSet<u32> =
        descendants(root).into_iter().map(|one| one.pid).chain([root]).collect();
    let of_ours = |pid: &u32| {
        stat(*pid).is_some_and(|(state, parent)| state == "Z" && parents.contains(&parent))
    };
    pids().filter(of_ours).collect()
}

/// Waits until `process` has ended, at most `limit`; says whether it has.
pub fn wait_until_gone(process: &Process, limit: Duration) -> bool {
    let Some(pid) = i32::try_from(process.pid).ok().and_then(Pid::from_raw) else { return true };
    let Ok(handle) = rustix::process::pidfd_open(pid, PidfdFlags::empty()) else { return true };
    let end = Instant::now() + limit;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap();
        match rustix::event::poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}

/// Live processes whose environment or command line holds `mark`, or that work below `folder`.
pub(crate) fn marked(folder: &Path, mark: &str) -> Vec<Process> {
    let own = std::process::id();
    all().into_iter().filter(|one| one.pid != own && belongs(one, folder, mark)).collect()
}

fn belongs(process: &Process, folder: &Path, mark: &str) -> bool {
    let proc = Path::new("/proc").join(process.pid.to_string());
    let environment = fs_err::read(proc.join("environ")).unwrap_or_default();
    let works_below = fs_err::read_link(proc.join("cwd")).is_ok_and(|cwd| cwd.starts_with(folder));
    works_below
        || process.command.contains(mark)
        || environment.windows(mark.len()).any(|window| window == mark.as_bytes())
}

fn all() -> Vec<Process> {
    pids().filter_map(process).collect()
}

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs_err::read_dir("/proc").expect("Linux");
    entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// A process may end while it is looked at; then it is simply not there.
fn process(pid: u32) -> Option<Process> {
    let (state, parent) = stat(pid)?;
    let command = fs_err::read(format!("/proc/{pid}/cmdline")).ok()?;
    let command = String::from_utf8_lossy(&command).trim_end_matches('\0').replace('\0', " ");
    (state != "Z").then_some(Process { pid, parent, command })
}

/// The state of a process, `Z` for a zombie, and its parent.
fn stat(pid: u32) -> Option<(String, u32)> {
    let stat = fs_err::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
