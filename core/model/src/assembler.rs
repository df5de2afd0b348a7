//! Folds chunks into the answer that is stored.

use bridle_session::{TimedBlock, UnixMillis, Usage};

use crate::{Chunk, StopReason};

/// Collects the chunks of one attempt.
#[derive(Debug, Default)]
pub struct Assembler {
    _private: (),
}

/// A collected answer.
#[derive(Debug)]
pub struct Assembled {
    /// The blocks in the order they began.
    pub blocks: Vec<TimedBlock>,
    /// Why it ended; `None` when it was cut off.
    pub stop: Option<StopReason>,
    /// What it cost, as far as known.
    pub usage: Usage,
}

impl Assembler {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes one chunk that arrived at `time`.
    pub fn push(&mut self, chunk: &Chunk, time: UnixMillis) {
        let _ = (chunk, time);
        todo!()
    }

    /// The whole answer, after `Chunk::Stop`.
    pub fn finish(self) -> Assembled {
        todo!()
    }

    /// What may be kept of an answer that was cut off: text as it stands, reasoning only in
    /// complete blocks, no tool calls.
    pub fn finish_interrupted(self, time: UnixMillis) -> Assembled {
        let _ = time;
        todo!()
    }
}
