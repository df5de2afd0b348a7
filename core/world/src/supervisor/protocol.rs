//! What the agent and the supervisor of one command say to each other: one request line in, status
//! lines out, over one socket. The end of the agent's half of it means "end everything", whether
//! the agent shut it down or died.
//!
//! That socket is the first of the descriptors that the agent hands to the launcher with one byte, the
//! write end of the pipe for the output the second. For a program that is spoken with, the read end of
//! its input and the write end of its answers follow; the pipe for the output then takes what it
//! writes to its standard error. The launcher answers nothing. When
//! the supervisor's half is closed before the whole request was read, the agent's half is reset and
//! does not just end: so the agent knows that nothing was started.

use std::ffi::OsString;

use serde::{Deserialize, Serialize};

use crate::sandbox::Denial;
use crate::sandbox::confine::Confinement;

/// The longest request that a supervisor accepts, in bytes. Above what the kernel takes as
/// arguments and environment of one program.
pub(crate) const MAX_REQUEST: usize = 16 * 1024 * 1024;

/// The command to run. It travels over the socket and never in arguments or environment of the
/// supervisor, where others could read it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Request {
    /// Absolute path of the program.
    #[serde(with = "crate::told::one")]
    pub program: OsString,
    /// Its arguments, without the program's own name.
    #[serde(with = "crate::told::all")]
    pub arguments: Vec<OsString>,
    /// The absolute folder it runs in.
    #[serde(with = "crate::told::one")]
    pub cwd: OsString,
    /// Its whole environment.
    #[serde(with = "crate::told::pairs")]
    pub environment: Vec<(OsString, OsString)>,
    /// What it may do, and how that is put in force.
    pub confinement: Option<Confinement>,
    /// The terminal that is its input and output, if it has one. It leads a session there.
    #[serde(with = "crate::told::optional")]
    pub terminal: Option<OsString>,
}

/// What a supervisor reports: `Failed` alone, or `Started`, `Exited` and `Done` in this order.
/// `Unwatched`, `Denied` and `Crowded` come after `Started`.
/// `Done` without `Exited` comes from the guard of a supervisor that was killed. A report that
/// stops before `Done` means that the guard was lost as well. Where there are placeholders, `Tidied` is the
/// guard's last word, also behind `Failed`; without it they are still there.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Status {
    /// Nothing was started.
    Failed {
        /// What could not be done.
        step: Step,
        /// Why.
        error: String,
    },
    /// The command runs.
    Started {
        /// The process group of the supervisor and its guard.
        group: i32,
    },
    /// The policy refused the command something.
    Denied {
        /// What.
        denial: Denial,
    },
    /// Nobody can see what the policy refuses the command.
    Unwatched,
    /// The command had so many processes and threads at once that no further could be started.
    Crowded,
    /// The command's own process has ended; what it left behind may still run.
    Exited {
        /// Its exit code, unless a signal ended it.
        code: Option<i32>,
        /// The signal that ended it.
        signal: Option<i32>,
    },
    /// No descendant runs any more, except for `left`.
    Done {
        /// How many background processes had to be ended.
        survivors: usize,
        /// How many could not be ended in time; the supervisor goes on trying.
        left: usize,
    },
    /// No placeholder of the command stands any more.
    Tidied,
}

/// The steps before a command runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// Making the process a supervisor, or reading the request.
    Setup,
    /// Putting the policy in force.
    Sandbox,
    /// Entering the working directory.
    WorkingDirectory,
    /// Executing the program.
    Program,
}
