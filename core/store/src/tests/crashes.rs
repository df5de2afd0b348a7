//! A power cut behind every single disk operation, with everything, nothing and random parts of
//! what was not synced on the disk: what was acknowledged is there, what is there is a prefix of
//! what was said, and the session goes on.

use std::sync::Arc;

use bridle_session::Session;
use fastrand::Rng;
use rustix::io::Errno;

use super::sample::{header, id, lines, say};
use super::simulated::{Left, SimulatedDisk};
use crate::{FileStore, LogWriter, SessionStore as _, StoreError};

/// How many random remains are looked at for each crash point, besides everything and nothing.
const REMAINS: usize = 12;

/// What a session said, and how much of it the store has acknowledged.
struct Said {
    session: Session,
    /// `None` until the creation is acknowledged.
    acknowledged: Option<usize>,
}

impl Said {
    fn new() -> Self {
        Self { session: Session::new(header(1)), acknowledged: None }
    }

    /// Says something that fills sectors and does not compress.
    fn say(&mut self, writer: &LogWriter, rng: &mut Rng) -> Result<(), StoreError> {
        let len = rng.usize(1..1_500);
        let text: String = std::iter::repeat_with(|| rng.alphanumeric()).take(len).collect();
        writer.append(say(&mut self.session, &text))
    }

    async fn flush(&mut self, writer: &LogWriter) -> Result<(), StoreError> {
        writer.flush().await?;
        self.acknowledged = Some(self.session.events().len());
        Ok(())
    }
}

fn store(disk: &SimulatedDisk) -> FileStore {
    FileStore::on(Arc::new(disk.clone()), "/home/state")
}

/// A first process creates and writes, a second one goes on. Ends at the first error.
async fn work(disk: &SimulatedDisk, said: &mut Said, rng: &mut Rng) -> Result<(), StoreError> {
    let writer = store(disk).create(said.session.header())?;
    said.flush(&writer).await?;
    for events in [1, 3] {
        for _ in 0..events {
            said.say(&writer, rng)?;
        }
        said.flush(&writer).await?;
    }
    drop(writer);
    go_on(disk, said, rng).await
}

/// What a process does with a session that is there.
async fn go_on(disk: &SimulatedDisk, said: &mut Said, rng: &mut Rng) -> Result<(), StoreError> {
    let opened = store(disk).open(&id(1))?;
    said.session = opened.session;
    for _ in 0..2 {
        said.say(&opened.writer, rng)?;
        said.flush(&opened.writer).await?;
    }
    Ok(())
}

fn remains(rng: &mut Rng) -> impl Iterator<Item = Left> {
    let random: Vec<_> = (0..REMAINS).map(|_| Left::Some(rng.fork())).collect();
    [Left::Nothing, Left::Everything].into_iter().chain(random)
}

/// The next process finds what was acknowledged, and its own acknowledgements hold too.
async fn assert_survives(disk: &SimulatedDisk, said: &Said, context: &str) {
    let read = match store(disk).read(&id(1)) {
        Err(StoreError::NotFound(_)) if said.acknowledged.is_none() => return,
        read => read.unwrap_or_else(|error| panic!("{context}: {error}")),
    };
    let (found, all) = (lines(&read.session), lines(&said.session));
    assert!(all.starts_with(&found), "{context}: found what was never said");
    let acknowledged = said.acknowledged.unwrap_or(0);
    assert!(found.len() >= acknowledged, "{context}: {} of {acknowledged}", found.len());
    assert!(read.recovery.damage.is_empty(), "{context}: a torn end was written over");
    let mut next = Said { session: read.session, acknowledged: Some(found.len()) };
    let mut rng = Rng::with_seed(1);
    go_on(disk, &mut next, &mut rng).await.unwrap_or_else(|error| panic!("{context}: {error}"));
    let found = store(&disk.after_crash(Left::Nothing)).read(&id(1)).unwrap().session;
    assert_eq!(lines(&found), lines(&next.session), "{context}: the next process lost something");
}

fn seeded() -> (u64, Rng) {
    let seed = Rng::new().u64(..);
    (seed, Rng::with_seed(seed))
}

