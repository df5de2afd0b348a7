//! The write handle of one log: queues events, writes them in order, and flushes on demand.
//!
//! Each open log has one thread with a small stack. It takes everything that is queued as one
//! batch, when a flush asks for it or when the window is over, and hands it to the sink. The
//! queue is one buffer of encoded lines, so an event is rendered once and a batch is one write.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use bridle_session::{Event, Fold as _, Seq, Summary};
use tokio::sync::oneshot;

use crate::StoreError;
use crate::paced::Paced;
use crate::sink::{CommitError, Sink};

/// How long an event may wait for company before it is written without a flush.
const WINDOW: Duration = Duration::from_millis(200);

/// The most bytes of events that may wait for the disk. An event that does not fit ends the
/// handle: going on without it would leave a hole in the log.
const MAX_QUEUED: usize = 64 * 1024 * 1024;

/// A larger batch buffer is given back after use.
const KEPT_BUFFER: usize = 256 * 1024;

/// Compressing needs little stack, and the pages are only taken when they are touched.
const STACK: usize = 256 * 1024;

/// The only way to write a log. Holds the lock and the writer thread; both end with it. Dropping
/// it writes what is queued, if the log exists, and waits for that.
pub struct LogWriter {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    /// The disk of a log that has no thread.
    paced: Option<Paced>,
}

impl LogWriter {
    /// Starts the thread. `summary` is that of the log so far. `exists` says whether the log is on
    /// the disk already; otherwise the first flush creates it.
    pub(crate) fn start(
        sink: Box<dyn Sink>,
        summary: Summary,
        exists: bool,
    ) -> Result<Self, StoreError> {
        let shared = Arc::new(Shared::new(summary, exists));
        let thread =
            thread::Builder::new().name("session-log".to_owned()).stack_size(STACK).spawn({
                let shared = Arc::clone(&shared);
                move || shared.run(sink)
            })?;
        Ok(Self { shared, thread: Some(thread), paced: None })
    }

    /// Like [`LogWriter::start`], without a thread: `paced` writes when it is asked to.
    pub(crate) fn paced(paced: Paced, summary: Summary, exists: bool) -> Self {
        Self { shared: Arc::new(Shared::new(summary, exists)), thread: None, paced: Some(paced) }
    }

    /// Where it can be asked what it has written, for as long as it is there.
    pub(crate) fn shared(&self) -> Weak<Shared> {
        Arc::downgrade(&self.shared)
    }

    /// Queues one event. It is written within about 200 ms, or at the next flush.
    ///
    /// # Errors
    /// [`StoreError::Lost`] after a failed sync; also when the event is not the next one of the
    /// log, cannot be rendered, or does not fit into the queue. Nothing more is written then.
    pub fn append(&self, event: Arc<Event>) -> Result<(), StoreError> {
        let line = event.to_line();
        let mut queue = self.shared.lock();
        queue.check_alive()?;
        let opens_window = queue.pending.is_empty();
        match queue.push(&event, line) {
            Ok(()) => {
                if opens_window {
                    self.shared.changed.notify_one();
                }
                Ok(())
            }
            Err(reason) => {
                queue.lose(&reason);
                queue.check_alive()
            }
        }
    }

    /// Returns when everything queued before it is on the disk and synced.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a write failed: the log was cut back to its last good length, the
    /// batch stays queued, and the next flush tries again. [`StoreError::Lost`] after a failed
    /// sync.
    ///
    /// # Cancel safety
    /// Cancel safe: the flush itself goes on.
    pub async fn flush(&self) -> Result<(), StoreError> {
        let answer = {
            let mut queue = self.shared.lock();
            queue.check_alive()?;
            if queue.is_durable() {
                return Ok(());
            }
            let (waiter, answer) = oneshot::channel();
            queue.waiters.push(waiter);
            self.shared.changed.notify_one();
            answer
        };
        if let Some(paced) = &self.paced {
            paced.serve(&self.shared).await;
        }
        answer.await.unwrap_or_else(|_| Err(StoreError::Lost(ENDED.to_owned())))
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_one();
        if let Some(paced) = self.paced.take().filter(|_| self.shared.is_due()) {
            paced.write(&self.shared);
        }
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer thread of a session log panicked");
        }
    }
}

impl fmt::Debug for LogWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogWriter").field("shared", &self.shared).finish_non_exhaustive()
    }
}

const ENDED: &str = "its writer has ended";

/// The queue between whoever appends and whoever writes.
#[derive(Debug)]
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    /// Encoded lines that no batch holds yet.
    pending: Vec<u8>,
    /// When the first of them came.
    pending_since: Option<Instant>,
    /// The size of the batch that the thread is writing now.
    in_flight: usize,
    /// Flushes that no batch serves yet. At most one per concurrent caller.
    waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    /// Of the log with everything that is queued.
    summary: Summary,
    /// Of the log as it is on the disk.
    written: Summary,
    /// Whether the log is on the disk.
    exists: bool,
    /// The last write failed; only a flush tries again.
    failed: bool,
    /// The handle was dropped.
    closed: bool,
    /// Why nothing can be acknowledged any more.
    lost: Option<String>,
}

/// What the thread writes next, and who waits for it.
pub(crate) struct Batch {
    lines: Vec<u8>,
    /// Of the log with these lines.
    summary: Summary,
    waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
}

impl Batch {
    pub(crate) fn lines(&self) -> &[u8] {
        &self.lines
    }
}

