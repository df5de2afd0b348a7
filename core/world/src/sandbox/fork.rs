//! A process that becomes two.

#![expect(unsafe_code, reason = "the standard library can only start another program")]

use rustix::process::{Pid, Signal};

use super::secrets::check_single_threaded;

/// Which of the two processes this is.
pub(crate) enum Fork {
    /// The one that was there before, and the number of its new child.
    Parent(Pid),
    /// The new one.
    Child,
}

unsafe extern "C" {
    /// The C library's own, so that its state is right in both processes.
    fn fork() -> i32;

    /// Sets what a signal does, and returns what it did.
    fn signal(number: i32, action: usize) -> usize;
}

/// What `signal` returns when the system refuses.
const REFUSED: usize = usize::MAX;

/// Who collects the children of this process once they have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Collector {
    /// This process, by waiting for them: what every program expects.
    Itself = 0,
    /// The system, at once.
    System = 1,
}

/// Says who collects this process's children. Processes split from it and programs that it
/// executes inherit that.
///
/// # Errors
/// When the system refuses.
pub(crate) fn collect_children_by(collector: Collector) -> std::io::Result<()> {
    // SAFETY: the two actions are SIG_DFL and SIG_IGN, which run no code of this process.
    match unsafe { signal(Signal::CHILD.as_raw(), collector as usize) } {
        REFUSED => Err(std::io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Splits this process in two that share its open descriptors and differ in the returned value.
///
/// # Errors
/// When another thread runs, which the child would miss, or when the system refuses.
pub(crate) fn split() -> std::io::Result<Fork> {
    check_single_threaded().map_err(std::io::Error::other)?;
    // SAFETY: this process has one thread, as checked, so no lock and no half-done change of
    // another thread is copied into the child.
    match unsafe { fork() } {
        0 => Ok(Fork::Child),
        number => {
            Pid::from_raw(number.max(0)).map(Fork::Parent).ok_or_else(std::io::Error::last_os_error)
        }
    }
}
