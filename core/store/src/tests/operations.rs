//! Every operation of the store, with a power cut, a kill or a failure at each of its disk
//! operations: what it was to do is done or not done, what was there is there, and it can be done
//! again.

use std::io;
use std::sync::Arc;

use bridle_session::{BlobRef, EventCount, Header, Parent, Seq, Session};
use fastrand::Rng;
use rustix::io::Errno;

use super::migration;
use super::sample::{header, id, lines, say};
use super::simulated::{Left, SimulatedDisk};
use crate::blob::name;
use crate::{BlobStore as _, Compression, FileStore, SessionStore as _, StoreError};

const OPERATIONS: [Operation; 9] = [
    Operation::Create,
    Operation::Append,
    Operation::Recover,
    Operation::Seed,
    Operation::Migrate,
    Operation::Remove,
    Operation::Put,
    Operation::PutAgain,
    Operation::PutOverDamage,
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Operation {
    Create,
    Append,
    /// Opens a log with a torn end.
    Recover,
    Seed,
    /// Opens a log that is two versions old.
    Migrate,
    Remove,
    Put,
    PutAgain,
    /// Puts a content whose blob is damaged.
    PutOverDamage,
}

const TORN: &[u8] = b"\0\0torn\xff";
const FOREIGN: &[u8] = b"somebody else's";
const CONTENT: &[u8] = &[7; 3_000];

/// An operation with everything that was there before it.
struct Case {
    operation: Operation,
    compression: Compression,
    disk: SimulatedDisk,
    before: Session,
    context: String,
}

impl Case {
    async fn new(operation: Operation, compression: Compression) -> Self {
        let disk = SimulatedDisk::default();
        let context = format!("{operation:?} {compression:?}");
        let mut case = Self { operation, compression, disk, before: session(1), context };
        let mut rng = Rng::with_seed(1);
        let store = case.old_store(&case.disk);
        for n in [1, 2] {
            let mut session = session(n);
            let writer = store.create(session.header()).unwrap();
            for _ in 0..3 {
                writer.append(say(&mut session, &noise(&mut rng))).unwrap();
                writer.flush().await.unwrap();
            }
            case.before = if n == 1 { session } else { case.before };
        }
        match operation {
            Operation::Recover => case.disk.tear(&store.log_path(&id(1)).unwrap(), TORN),
            Operation::PutAgain => drop(store.put(CONTENT).unwrap()),
            Operation::PutOverDamage => {
                let blob = store.put(CONTENT).unwrap();
                case.disk.tear(&store.blob_path(&blob.hash), b"!");
            }
            _ => (),
        }
        case
    }

    fn old_store(&self, disk: &SimulatedDisk) -> FileStore {
        FileStore::on(Arc::new(disk.clone()), "/home/state").with_compression(self.compression)
    }

    fn store(&self, disk: &SimulatedDisk) -> FileStore {
        match self.operation {
            Operation::Migrate => migration::newer(&self.old_store(disk)),
            _ => self.old_store(disk),
        }
    }

    /// What a fork of the first session is.
    fn child(&self) -> Session {
        let parent = Some(Parent { id: id(1), inherited: EventCount(2) });
        self.before.fork(Header { parent, ..header(3) }, Seq(1)).unwrap()
    }

    async fn run(&self, disk: &SimulatedDisk) -> Result<(), StoreError> {
        let store = self.store(disk);
        match self.operation {
            Operation::Create => store.create(&header(3))?.flush().await,
            Operation::Append => {
                let mut opened = store.open(&id(1))?;
                opened.writer.append(say(&mut opened.session, "more"))?;
                opened.writer.flush().await
            }
            Operation::Recover | Operation::Migrate => store.open(&id(1)).map(drop),
            Operation::Seed => store.seed(&self.child()).map(drop),
            Operation::Remove => store.remove(&id(1)),
            Operation::Put | Operation::PutAgain | Operation::PutOverDamage => {
                store.put(CONTENT).map(drop)
            }
        }
    }

    /// What holds whether or not the operation said that it is done.
    fn assert_sound(&self, disk: &SimulatedDisk, done: bool, context: &str) {
        let store = self.store(disk);
        let found = |n| match store.read(&id(n)) {
            Err(StoreError::NotFound(_)) => None,
            read => Some(lines(&read.unwrap_or_else(|error| panic!("{context}: {error}")).session)),
        };
        assert_eq!(found(2).map(|lines| lines.len()), Some(3), "{context}: the other session");
        assert!(store.list().unwrap().unreadable.is_empty(), "{context}");
        let before = lines(&self.before);
        let first = found(1);
        match self.operation {
            Operation::Remove => {
                assert!(first.is_none() || (!done && first == Some(before)), "{context}");
            }
            Operation::Append => {
                let first = first.unwrap();
                assert_eq!(first[..3], before, "{context}");
                assert!(first.len() > 3 || !done, "{context}: what was acknowledged is lost");
            }
            _ => assert_eq!(first, Some(before), "{context}"),
        }
        match self.operation {
            Operation::Create => assert!(found(3).map_or(!done, |lines| lines.is_empty())),
            Operation::Seed => {
                let whole = |found| found == lines(&self.child());
                assert!(found(3).map_or(!done, whole), "{context}: half a fork");
            }
            Operation::Recover => {
                let kept = disk.files().iter().any(|(_, bytes)| bytes.ends_with(TORN));
                assert!(kept, "{context}: the torn bytes are gone");
            }
            Operation::Put | Operation::PutAgain | Operation::PutOverDamage => {
                self.assert_blob(&store, done, context);
            }
            _ => (),
        }
    }

    fn assert_blob(&self, store: &FileStore, done: bool, context: &str) {
        let blob: BlobRef = name(CONTENT).unwrap();
        match store.get(&blob) {
            Ok(bytes) => assert_eq!(bytes, CONTENT, "{context}"),
            Err(StoreError::NoBlob(_)) => assert!(!done && self.operation == Operation::Put),
            Err(StoreError::DamagedBlob { .. }) => {
                assert!(!done && self.operation == Operation::PutOverDamage, "{context}");
            }
            Err(error) => panic!("{context}: {error}"),
        }
    }

    /// The next process does it again, and then it is done for good.
    async fn assert_repeats(&self, disk: &SimulatedDisk, context: &str) {
        match (self.operation, self.run(disk).await) {
            (_, Ok(())) => (),
            (Operation::Create | Operation::Seed, Err(StoreError::Io(error))) => {
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{context}: {error}");
                // Whoever opens it relies on it.
                drop(self.store(disk).open(&id(3)).unwrap());
            }
            (Operation::Remove, Err(StoreError::NotFound(_))) => return,
            (_, Err(error)) => panic!("{context}: the second time {error}"),
        }
        self.assert_sound(&disk.after_crash(Left::Nothing), true, context);
    }
}

fn session(n: u64) -> Session {
    Session::new(header(n))
}

/// Fills sectors and does not compress.
fn noise(rng: &mut Rng) -> String {
    std::iter::repeat_with(|| rng.alphanumeric()).take(700).collect()
}

fn remains(rng: &mut Rng) -> Vec<Left> {
    let random = (0..4).map(|_| Left::Some(rng.fork()));
    [Left::Nothing, Left::Everything].into_iter().chain(random).collect()
}

#[tokio::test]
async fn a_power_cut_or_a_kill_in_any_operation_leaves_it_done_or_not_done() {
    let seed = Rng::new().u64(..);
    let (mut rng, mut points) = (Rng::with_seed(seed), 0);
    for (operation, compression) in all() {
        let case = Case::new(operation, compression).await;
        for step in 1.. {
            let disk = case.disk.copy().crash_at(step);
            let done = case.run(&disk).await.is_ok();
            for left in remains(&mut rng) {
                let context = format!("{}, seed {seed}, cut at {step}, {left:?}", case.context);
                let disk = disk.after_crash(left);
                case.assert_sound(&disk, done, &context);
                case.assert_repeats(&disk, &context).await;
            }
            let context = format!("{}, killed at {step}", case.context);
            let disk = disk.powered();
            case.assert_sound(&disk, done, &context);
            case.assert_repeats(&disk, &context).await;
            points += 1;
            if done {
                assert!(step > 3, "{}: only {step} points", case.context);
                break;
            }
        }
    }
    println!("seed {seed}: {points} points in {} operations", OPERATIONS.len());
}

#[tokio::test]
async fn a_failure_in_any_operation_is_told_and_loses_nothing() {
    let seed = Rng::new().u64(..);
    let (mut rng, mut failures) = (Rng::with_seed(seed), 0);
    for (operation, compression) in all() {
        let case = Case::new(operation, compression).await;
        for (step, errno) in (1..).flat_map(|step| [(step, Errno::IO), (step, Errno::NOSPC)]) {
            let disk = case.disk.copy().fail_at(step, errno);
            let outcome = case.run(&disk).await;
            if disk.steps() < step {
                assert!(outcome.is_ok(), "{}: {outcome:?}", case.context);
                break;
            }
            let what = disk.done_since(step - 1)[0];
            let context = format!("{}, seed {seed}, {errno} at {step}, {what}", case.context);
            match &outcome {
                Err(StoreError::Io(error)) => {
                    assert_eq!(error.kind(), io::Error::from(errno).kind(), "{context}: {error}");
                }
                Err(StoreError::Lost(reason)) => {
                    assert!(reason.contains(&io::Error::from(errno).to_string()), "{reason}");
                }
                other => panic!("{context}: {other:?}"),
            }
            failures += 1;
            case.assert_sound(&disk, false, &context);
            for left in remains(&mut rng) {
                case.assert_sound(&disk.after_crash(left), false, &context);
            }
            case.assert_repeats(&disk, &context).await;
        }
    }
    println!("seed {seed}: {failures} failures in {} operations", OPERATIONS.len());
}

fn all() -> impl Iterator<Item = (Operation, Compression)> {
    let forms = |operation| {
        [Compression::Zstd, Compression::None].map(|compression| (operation, compression))
    };
    OPERATIONS.into_iter().flat_map(forms)
}

/// Somebody else's file appears under the log's name, at any moment: it is never written over.
#[tokio::test]
async fn what_has_the_name_of_a_log_is_never_overwritten() {
    let mut intrusions = 0;
    for operation in [Operation::Create, Operation::Seed, Operation::Migrate] {
        let case = Case::new(operation, Compression::Zstd).await;
        let place = match operation {
            Operation::Migrate => "/home/state/sessions/".to_owned() + id(1).as_str(),
            _ => "/home/state/sessions/".to_owned() + id(3).as_str(),
        };
        let version = if operation == Operation::Migrate { 3 } else { 1 };
        let path = std::path::Path::new(&place).join(format!("events.v{version}.jsonl.zst"));
        for step in 1.. {
            let disk = case.disk.copy().intruder_at(step, &path, FOREIGN);
            let outcome = case.run(&disk).await;
            if disk.intruder_waits() {
                assert!(outcome.is_ok(), "{}: at {step}", case.context);
                break;
            }
            match outcome {
                Err(StoreError::Io(error)) => {
                    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists)
                }
                // It came before the log was read.
                Err(StoreError::Unreadable { .. }) => assert_eq!(operation, Operation::Migrate),
                other => panic!("{}: at {step}: {other:?}", case.context),
            }
            let there = disk.files_at().into_iter().find(|(at, _)| *at == path);
            assert_eq!(there.unwrap().1, FOREIGN, "{}: at {step}", case.context);
            intrusions += 1;
        }
    }
    println!("{intrusions} intrusions");
    assert!(intrusions > 12);
}