#[tokio::test]
async fn a_power_cut_behind_any_operation_loses_nothing_acknowledged() {
    let (seed, mut rng) = seeded();
    let mut crashes = 0;
    for step in 1.. {
        let disk = SimulatedDisk::default().crash_at(step);
        let mut said = Said::new();
        let ended = work(&disk, &mut said, &mut rng).await;
        for left in remains(&mut rng) {
            let context = format!("seed {seed}, crash at {step}, {left:?} left");
            assert_survives(&disk.after_crash(left), &said, &context).await;
            crashes += 1;
        }
        if ended.is_ok() {
            println!("seed {seed}: {crashes} crashes at {step} points");
            assert!(step > 20, "only {step} points");
            return;
        }
    }
}

/// A log with a torn end, on a disk where that is durable.
async fn torn(rng: &mut Rng) -> (SimulatedDisk, Said, Vec<u8>) {
    let (disk, mut said) = (SimulatedDisk::default(), Said::new());
    let writer = store(&disk).create(said.session.header()).unwrap();
    said.say(&writer, rng).unwrap();
    said.flush(&writer).await.unwrap();
    drop(writer);
    let mut torn = vec![0; rng.usize(1..2_000)];
    rng.fill(&mut torn);
    disk.tear(&store(&disk).log_path(&id(1)).unwrap(), &torn);
    (disk, said, torn)
}

#[tokio::test]
async fn a_power_cut_while_a_torn_end_is_cut_loses_neither() {
    let (seed, mut rng) = seeded();
    for step in 1.. {
        let (disk, mut said, torn) = torn(&mut rng).await;
        let disk = disk.after_crash(Left::Everything).crash_at(step);
        let ended = go_on(&disk, &mut said, &mut rng).await;
        for left in remains(&mut rng) {
            let context = format!("seed {seed}, crash at {step}, {left:?} left");
            let disk = disk.after_crash(left);
            let kept = disk.files().iter().any(|(name, bytes)| {
                let is_log = name.starts_with("events.");
                if is_log { bytes.ends_with(&torn) } else { *bytes == torn }
            });
            assert!(kept, "{context}: the torn bytes are gone");
            assert_survives(&disk, &said, &context).await;
        }
        if ended.is_ok() {
            return assert!(step > 6, "only {step} points");
        }
    }
}

#[tokio::test]
async fn what_is_cut_stays_cut() {
    let (_, mut rng) = seeded();
    let (disk, ..) = torn(&mut rng).await;
    drop(store(&disk).open(&id(1)).unwrap());
    let after = store(&disk.after_crash(Left::Nothing)).read(&id(1)).unwrap();
    assert_eq!(after.recovery.torn_bytes, 0);
}

/// A process is killed, the machine stays up, and the next process reads what no sync has reached.
#[tokio::test]
async fn what_an_open_has_read_is_durable() {
    let (seed, mut rng) = seeded();
    for step in 1.. {
        let disk = SimulatedDisk::default().crash_at(step);
        let mut said = Said::new();
        let ended = work(&disk, &mut said, &mut rng).await;
        let disk = disk.powered();
        if let Ok(opened) = store(&disk).open(&id(1)) {
            let context = format!("seed {seed}, killed at {step}");
            let read = opened.session.events().len();
            let next = Said { session: opened.session, acknowledged: Some(read) };
            drop(opened.writer);
            assert_survives(&disk.after_crash(Left::Nothing), &next, &context).await;
        }
        if ended.is_ok() {
            return;
        }
    }
}

