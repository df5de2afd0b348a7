//! Hears of the system calls that the filter wants looked at, while their callers wait.
//!
//! What is heard only serves to tell what was refused. A socket to somewhere else is refused here,
//! from its arguments alone; every other call goes on as it is, and mounts and Landlock decide. If
//! the listener is lost, the kernel refuses what would have been heard.

#![expect(unsafe_code, reason = "seccomp has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use libc::{
    SECCOMP_FILTER_FLAG_NEW_LISTENER, SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV,
    SECCOMP_IOCTL_NOTIF_ID_VALID, SECCOMP_IOCTL_NOTIF_RECV, SECCOMP_IOCTL_NOTIF_SEND,
    SECCOMP_IOCTL_NOTIF_SET_FLAGS, SECCOMP_SET_MODE_FILTER, SECCOMP_USER_NOTIF_FLAG_CONTINUE,
    seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog,
};
use rustix::io::Errno;

/// Lets the one that waits and the one that answers take turns on one processor.
const SYNCHRONOUS: u64 = 1;

/// Loads `watched` for this thread and what it starts, and returns where they are asked about. Where there
/// is somebody already, in a sandbox around this one, loads `unwatched`, which asks nobody.
///
/// # Errors
/// When neither can be loaded.
pub(super) fn install(
    watched: &[sock_filter],
    unwatched: impl FnOnce() -> Vec<sock_filter>,
) -> io::Result<Option<Listener>> {
    let listening = SECCOMP_FILTER_FLAG_NEW_LISTENER;
    for flags in [listening | SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, listening] {
        if let Ok(number) = load(watched, flags) {
            // Slower without, and not known to older kernels.
            // SAFETY: this request takes its argument as a number.
            unsafe { libc::ioctl(number, SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNCHRONOUS) };
            // SAFETY: with this flag the call returns a new descriptor that nobody else knows.
            return Ok(Some(Listener(unsafe { OwnedFd::from_raw_fd(number) })));
        }
    }
    load(&unwatched(), 0).map(|_| None)
}

fn load(code: &[sock_filter], flags: libc::c_ulong) -> io::Result<i32> {
    let length = u16::try_from(code.len()).map_err(io::Error::other)?;
    let program = sock_fprog { len: length, filter: code.as_ptr().cast_mut() };
    // SAFETY: the kernel copies `len` instructions from where the slice has them, and writes none.
    let number = unsafe {
        libc::syscall(libc::SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    };
    match i32::try_from(number) {
        Ok(number) if number >= 0 => Ok(number),
        _ => Err(io::Error::last_os_error()),
    }
}

/// The end at which one is asked.
#[derive(Debug)]
pub(crate) struct Listener(OwnedFd);

/// What is done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on as it is.
    GoOn,
    /// Its caller is told that it was done. It is not.
    Pretend,
    /// It fails with this error.
    Refuse(Errno),
}

impl Listener {
    /// Answers what is asked with `judge`, until nobody is left who could ask.
    pub(super) fn serve(&self, mut judge: impl FnMut(&Self, &seccomp_notif) -> Answer) {
        loop {
            // SAFETY: a structure of numbers, for which zero is a value.
            let mut call: seccomp_notif = unsafe { std::mem::zeroed() };
            match self.request(SECCOMP_IOCTL_NOTIF_RECV, &raw mut call) {
                Ok(()) => {}
                // Interrupted, or whoever asked was killed in the meantime.
                Err(Errno::INTR) => continue,
                Err(Errno::NOENT) if !self.is_over() => continue,
                Err(_) => return,
            }
            let answer = judge(self, &call);
            let (error, flags) = match answer {
                Answer::GoOn => (0, SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
                Answer::Pretend => (0, 0),
                Answer::Refuse(error) => (-error.raw_os_error(), 0),
            };
            let mut response = seccomp_notif_resp { id: call.id, val: 0, error, flags };
            // Refused when whoever asked was killed in the meantime.
            self.request(SECCOMP_IOCTL_NOTIF_SEND, &raw mut response).ok();
        }
    }

    /// Whether a call still waits: what was read of its process before was really its own.
    pub(super) fn is_waiting(&self, call: &seccomp_notif) -> bool {
        let mut id = call.id;
        self.request(SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id).is_ok()
    }

    /// Whether nobody is left who could ask.
    fn is_over(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let mut watched = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut watched, Some(&now)).is_err()
            || watched.iter().any(|it| it.revents().contains(PollFlags::HUP))
    }

    fn request<T>(&self, request: libc::Ioctl, argument: *mut T) -> Result<(), Errno> {
        // SAFETY: each caller gives the structure that its request reads or writes, alive and
        // initialised.
        match unsafe { libc::ioctl(self.0.as_raw_fd(), request, argument) } {
            -1 => Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)),
            _ => Ok(()),
        }
    }
}
