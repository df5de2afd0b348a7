//! Writes and syncs that fail, and the queue in front of them.

use std::io;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};

use bridle_session::{EventCount, Session, Summary};

use super::sample::{header, lines, say};
use crate::disk::DiskFile;
use crate::sink::{CommitError, LogFile, Sink};
use crate::{LogWriter, StoreError};

/// What a disk in memory does next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    /// Half of the bytes are written, then the disk is full.
    FullHalfway,
    /// The same, and it cannot be undone.
    FullForGood,
    /// The bytes are written; the sync fails once and would then succeed.
    NoSync,
}

#[derive(Debug, Default)]
struct State {
    bytes: Vec<u8>,
    synced: usize,
    fault: Fault,
}

#[derive(Clone, Debug, Default)]
struct MemoryDisk(Arc<Mutex<State>>);

impl MemoryDisk {
    fn fail(&self, fault: Fault) {
        self.0.lock().unwrap().fault = fault;
    }

    fn synced(&self) -> String {
        let state = self.0.lock().unwrap();
        assert_eq!(state.synced, state.bytes.len(), "bytes wait for a sync");
        String::from_utf8(state.bytes.clone()).unwrap()
    }
}

fn full() -> io::Error {
    io::ErrorKind::StorageFull.into()
}

impl DiskFile for MemoryDisk {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if matches!(state.fault, Fault::FullHalfway | Fault::FullForGood) {
            state.bytes.extend_from_slice(&bytes[..bytes.len() / 2]);
            return Err(full());
        }
        state.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn set_len(&mut self, len: u64) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.fault == Fault::FullForGood {
            return Err(full());
        }
        state.bytes.truncate(usize::try_from(len).unwrap());
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap();
        if state.fault == Fault::NoSync {
            state.fault = Fault::None;
            return Err(io::Error::other("I/O error"));
        }
        state.synced = state.bytes.len();
        Ok(())
    }
}

/// Frames are plain lines here, so that a test can read them.
struct PlainSink(LogFile);

impl Sink for PlainSink {
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError> {
        self.0.append(lines)
    }
}

fn writer() -> (MemoryDisk, LogWriter, Session) {
    let disk = MemoryDisk::default();
    let sink = PlainSink(LogFile::new(Box::new(disk.clone()), 0));
    let writer = LogWriter::start(Box::new(sink), Summary::default(), true).unwrap();
    (disk, writer, Session::new(header(1)))
}

