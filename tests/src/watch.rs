//! Waiting for what another process does, told by the kernel rather than by asking.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

/// Blocks until `path` exists, at most `limit`; says whether it does.
pub(crate) fn until_exists(path: &Path, limit: Duration) -> bool {
    let folder = path.parent().expect("a file in a folder");
    let watch = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
    let kinds = WatchFlags::CREATE | WatchFlags::MOVED_TO;
    inotify::add_watch(&watch, folder, kinds).expect("the folder exists");
    let end = Instant::now() + limit;
    // The watch stands before the first look, so a file made in between is not missed.
    while !path.exists() {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap();
        let ready = rustix::event::poll(&mut [PollFd::new(&watch, PollFlags::IN)], Some(&left));
        if matches!(ready, Ok(0)) {
            return false;
        }
        let mut events = [0_u8; 4096];
        // Drained only so that the next poll waits; what happened is seen by the next look.
        let _drained = rustix::io::read(&watch, &mut events);
    }
    true
}

/// Blocks until something waits in `pipe`, or its other end is closed, at most `limit`; says whether it
/// is so. Reads nothing.
pub(crate) fn until_readable(pipe: &OwnedFd, limit: Duration) -> bool {
    let end = Instant::now() + limit;
    loop {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).unwrap();
        match rustix::event::poll(&mut [PollFd::new(pipe, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return ready > 0,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll: {error}"),
        }
    }
}
