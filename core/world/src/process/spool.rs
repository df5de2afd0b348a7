//! The whole of a large output, on disk: what the ends that are kept in memory leave out.
//!
//! Writing happens on a blocking thread, one piece at a time; a disk that is slower than the
//! command slows the command and grows nothing.

use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;

use tokio::task::JoinHandle;

/// The most of one output that is kept whole, in bytes. What is beyond it is counted and goes.
pub const SPOOL_LIMIT: u64 = 64 * 1024 * 1024;

/// How much is written at once, in bytes.
const PIECE: usize = 256 * 1024;

/// How much of an output is in its spool, from its beginning.
#[derive(Clone, Debug, Default)]
pub struct Spooled {
    /// How many bytes; none when the output fits into what is kept in memory.
    pub bytes: u64,
    /// Why the rest is missing, unless it is beyond the limit.
    pub fault: Option<String>,
}

pub(super) struct Spool {
    /// `None` when nobody asked for it, and after a fault.
    file: Option<Arc<File>>,
    /// How many bytes were taken, written or not.
    taken: u64,
    /// What was taken and not yet written.
    buffer: Vec<u8>,
    writing: Option<JoinHandle<(Vec<u8>, io::Result<()>)>>,
    spooled: Spooled,
}

impl Spool {
    pub(super) fn new(file: Option<Arc<File>>) -> Self {
        Self { file, taken: 0, buffer: Vec::new(), writing: None, spooled: Spooled::default() }
    }

    /// Takes what was just read.
    pub(super) async fn push(&mut self, bytes: &[u8]) {
        if self.file.is_none() {
            return;
        }
        let room = usize::try_from(SPOOL_LIMIT.saturating_sub(self.taken)).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room).unwrap_or(bytes);
        self.taken += bytes.len() as u64;
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.write().await;
        }
    }

    /// Ends it. A spool that is not `needed`, and of which nothing was written yet, stays empty.
    pub(super) async fn finish(mut self, needed: bool) -> Spooled {
        if needed {
            self.write().await;
        }
        self.settle().await;
        self.spooled
    }

    async fn write(&mut self) {
        let mut next = self.settle().await;
        std::mem::swap(&mut next, &mut self.buffer);
        let Some(file) = self.file.clone() else { return };
        self.writing = Some(tokio::task::spawn_blocking(move || {
            let written = (&*file).write_all(&next);
            (next, written)
        }));
    }

    /// Awaits the piece that is being written, and gives its buffer back empty.
    async fn settle(&mut self) -> Vec<u8> {
        let Some(writing) = self.writing.take() else { return Vec::new() };
        let (mut piece, written) = match writing.await {
            Ok(ended) => ended,
            Err(error) => (Vec::new(), Err(io::Error::other(error))),
        };
        match written {
            Ok(()) => self.spooled.bytes += piece.len() as u64,
            Err(error) => {
                self.spooled.fault = Some(error.to_string());
                self.file = None;
            }
        }
        piece.clear();
        piece
    }
}