fn text(session: &Session) -> String {
    lines(session).iter().map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn a_write_that_fails_is_undone_and_tried_again() {
    let (disk, writer, mut session) = writer();
    writer.append(say(&mut session, "one")).unwrap();
    writer.flush().await.unwrap();
    let good = disk.synced();
    disk.fail(Fault::FullHalfway);
    for word in ["two", "three"] {
        writer.append(say(&mut session, word)).unwrap();
        match writer.flush().await {
            Err(StoreError::Io(error)) => assert_eq!(error.kind(), io::ErrorKind::StorageFull),
            other => panic!("a full disk gave {other:?}"),
        }
        assert_eq!(disk.synced(), good);
    }
    disk.fail(Fault::None);
    writer.flush().await.unwrap();
    assert_eq!(disk.synced(), text(&session));
}

#[tokio::test]
async fn a_sync_that_fails_is_final() {
    let (disk, writer, mut session) = writer();
    writer.append(say(&mut session, "one")).unwrap();
    disk.fail(Fault::NoSync);
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
    assert_eq!(writer.shared().upgrade().unwrap().written(), None, "a list shows what was lost");
    // The disk would say yes now, and it would be a lie.
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
    assert!(matches!(writer.append(say(&mut session, "two")), Err(StoreError::Lost(_))));
    drop(writer);
    assert_eq!(disk.0.lock().unwrap().synced, 0);
}

#[tokio::test]
async fn a_write_that_cannot_be_undone_is_final() {
    let (disk, writer, mut session) = writer();
    writer.append(say(&mut session, "one")).unwrap();
    disk.fail(Fault::FullForGood);
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
    disk.fail(Fault::None);
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
}

#[tokio::test]
async fn the_last_words_are_tried_once_when_the_handle_goes() {
    let (disk, writer, mut session) = writer();
    writer.append(say(&mut session, "one")).unwrap();
    disk.fail(Fault::FullHalfway);
    assert!(writer.flush().await.is_err());
    drop(writer);
    assert_eq!(disk.synced(), "");
}

/// Hands every batch to the test and goes on when the test says so.
struct SteppedSink {
    batches: mpsc::Sender<String>,
    go_on: mpsc::Receiver<()>,
}

impl Sink for SteppedSink {
    fn commit(&mut self, lines: &[u8]) -> Result<(), CommitError> {
        let gone = |_| CommitError::NotWritten(io::ErrorKind::BrokenPipe.into());
        let lines = String::from_utf8(lines.to_vec()).unwrap();
        self.batches.send(lines).map_err(|_| gone(mpsc::RecvError))?;
        self.go_on.recv().map_err(gone)
    }
}

/// The writer comes first, so that it goes last: a test that fails then lets the sink go before it
/// waits for the thread.
fn stepped() -> (LogWriter, Session, mpsc::Receiver<String>, mpsc::Sender<()>) {
    let ((batches, seen), (step, go_on)) = (mpsc::channel(), mpsc::channel());
    let sink = SteppedSink { batches, go_on };
    let writer = LogWriter::start(Box::new(sink), Summary::default(), true).unwrap();
    (writer, Session::new(header(1)), seen, step)
}

#[test]
fn an_event_is_written_without_a_flush() {
    let (writer, mut session, seen, step) = stepped();
    writer.append(say(&mut session, "one")).unwrap();
    assert_eq!(seen.recv().unwrap(), text(&session));
    step.send(()).unwrap();
}

#[tokio::test]
async fn a_flush_waits_for_what_is_queued_before_it_and_survives_its_caller() {
    let (writer, mut session, seen, step) = stepped();
    writer.append(say(&mut session, "one")).unwrap();
    let first = text(&session);
    let mut forgotten = Box::pin(writer.flush());
    assert!(poll_once(&mut forgotten).is_none());
    assert_eq!(seen.recv().unwrap(), first);
    // While that batch is on its way, more comes; nothing is acknowledged or listed early.
    writer.append(say(&mut session, "two")).unwrap();
    let written = || writer.shared().upgrade().unwrap().written().unwrap().events;
    assert_eq!(written(), EventCount(0));
    drop(forgotten);
    let mut flush = Box::pin(writer.flush());
    assert!(poll_once(&mut flush).is_none());
    step.send(()).unwrap();
    assert_eq!(first.clone() + &seen.recv().unwrap(), text(&session));
    assert!(poll_once(&mut flush).is_none());
    step.send(()).unwrap();
    flush.await.unwrap();
    assert_eq!(written(), EventCount(2));
    writer.flush().await.unwrap();
    assert!(seen.try_recv().is_err(), "a flush of nothing wrote something");
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::Pin::new(future).poll(&mut context) {
        std::task::Poll::Ready(output) => Some(output),
        std::task::Poll::Pending => None,
    }
}

#[test]
fn the_queue_has_a_limit_and_passing_it_ends_the_handle() {
    let (writer, mut session, seen, step) = stepped();
    let large = "x".repeat(16 * 1024 * 1024);
    let mut accepted = 0;
    loop {
        match writer.append(say(&mut session, &large)) {
            Ok(()) => accepted += 1,
            Err(StoreError::Lost(_)) => break,
            Err(other) => panic!("a full queue gave {other:?}"),
        }
        assert!(accepted < 5);
    }
    assert_eq!(accepted, 3);
    // The thread may hold a batch that it took when the window was over.
    drop((seen, step));
}

struct PanickingSink;

impl Sink for PanickingSink {
    fn commit(&mut self, _lines: &[u8]) -> Result<(), CommitError> {
        // As a panic, without its message.
        std::panic::resume_unwind(Box::new("a bug"))
    }
}

#[tokio::test]
async fn a_bug_in_the_writer_leaves_nobody_waiting() {
    let writer = LogWriter::start(Box::new(PanickingSink), Summary::default(), false).unwrap();
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
    assert!(matches!(writer.flush().await, Err(StoreError::Lost(_))));
    let event = say(&mut Session::new(header(1)), "one");
    assert!(matches!(writer.append(event), Err(StoreError::Lost(_))));
}
