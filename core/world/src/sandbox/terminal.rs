//! A command that is to have a terminal of its own.

#![expect(unsafe_code, reason = "only between fork and exec can a process take a terminal")]

use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Makes `command` lead a session whose terminal is its standard input, so that keys become signals
/// and a shell there has jobs.
pub(crate) fn take(command: &mut Command) {
    let take = || {
        rustix::process::setsid()?;
        rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
        Ok(())
    };
    // SAFETY: between fork and exec it makes two system calls; it allocates nothing and takes no
    // lock, and the supervisor that calls this has one thread.
    unsafe { command.pre_exec(take) };
}
