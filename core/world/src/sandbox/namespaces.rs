//! A process that becomes two, of which the new one has namespaces of its own.

#![expect(unsafe_code, reason = "no library forks into namespaces")]

use std::io;

use rustix::process::{Pid, getgid, getuid};

use super::fork::Fork;
use super::network::raise_loopback;
use super::secrets::check_single_threaded;

/// What the new process has of its own, besides users, mounts, host name and shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Own {
    /// Its processes: it is the first of them, and they end with it.
    pub(crate) processes: bool,
    /// Its network, of which only the loopback is there.
    pub(crate) network: bool,
}

/// Splits this process in two, the new one in namespaces of its own where it has every capability
/// and the same user and group as here. Nothing is mounted yet, so it still sees what this one
/// sees.
///
/// # Errors
/// When another thread runs, which the child would miss, or when the system refuses.
pub(crate) fn split_into(own: Own) -> io::Result<Fork> {
    check_single_threaded().map_err(io::Error::other)?;
    // Asked for here: in the new namespace they are nobody's until they are mapped.
    let (user, group) = (getuid().as_raw(), getgid().as_raw());
    let mut flags =
        libc::CLONE_NEWUSER | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS;
    if own.processes {
        flags |= libc::CLONE_NEWPID;
    }
    if own.network {
        flags |= libc::CLONE_NEWNET;
    }
    // SAFETY: without a stack and without CLONE_VM this is a fork. This process has one thread, as
    // checked, so no lock and no half-done change of another thread is copied into the child. The
    // C library's own record of the thread's number, which its fork would renew, is used by
    // nothing that happens here.
    let number = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    match i32::try_from(number).ok() {
        Some(0) => {
            map("/proc/self/setgroups", "deny")?;
            map("/proc/self/uid_map", &format!("{user} {user} 1"))?;
            map("/proc/self/gid_map", &format!("{group} {group} 1"))?;
            if own.network {
                raise_loopback()?;
            }
            Ok(Fork::Child)
        }
        Some(number) => {
            Pid::from_raw(number.max(0)).map(Fork::Parent).ok_or_else(io::Error::last_os_error)
        }
        None => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Says who is who in the new namespace. The files take one write.
fn map(file: &str, text: &str) -> io::Result<()> {
    fs_err::write(file, text)
}
