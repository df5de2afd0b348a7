//! How many processes and threads a command may have at once, so that one that starts them without end
//! leaves the machine to others.
//!
//! The kernel counts, in one of two ways. Processes that have numbers of their own have only so many
//! numbers (since Linux 6.14), whoever their user is. Where they have none, or the kernel is older, the
//! user may have only so many processes; nothing limits root there.
//!
//! Neither way tells when it is reached, so whoever wants to know tries to start a process.

#![expect(unsafe_code, reason = "the standard library starts programs only, and names no kernel")]

use std::ffi::c_void;
use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, WaitOptions, geteuid, getrlimit, setrlimit, waitpid};

/// From this version of the kernel on, each namespace of processes has a highest number of its own.
/// Before, the file that says it is that of the whole machine.
const KNOWS_NAMESPACES: (u32, u32) = (6, 14);

/// The numbers that stay unused: the kernel gives the lower ones, which are [300], only once.
///
/// [300]: https://docs.kernel.org/admin-guide/sysctl/kernel.html#pid-max
const UNUSED: u32 = 301;

/// The highest number that there can be.
const MAX_NUMBER: u32 = 4 * 1024 * 1024;

/// What keeps the number down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Limit {
    /// The numbers of their namespace.
    Namespace,
    /// How many their user may have.
    User,
}

/// What keeps the number down for this user, where processes have numbers of their own or not.
///
/// # Errors
/// Why nothing does.
pub(super) fn limit(own_processes: bool) -> Result<Limit, &'static str> {
    match () {
        () if own_processes && kernel() >= KNOWS_NAMESPACES => Ok(Limit::Namespace),
        () if !geteuid().is_root() => Ok(Limit::User),
        () if own_processes => Err("Linux limits those of root only from version 6.14 on"),
        () => Err("Linux limits those of root only where they are in a namespace of their own"),
    }
}

/// Limits the namespace that this process is the first of, which needs its capabilities.
///
/// # Errors
/// When the system refuses.
pub(super) fn limit_namespace(processes: u32) -> io::Result<()> {
    let highest = processes.saturating_add(UNUSED).min(MAX_NUMBER);
    fs_err::write("/proc/sys/kernel/pid_max", highest.to_string())
}

/// Limits how many processes and threads the user of this process may have when this one, or what it
/// starts, makes another: so many, and where the user is not counted anew in a namespace (`shared`), as many
/// more as there may be now. Nothing is widened.
///
/// # Errors
/// When the system refuses.
pub(super) fn limit_user(processes: u32, shared: bool) -> io::Result<()> {
    let all = u64::from(processes) + if shared { on_this_machine() } else { 0 };
    let now = getrlimit(Resource::Nproc);
    let least = |one: Option<u64>| Some(one.map_or(all, |one| one.min(all)));
    let new = Rlimit { current: least(now.current), maximum: least(now.maximum) };
    Ok(setrlimit(Resource::Nproc, new)?)
}

/// Whether no further process can be started here because of a limit, this one or another of the machine.
/// `processes` is how many there must be for that.
pub(crate) fn is_reached(processes: u32) -> bool {
    /// How large the stack of a process is that does nothing, in bytes.
    const STACK: usize = 16 * 1024;

    extern "C" fn nothing(_: *mut c_void) -> i32 {
        0
    }

    // Nearly always there are fewer on the whole machine.
    if on_this_machine() < processes.into() {
        return false;
    }
    let mut stack = Vec::<u128>::with_capacity(STACK / size_of::<u128>());
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: the child has the whole of a stack of its own, which is aligned, touches nothing else, and has
    // ended when this goes on.
    let number = unsafe {
        let top = stack.as_mut_ptr().add(stack.capacity());
        libc::clone(nothing, top.cast(), flags, std::ptr::null_mut())
    };
    match Pid::from_raw(number.max(0)) {
        Some(child) => {
            rustix::io::retry_on_intr(|| waitpid(Some(child), WaitOptions::empty())).ok();
            false
        }
        None => Errno::from_io_error(&io::Error::last_os_error()) == Some(Errno::AGAIN),
    }
}

/// How many processes and threads there are on this machine, whoever can see them.
fn on_this_machine() -> u64 {
    let text = fs_err::read_to_string("/proc/loadavg").unwrap_or_default();
    let (_, all) = text.split_once('/').unwrap_or_default();
    all.split_whitespace().next().and_then(|all| all.parse().ok()).unwrap_or_default()
}

/// The version of the kernel, of which only the first two numbers count.
fn kernel() -> (u32, u32) {
    // SAFETY: a structure of texts, for which zero is a value, and which the call fills.
    let told = unsafe {
        let mut told: libc::utsname = std::mem::zeroed();
        if libc::uname(&raw mut told) == 0 { told } else { std::mem::zeroed() }
    };
    let release = told.release.iter().map(|letter| *letter as u8 as char);
    version(&release.take_while(|letter| *letter != '\0').collect::<String>())
}

fn version(release: &str) -> (u32, u32) {
    let mut parts = release.split(|it: char| !it.is_ascii_digit());
    let mut next = || parts.next().and_then(|part| part.parse().ok()).unwrap_or_default();
    (next(), next())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_kernel_is_read_from_its_name() {
        for (release, expected) in [
            ("6.18.44-fc-v1147", (6, 18)),
            ("6.14-rc1", (6, 14)),
            ("5.15.167.4-x", (5, 15)),
            ("", (0, 0)),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }

    #[test]
    fn what_runs_on_this_machine_is_counted() {
        let stop = std::sync::Barrier::new(9);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| stop.wait());
            }
            assert!(on_this_machine() >= 9);
            assert!(!is_reached(1));
            stop.wait();
        });
    }
}
