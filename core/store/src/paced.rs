//! A log without a thread, whose disk takes a batch when a test lets it. Whoever flushes writes.
//!
//! It exists so that a test decides what happens between the call of a flush and its answer, and
//! so that nothing depends on how threads are scheduled. No product uses it.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

use crate::sink::Sink;
use crate::writer::Shared;

/// The disk of one log.
pub(crate) struct Paced {
    sink: Mutex<Box<dyn Sink>>,
    pace: Arc<Semaphore>,
}

impl Paced {
    /// Each flush takes one permit of `pace`; a closed one is a disk that is gone.
    pub(crate) fn new(sink: Box<dyn Sink>, pace: Arc<Semaphore>) -> Self {
        Self { sink: Mutex::new(sink), pace }
    }

    /// Serves the flushes that wait, when the pace allows it.
    pub(crate) async fn serve(&self, queue: &Shared) {
        match self.pace.acquire().await {
            Ok(permit) => {
                permit.forget();
                self.write(queue);
            }
            Err(_closed) => queue.lose("the disk is gone"),
        }
    }

    /// Writes what is queued.
    pub(crate) fn write(&self, queue: &Shared) {
        let batch = queue.take_batch();
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let result = sink.commit(batch.lines());
        queue.settle(batch, result);
    }
}
