//! A file system in an image file, whose power can be cut. Only for a process with a mount
//! namespace of its own: nobody else sees the mounts, and they end with it however it ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// mkfs.xfs makes nothing smaller than 300 MiB; the file has holes.
const SIZE: u64 = 320 << 20;

/// What happens to the journal when the power is cut. Data that was not synced is lost with both.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Journal {
    /// What is in memory only is lost.
    Lost,
    /// It still reaches the disk.
    Written,
}

/// A mounted image, unmounted when dropped.
pub(crate) struct Image {
    file: PathBuf,
    at: PathBuf,
}

impl Image {
    /// Makes a file system of a kind that `mkfs` knows in `file` and mounts it.
    pub(crate) fn mount(kind: &str, file: PathBuf, at: PathBuf) -> io::Result<Self> {
        fs_err::File::create(&file)?.set_len(SIZE)?;
        run(&format!("mkfs.{kind}"), &["-q".as_ref(), &file])?;
        let image = Self { file, at };
        image.attach()?;
        Ok(image)
    }

    fn attach(&self) -> io::Result<()> {
        run("mount", &["-o".as_ref(), "loop".as_ref(), &self.file, &self.at])
    }

    /// Stops the file system between two writes: from now on it takes nothing.
    pub(crate) fn cut(&self, journal: Journal) {
        let shutdown = match journal {
            Journal::Lost => "shutdown",
            Journal::Written => "shutdown -f",
        };
        run("xfs_io", &["-x".as_ref(), "-c".as_ref(), shutdown.as_ref(), &self.at]).unwrap();
    }

    /// Throws away what is in memory and mounts again what is on the disk.
    pub(crate) fn restart(&self) {
        run("umount", &[&self.at]).unwrap();
        self.attach().unwrap();
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        drop(run("umount", &["-l".as_ref(), &self.at]));
    }
}

#[expect(clippy::disallowed_methods, reason = "a test's own tool, not a part of the product")]
fn run(program: &str, arguments: &[&Path]) -> io::Result<()> {
    let mut command = Command::new(program);
    let output = command.args(arguments).stdin(Stdio::null()).output();
    let output =
        output.map_err(|error| io::Error::new(error.kind(), format!("{program}: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(io::Error::other(format!("{program} {arguments:?}: {said}")))
}
