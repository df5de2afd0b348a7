//! How a command ended, or why it was not one.

use std::path::PathBuf;

use super::{Capture, Spooled};
use crate::sandbox::{PutAside, Verdict};

/// How a command ended: facts that do not exclude each other.
#[derive(Clone, Debug)]
pub struct Finished {
    /// The exit code, unless a signal ended it.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its time ran out and it was ended.
    pub timed_out: bool,
    /// The caller's token was cancelled and it was ended. A command whose token was cancelled
    /// beforehand is not started and has neither code nor signal.
    pub cancelled: bool,
    /// How many background processes it left, which were ended.
    pub survivors: usize,
    /// How many of its processes could not be ended in time. The supervisor goes on trying.
    pub left: usize,
    /// What it wrote, errors included, in the order in which it was written.
    pub output: Capture,
    /// What of it is in the spool.
    pub spooled: Spooled,
    /// It was seen to have so many processes and threads that no further could be started. Nobody but its
    /// programs is told when that is only for a moment.
    pub crowded: bool,
    /// Whether its policy stood in its way. Never guessed from what it wrote.
    pub denied: Verdict,
    /// Protected files and folders that are not as they were before it ran, whoever changed them.
    pub altered: Vec<PathBuf>,
    /// What came meanwhile, whoever made it, where others would execute or obey it. Everything of
    /// it is still there, under another name.
    pub put_aside: Vec<PutAside>,
}

/// A command that could not be run or followed. A command that failed is [`Finished`] instead.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// The working directory cannot be entered; nothing was started.
    #[error("the working directory {} cannot be used: {reason}", path.display())]
    WorkingDirectory {
        /// Which.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// The shell cannot be executed, or the command is too long; nothing was started.
    #[error("{program} cannot be executed: {reason}")]
    Program {
        /// Which.
        program: String,
        /// The system's reason.
        reason: String,
    },
    /// The policy cannot be put in force; nothing was started, and nothing may be run without it.
    #[error("the command cannot be confined: {reason}")]
    Sandbox {
        /// What is missing.
        reason: String,
    },
    /// The supervisor failed, not the command; what the command did is unknown.
    #[error("the command's supervisor failed: {reason}")]
    Supervisor {
        /// What happened.
        reason: String,
    },
}

impl Finished {
    pub(super) fn not_started() -> Self {
        Self {
            exit_code: None,
            signal: None,
            timed_out: false,
            cancelled: true,
            survivors: 0,
            left: 0,
            output: Capture::default(),
            spooled: Spooled::default(),
            crowded: false,
            denied: Verdict::None,
            altered: Vec::new(),
            put_aside: Vec::new(),
        }
    }
}
