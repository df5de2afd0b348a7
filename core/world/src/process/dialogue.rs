//! Programs that are spoken with over their standard input and output: servers of a protocol.
//!
//! It knows no protocol; what is said is decided above.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe::{Receiver, Sender};

use crate::sandbox::Policy;

/// A program to be started and spoken with.
#[derive(Clone)]
pub struct ServerSpec {
    /// Its absolute path, or its name on the search path of commands.
    pub program: OsString,
    /// Its arguments, without the program's own name.
    pub arguments: Vec<OsString>,
    /// What it finds in its environment beside what every command does, or in place of it.
    pub environment: Vec<(OsString, OsString)>,
    /// The absolute folder it runs in.
    pub cwd: PathBuf,
    /// What it may do; without one it has the rights of this process.
    pub confinement: Option<Policy>,
}

impl std::fmt::Debug for ServerSpec {
    /// Neither arguments nor values of the environment: they may be secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerSpec").field("program", &self.program).finish_non_exhaustive()
    }
}

/// The agent's ends of what a program reads and writes. Dropping `input` is the end of what it reads.
#[derive(Debug)]
pub struct Dialogue {
    /// What it reads.
    pub input: Sender,
    /// What it answers.
    pub output: Receiver,
}

impl Dialogue {
    /// Both pipes, and the program's ends: its input and its output.
    pub(super) fn open() -> io::Result<(Self, [OwnedFd; 2])> {
        let (read, input) = pipe_with(PipeFlags::CLOEXEC)?;
        let (output, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let ours =
            Self { input: Sender::from_owned_fd(input)?, output: Receiver::from_owned_fd(output)? };
        Ok((ours, [read, write]))
    }
}
