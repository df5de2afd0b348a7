//! Standard input and output for the protocol, without a thread between where that is possible.
//!
//! Tokio's own handles send every read and write through a thread pool, because they must work on
//! anything. Editors give pipes or sockets, which the runtime can wait for itself.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::fs::FileType;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::unix::pipe;

/// The protocol's input. Call it on the runtime, once.
pub(super) fn input() -> Box<dyn AsyncRead + Send + Unpin> {
    reader(&std::io::stdin()).unwrap_or_else(|| Box::new(tokio::io::stdin()))
}

/// The protocol's output. Call it on the runtime, once.
pub(super) fn output() -> Box<dyn AsyncWrite + Send + Unpin> {
    writer(&std::io::stdout()).unwrap_or_else(|| Box::new(tokio::io::stdout()))
}

/// Makes both blocking again: a shell may go on with the same pipe after this process.
pub(super) fn restore() {
    for stream in [std::io::stdin().as_fd(), std::io::stdout().as_fd()] {
        // Whoever gave a closed or odd descriptor does not go on with it.
        rustix::io::ioctl_fionbio(stream, false).ok();
    }
}

/// `None` for a file or a terminal, and when the runtime cannot watch it.
fn reader(stream: &impl AsFd) -> Option<Box<dyn AsyncRead + Send + Unpin>> {
    let (kind, descriptor) = duplicate(stream)?;
    match kind {
        FileType::Fifo => Some(Box::new(pipe::Receiver::from_owned_fd(descriptor).ok()?)),
        FileType::Socket => Some(Box::new(socket(descriptor)?)),
        _ => None,
    }
}

fn writer(stream: &impl AsFd) -> Option<Box<dyn AsyncWrite + Send + Unpin>> {
    let (kind, descriptor) = duplicate(stream)?;
    match kind {
        FileType::Fifo => Some(Box::new(pipe::Sender::from_owned_fd(descriptor).ok()?)),
        FileType::Socket => Some(Box::new(socket(descriptor)?)),
        _ => None,
    }
}

fn duplicate(stream: &impl AsFd) -> Option<(FileType, OwnedFd)> {
    let descriptor = stream.as_fd().try_clone_to_owned().ok()?;
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&descriptor).ok()?.st_mode);
    Some((kind, descriptor))
}

/// Reading and writing a connected stream socket is the same for every family.
fn socket(descriptor: OwnedFd) -> Option<tokio::net::UnixStream> {
    let stream = UnixStream::from(descriptor);
    stream.set_nonblocking(true).ok()?;
    tokio::net::UnixStream::from_std(stream).ok()
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn pipes_and_sockets_are_read_and_written_by_the_runtime() {
        let (far_reader, near_writer) = std::io::pipe().unwrap();
        let (near_reader, far_writer) = std::io::pipe().unwrap();
        check(&near_reader, &near_writer, far_reader, far_writer).await;
        let (near, far) = UnixStream::pair().unwrap();
        check(&near, &near, far.try_clone().unwrap(), far).await;
    }

    async fn check(
        near_reader: &impl AsFd,
        near_writer: &impl AsFd,
        mut far_reader: impl std::io::Read,
        mut far_writer: impl std::io::Write,
    ) {
        let mut input = reader(near_reader).unwrap();
        let mut output = writer(near_writer).unwrap();
        far_writer.write_all(b"in").unwrap();
        let mut buffer = [0; 2];
        input.read_exact(&mut buffer).await.unwrap();
        assert_eq!(&buffer, b"in");
        output.write_all(b"out").await.unwrap();
        let mut buffer = [0; 3];
        far_reader.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"out");
    }

    #[tokio::test]
    async fn a_file_is_left_to_the_thread_pool() {
        let file = tempfile::tempfile().unwrap();
        assert!(reader(&file).is_none());
        assert!(writer(&file).is_none());
    }
}