/// One operation fails, then the power goes: every pair of points.
#[tokio::test]
async fn a_failed_operation_and_a_power_cut_lose_nothing_acknowledged() {
    let (seed, mut rng) = seeded();
    let (mut failures, mut crashes) = (0, 0);
    for fail in 1.. {
        let disk = SimulatedDisk::default().fail_at(fail, Errno::NOSPC);
        let mut said = Said::new();
        let ended = stubborn(&disk, &mut said, &mut rng).await;
        failures += usize::from(ended);
        for left in remains(&mut rng) {
            let context = format!("seed {seed}, failure at {fail}, {left:?} left");
            assert_survives(&disk.after_crash(left), &said, &context).await;
        }
        let steps = disk.steps();
        if fail > steps {
            break;
        }
        for crash in fail + 1..=steps {
            let disk = SimulatedDisk::default().fail_at(fail, Errno::NOSPC).crash_at(crash);
            let mut said = Said::new();
            stubborn(&disk, &mut said, &mut rng).await;
            for left in [Left::Nothing, Left::Everything, Left::Some(rng.fork())] {
                let context = format!("seed {seed}, failure at {fail}, crash at {crash}, {left:?}");
                assert_survives(&disk.after_crash(left), &said, &context).await;
                crashes += 1;
            }
        }
    }
    println!("seed {seed}: {failures} failures told, {crashes} crashes behind a failure");
    assert!(failures > 10);
}

/// Writes on after a failure as long as the handle lets it; says whether something failed. After
/// a failure that may be repeated nothing of the failed batch is on the disk.
async fn stubborn(disk: &SimulatedDisk, said: &mut Said, rng: &mut Rng) -> bool {
    let mut failed = false;
    let Ok(writer) = store(disk).create(said.session.header()) else { return true };
    for _ in 0..4 {
        match said.flush(&writer).await {
            Ok(()) => (),
            Err(StoreError::Lost(_)) => return true,
            Err(_) => {
                failed = true;
                let left = store(&disk.after_crash(Left::Nothing)).read(&id(1));
                let left = left.map_or(0, |left| left.session.events().len());
                assert_eq!(left, said.acknowledged.unwrap_or(0));
                let everything = store(&disk.after_crash(Left::Everything)).read(&id(1));
                let torn = everything.map_or(0, |log| log.recovery.torn_bytes);
                assert_eq!(torn, 0, "the failed batch was not taken back");
            }
        }
        if said.say(&writer, rng).is_err() {
            return true;
        }
    }
    failed
}

/// Any order of what can happen to a session, against a list of what was acknowledged.
#[tokio::test]
async fn any_life_of_a_session_keeps_what_was_acknowledged() {
    const LIVES: usize = 300;
    let (seed, mut rng) = seeded();
    let mut crashes = 0;
    for life in 0..LIVES {
        let context = format!("seed {seed}, life {life}");
        let (mut disk, mut said) = (SimulatedDisk::default(), Said::new());
        let mut writer = Some(store(&disk).create(said.session.header()).unwrap());
        for _ in 0..rng.usize(5..40) {
            match (rng.u8(..8), &writer) {
                (0..3, Some(handle)) => drop(said.say(handle, &mut rng)),
                (3..5, Some(handle)) => drop(said.flush(handle).await),
                (5, _) => disk = disk.clone().fail_at(disk.steps() + rng.usize(1..9), Errno::IO),
                (6, Some(_)) => {
                    // The handle goes after its disk: whatever it still writes is lost.
                    let after = disk.after_crash(Left::Some(rng.fork()));
                    drop(writer.take());
                    disk = after;
                    crashes += 1;
                }
                _ => drop(writer.take()),
            }
            if writer.is_none() {
                writer = Some(next_process(&disk, &mut said, &context));
            }
        }
        drop(writer);
        assert_survives(&disk.after_crash(Left::Some(rng.fork())), &said, &context).await;
    }
    println!("seed {seed}: {LIVES} lives, {crashes} crashes");
}

fn next_process(disk: &SimulatedDisk, said: &mut Said, context: &str) -> LogWriter {
    for _ in 0..4 {
        match store(disk).open(&id(1)) {
            Ok(opened) => {
                let (found, all) = (lines(&opened.session), lines(&said.session));
                assert!(all.starts_with(&found), "{context}: found what was never said");
                assert!(found.len() >= said.acknowledged.unwrap_or(0), "{context}");
                said.session = opened.session;
                return opened.writer;
            }
            Err(StoreError::NotFound(_)) if said.acknowledged.is_none() => {
                *said = Said::new();
                return store(disk).create(said.session.header()).unwrap();
            }
            // A planned failure hit the recovery; it is planned once.
            Err(StoreError::Io(_)) => (),
            Err(error) => panic!("{context}: {error}"),
        }
    }
    panic!("{context}: never opened");
}
