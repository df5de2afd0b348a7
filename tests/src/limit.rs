//! The longest that a test may take: one that hangs is named, and does not hold up the whole run
//! until somebody ends that without a word.

use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

/// Many times what the slowest test takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(900);

/// Ends the process unless it is dropped in time.
pub(crate) struct Limit {
    _dropped: Sender<()>,
}

impl Limit {
    /// Begins to count for the test on this thread.
    pub(crate) fn new() -> Self {
        let (sender, receiver) = channel();
        let test = thread::current().name().unwrap_or("a test").to_owned();
        if crate::rounds(1, 0) == 1 {
            thread::spawn(move || {
                if receiver.recv_timeout(LIMIT) == Err(RecvTimeoutError::Timeout) {
                    let message =
                        format!("test {test} ... FAILED: it has not ended in {LIMIT:?}\n");
                    // What is printed would be captured, and lost with the process.
                    std::io::stderr().write_all(message.as_bytes()).ok();
                    std::process::exit(101);
                }
            });
        }
        Self { _dropped: sender }
    }
}
