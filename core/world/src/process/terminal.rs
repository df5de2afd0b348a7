//! The agent's end of a terminal: what is typed goes in, what programs write comes out.
//!
//! It knows no prompt and judges nothing; who types what is decided above.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt as _;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{
    InputModes, LocalModes, OptionalActions, OutputModes, Winsize, tcgetattr, tcgetpgrp, tcgetsid,
    tcsetattr, tcsetwinsize,
};
use tokio::net::unix::pipe::{Receiver, Sender};

/// How many columns and rows programs find: wide enough for what they align.
const SIZE: Winsize = Winsize { ws_row: 50, ws_col: 200, ws_xpixel: 0, ws_ypixel: 0 };

/// A terminal. Programs on it are hung up when it is dropped.
pub struct Terminal {
    /// Two handles of one end: each is waited for by itself.
    input: Sender,
    output: Receiver,
}

impl Terminal {
    /// A new one, and the path of the end that programs open.
    pub(super) fn open() -> io::Result<(Self, OsString)> {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname(&master, Vec::new())?;
        rustix::fs::fcntl_setfl(&master, OFlags::RDWR | OFlags::NONBLOCK)?;
        tcsetwinsize(&master, SIZE)?;
        let input = Sender::from_owned_fd_unchecked(master.try_clone()?)?;
        let terminal = Self { input, output: Receiver::from_owned_fd_unchecked(master)? };
        terminal.calm()?;
        Ok((terminal, OsString::from_vec(path.into_bytes())))
    }

    /// Takes back what a program did to the modes: lines are read as lines and keys are signals, but
    /// nothing that is typed is echoed and nothing that is written is changed.
    ///
    /// # Errors
    /// When the terminal is gone.
    pub fn calm(&self) -> io::Result<()> {
        let mut modes = tcgetattr(&self.output)?;
        modes.input_modes = InputModes::ICRNL | InputModes::IUTF8;
        modes.output_modes -= OutputModes::OPOST;
        modes.local_modes = LocalModes::ICANON | LocalModes::ISIG | LocalModes::IEXTEN;
        Ok(tcsetattr(&self.output, OptionalActions::Now, &modes)?)
    }

    /// Adds what programs have written to `buffer`, up to its capacity; nothing once no program has
    /// the terminal any more.
    ///
    /// # Errors
    /// When the terminal cannot be read.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn read(&self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        loop {
            self.output.readable().await?;
            match self.output.try_read_buf(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                // What Linux says when the other end is closed.
                Err(error) if Errno::from_io_error(&error) == Some(Errno::IO) => return Ok(0),
                read => return read,
            }
        }
    }

    /// Types some of `bytes`; how many. Waits while nobody reads what was typed before.
    ///
    /// # Errors
    /// When the terminal cannot be written.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub async fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            self.input.writable().await?;
            match self.input.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => return written,
            }
        }
    }

    /// Interrupts what runs in the foreground, whatever it made of the keys. Which process group it was;
    /// `None` where nothing is in the foreground.
    pub fn interrupt(&self) -> Option<Pid> {
        let foreground = tcgetpgrp(&self.output).ok()?;
        kill_process_group(foreground, Signal::INT).ok();
        Some(foreground)
    }

    /// Interrupts what runs in the foreground if it is neither the group that was interrupted `before`
    /// nor the shell itself, which would begin another prompt. Which group was interrupted last.
    pub fn interrupt_next(&self, before: Option<Pid>) -> Option<Pid> {
        let (foreground, shell) = (tcgetpgrp(&self.output).ok(), tcgetsid(&self.output).ok());
        if foreground == before || foreground == shell || shell.is_none() {
            return before;
        }
        self.interrupt()
    }
}