impl Queue {
    fn check_alive(&self) -> Result<(), StoreError> {
        self.lost.as_ref().map_or(Ok(()), |reason| Err(StoreError::Lost(reason.clone())))
    }

    fn is_durable(&self) -> bool {
        self.exists && self.pending.is_empty() && self.in_flight == 0
    }

    fn push(
        &mut self,
        event: &Event,
        line: Result<String, serde_json::Error>,
    ) -> Result<(), String> {
        let (seq, due) = (event.seq, Seq(self.summary.events.0));
        let line = line.map_err(|error| format!("event {seq} cannot be written: {error}"))?;
        if seq != due {
            return Err(format!("event {seq} came where {due} was due"));
        }
        let queued = self.pending.len() + self.in_flight;
        if queued + line.len() >= MAX_QUEUED {
            return Err(format!("{MAX_QUEUED} bytes of events wait for the disk"));
        }
        if self.pending.is_empty() {
            self.pending_since = Some(Instant::now());
        }
        self.pending.extend_from_slice(line.as_bytes());
        self.pending.push(b'\n');
        self.summary.apply(event);
        Ok(())
    }

    fn lose(&mut self, reason: &str) {
        self.lost.get_or_insert_with(|| reason.to_owned());
        self.pending = Vec::new();
        answer(std::mem::take(&mut self.waiters), || Err(StoreError::Lost(reason.to_owned())));
    }

    /// How long the thread may sleep: `None` until it is woken, zero when there is work.
    fn due_in(&self) -> Option<Duration> {
        if !self.waiters.is_empty() {
            return Some(Duration::ZERO);
        }
        // A log that nobody has flushed does not exist, and a window does not create it.
        let waits = self.exists && !self.pending.is_empty();
        if waits && self.closed {
            return Some(Duration::ZERO);
        }
        let since = self.pending_since.filter(|_| waits && !self.failed)?;
        Some(WINDOW.saturating_sub(since.elapsed()))
    }

    fn take_batch(&mut self) -> Batch {
        let lines = std::mem::take(&mut self.pending);
        self.in_flight = lines.len();
        let summary = self.summary.clone();
        Batch { lines, summary, waiters: std::mem::take(&mut self.waiters) }
    }
}

impl Shared {
    fn new(summary: Summary, exists: bool) -> Self {
        let queue = Queue { written: summary.clone(), summary, exists, ..Queue::default() };
        Self { queue: Mutex::new(queue), changed: Condvar::new() }
    }

    pub(crate) fn take_batch(&self) -> Batch {
        self.lock().take_batch()
    }

    /// The summary of what is on the disk; `None` when nothing is, and when it is not known what.
    pub(crate) fn written(&self) -> Option<Summary> {
        let queue = self.lock();
        (queue.exists && queue.lost.is_none()).then(|| queue.written.clone())
    }

    /// Nothing can be acknowledged any more.
    pub(crate) fn lose(&self, reason: &str) {
        self.lock().lose(reason);
    }

    /// Whether something is to be written at once.
    fn is_due(&self) -> bool {
        self.lock().due_in() == Some(Duration::ZERO)
    }

    /// A panic elsewhere cannot leave the queue half changed, so poisoning means nothing here.
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut sink: Box<dyn Sink>) {
        // Also after a panic in the sink nobody waits for ever.
        let _ended = Ended(self);
        while let Some(batch) = self.next_batch() {
            let result = sink.commit(&batch.lines);
            let last_try = result.is_err() && self.lock().closed;
            self.settle(batch, result);
            if last_try {
                return;
            }
        }
    }

    fn next_batch(&self) -> Option<Batch> {
        let mut queue = self.lock();
        loop {
            match queue.due_in() {
                Some(Duration::ZERO) => return Some(queue.take_batch()),
                _ if queue.closed => return None,
                Some(wait) => {
                    let waited = self.changed.wait_timeout(queue, wait);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => {
                    queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    pub(crate) fn settle(&self, batch: Batch, result: Result<(), CommitError>) {
        let Batch { mut lines, summary, waiters } = batch;
        let mut queue = self.lock();
        queue.in_flight = 0;
        match result {
            Ok(()) => {
                (queue.exists, queue.failed) = (true, false);
                queue.written = summary;
                lines.clear();
                if queue.pending.capacity() == 0 && lines.capacity() <= KEPT_BUFFER {
                    queue.pending = lines;
                }
                answer(waiters, || Ok(()));
            }
            Err(CommitError::NotWritten(error)) => {
                tracing::warn!(%error, "session log not written; the next flush tries again");
                queue.failed = true;
                lines.append(&mut queue.pending);
                queue.pending = lines;
                answer(waiters, || Err(copy(&error).into()));
            }
            Err(CommitError::Lost(error)) => {
                tracing::error!(%error, "session log lost its disk");
                queue.lose(&error.to_string());
                answer(waiters, || Err(StoreError::Lost(error.to_string())));
            }
        }
    }
}

struct Ended<'a>(&'a Shared);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.lock().lose(ENDED);
    }
}

/// A waiter that has gone away needs no answer.
fn answer(
    waiters: Vec<oneshot::Sender<Result<(), StoreError>>>,
    result: impl Fn() -> Result<(), StoreError>,
) {
    for waiter in waiters {
        drop(waiter.send(result()));
    }
}

/// The same error for each of several waiters.
fn copy(error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), error.to_string())
}
