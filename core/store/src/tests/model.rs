//! Any life of a store, against a model of it: for each session what was said and how much of it
//! was acknowledged, for each blob its content.
//!
//! A sequence that fails is run again with `BRIDLE_STORE_SEED=<its seed>`. One thing is not in the
//! seed: a machine that stops for 200 ms between an append and its flush may write it earlier.

use std::collections::BTreeMap;
use std::sync::Arc;

use bridle_session::{
    BlobRef, Content, Draft, EventCount, Header, MessageId, Parent, Seq, Session, SurfaceOp,
    UserMessage, UserSource,
};
use fastrand::Rng;
use rustix::io::Errno;

use super::migration::STEPS;
use super::sample::{header, id, lines, say};
use super::simulated::{Left, SimulatedDisk};
use crate::version::Versions;
use crate::{BlobStore as _, Compression, FileStore, LogWriter, SessionStore as _, StoreError};

const SEQUENCES: u64 = 2_000;
const LONG_SEQUENCES: u64 = 40_000;
const MAX_SESSIONS: u64 = 4;

/// What is known of one session.
struct Known {
    /// What was said to the writer, or found by the last reader.
    session: Session,
    /// How many of its events must be there; `None` while the session itself need not.
    acknowledged: Option<usize>,
    /// A removal was tried and failed, so it may be gone as a whole.
    may_be_gone: bool,
    writer: Option<LogWriter>,
}

struct World {
    rng: Rng,
    disk: SimulatedDisk,
    store: FileStore,
    version: u32,
    sessions: BTreeMap<u64, Known>,
    removed: Vec<u64>,
    blobs: Vec<(BlobRef, Vec<u8>)>,
    next: u64,
    context: String,
    done: BTreeMap<&'static str, usize>,
}

impl World {
    fn new(seed: u64) -> Self {
        let disk = SimulatedDisk::default();
        Self {
            rng: Rng::with_seed(seed),
            store: on(&disk, 1),
            disk,
            version: 1,
            sessions: BTreeMap::new(),
            removed: Vec::new(),
            blobs: Vec::new(),
            next: 1,
            context: format!("BRIDLE_STORE_SEED={seed}"),
            done: BTreeMap::new(),
        }
    }

    async fn live(&mut self) {
        for _ in 0..self.rng.usize(8..40) {
            let what = match self.rng.u8(..32) {
                0..3 => self.create().await,
                3..10 => self.append(),
                10..12 => self.compact(),
                12..17 => self.flush().await,
                17..19 => self.close(),
                19..23 => self.reopen(),
                23..25 => self.fork(),
                25 => self.remove(),
                26 => self.put(),
                27 => self.migrate(),
                28 => self.fail_next(),
                29 => self.kill(),
                _ => self.crash(),
            };
            // What has nobody to write it needs a writer first.
            let what = if what == "idle" { self.reopen() } else { what };
            let what = if what == "idle" { self.create().await } else { what };
            *self.done.entry(what).or_default() += 1;
        }
        self.crash();
        for n in self.sessions.keys().copied().collect::<Vec<_>>() {
            self.goes_on(n).await;
        }
    }

    fn header(&mut self) -> (u64, Header) {
        let n = self.next;
        self.next += 1;
        (n, Header { format: self.version, ..header(n) })
    }

    fn any(&mut self, wanted: impl Fn(&Known) -> bool) -> Option<u64> {
        let mut fitting = self.sessions.iter().filter(|(_, known)| wanted(known));
        let count = fitting.clone().count();
        (count > 0).then(|| *fitting.nth(self.rng.usize(..count)).unwrap().0)
    }

    fn written(&mut self) -> Option<(&mut Known, &mut Rng)> {
        let n = self.any(|known| known.writer.is_some())?;
        Some((self.sessions.get_mut(&n)?, &mut self.rng))
    }

    async fn create(&mut self) -> &'static str {
        if self.sessions.len() as u64 >= MAX_SESSIONS {
            return "idle";
        }
        let (n, header) = self.header();
        let form = if self.rng.bool() { Compression::Zstd } else { Compression::None };
        self.store = self.store.clone().with_compression(form);
        let writer = self.store.create(&header).unwrap();
        let acknowledged = writer.flush().await.is_ok().then_some(0);
        let session = Session::new(header);
        let known = Known { session, acknowledged, may_be_gone: false, writer: Some(writer) };
        self.sessions.insert(n, known);
        "create"
    }

    fn append(&mut self) -> &'static str {
        let Some((known, rng)) = self.written() else { return "idle" };
        let len = rng.usize(1..1_500);
        let text: String = std::iter::repeat_with(|| rng.alphanumeric()).take(len).collect();
        let event = say(&mut known.session, &text);
        if known.writer.as_ref().unwrap().append(event).is_err() {
            known.writer = None;
        }
        "append"
    }

    /// A message takes the place of some that are on the surface.
    fn compact(&mut self) -> &'static str {
        let Some((known, rng)) = self.written() else { return "idle" };
        let nodes: Vec<Seq> = known.session.projection().entries().map(|(seq, _)| seq).collect();
        if nodes.is_empty() {
            return "idle";
        }
        let start = rng.usize(..nodes.len());
        let covers = nodes[start..rng.usize(start..nodes.len()) + 1].to_vec();
        let (first, last) = (covers[0], covers[covers.len() - 1]);
        let summary = UserMessage {
            id: MessageId::new("summary"),
            content: vec![Content::text("what was said so far")],
            source: UserSource::Context { name: "compaction".to_owned() },
        };
        let surface = Some(SurfaceOp::Replace { first, last, covers });
        let draft = Draft { data: summary.into(), surface };
        let event = known.session.append(draft, known.session.last_time()).unwrap();
        if known.writer.as_ref().unwrap().append(event).is_err() {
            known.writer = None;
        }
        "compact"
    }

    async fn flush(&mut self) -> &'static str {
        let Some((known, _)) = self.written() else { return "idle" };
        match known.writer.as_ref().unwrap().flush().await {
            Ok(()) => known.acknowledged = Some(known.session.events().len()),
            Err(StoreError::Lost(_)) => known.writer = None,
            Err(StoreError::Io(_)) => (),
            Err(error) => panic!("{}: {error}", self.context),
        }
        "flush"
    }

    fn close(&mut self) -> &'static str {
        self.written().map_or("idle", |(known, _)| {
            known.writer = None;
            "close"
        })
    }

    fn reopen(&mut self) -> &'static str {
        let Some(n) = self.any(|known| known.writer.is_none()) else { return "idle" };
        match self.store.open(&id(n)) {
            Ok(opened) => {
                self.assert_kept(n, &opened.session);
                let events = opened.session.events().len();
                let known = self.sessions.get_mut(&n).unwrap();
                // What an open has read is relied on from now on.
                *known = Known {
                    session: opened.session,
                    acknowledged: Some(events),
                    may_be_gone: false,
                    writer: Some(opened.writer),
                };
            }
            Err(error) => self.assert_excused(n, &error),
        }
        "reopen"
    }

    fn fork(&mut self) -> &'static str {
        let parent = self.any(|known| known.acknowledged.is_some_and(|events| events > 0));
        let Some(parent) = parent.filter(|_| (self.sessions.len() as u64) < MAX_SESSIONS) else {
            return "idle";
        };
        let (n, header) = self.header();
        let session = &self.sessions[&parent].session;
        let at = Seq(self.rng.u64(..self.sessions[&parent].acknowledged.unwrap() as u64));
        let parent = Some(Parent { id: id(parent), inherited: EventCount(at.0 + 1) });
        let session = session.fork(Header { parent, ..header }, at).unwrap();
        let (acknowledged, writer) = match self.store.seed(&session) {
            Ok(writer) => (Some(session.events().len()), Some(writer)),
            Err(StoreError::Io(_)) => (None, None),
            Err(error) => panic!("{}: {error}", self.context),
        };
        let known = Known { session, acknowledged, may_be_gone: false, writer };
        self.sessions.insert(n, known);
        self.assert_whole_or_absent(n);
        "fork"
    }

    fn remove(&mut self) -> &'static str {
        let Some(n) = self.any(|known| known.writer.is_none()) else { return "idle" };
        match self.store.remove(&id(n)) {
            Ok(()) => {
                self.sessions.remove(&n);
                self.removed.push(n);
            }
            Err(StoreError::NotFound(_)) => {
                let known = self.sessions.remove(&n).unwrap();
                assert!(known.acknowledged.is_none() || known.may_be_gone, "{}", self.context);
            }
            Err(StoreError::Io(_)) => self.sessions.get_mut(&n).unwrap().may_be_gone = true,
            Err(error) => panic!("{}: {error}", self.context),
        }
        "remove"
    }

    fn put(&mut self) -> &'static str {
        let mut bytes = vec![0; self.rng.usize(1..3_000)];
        self.rng.fill(&mut bytes);
        match self.store.put(&bytes) {
            Ok(blob) => self.blobs.push((blob, bytes)),
            Err(StoreError::Io(_)) => (),
            Err(error) => panic!("{}: {error}", self.context),
        }
        "put"
    }

    /// The next process is a newer program.
    fn migrate(&mut self) -> &'static str {
        self.version = 3.min(self.version + 1);
        self.next_process("migrate")
    }

    fn fail_next(&mut self) -> &'static str {
        let errno = if self.rng.bool() { Errno::IO } else { Errno::NOSPC };
        let step = self.disk.steps() + self.rng.usize(1..9);
        self.disk = self.disk.clone().fail_at(step, errno);
        "fail"
    }

    /// The process is killed and the machine stays up.
    fn kill(&mut self) -> &'static str {
        self.disk.cut_power();
        self.sessions.values_mut().for_each(|known| known.writer = None);
        self.disk = self.disk.clone().powered();
        self.next_process("kill")
    }

    fn crash(&mut self) -> &'static str {
        let left = match self.rng.u8(..4) {
            0 => Left::Nothing,
            1 => Left::Everything,
            _ => Left::Some(self.rng.fork()),
        };
        let after = self.disk.after_crash(left);
        // The writers go after their disk: whatever they still write is lost.
        self.sessions.values_mut().for_each(|known| known.writer = None);
        self.disk = after;
        self.next_process("crash")
    }

    fn next_process(&mut self, what: &'static str) -> &'static str {
        self.sessions.values_mut().for_each(|known| known.writer = None);
        self.store = on(&self.disk, self.version);
        for n in self.sessions.keys().copied().collect::<Vec<_>>() {
            match self.store.read(&id(n)) {
                Ok(read) => self.assert_kept(n, &read.session),
                Err(error) => self.assert_excused(n, &error),
            }
            self.assert_whole_or_absent(n);
        }
        for n in &self.removed {
            let read = self.store.read(&id(*n));
            assert!(matches!(read, Err(StoreError::NotFound(_))), "{}: {n} is back", self.context);
        }
        for (blob, bytes) in &self.blobs {
            assert_eq!(self.store.get(blob).unwrap(), *bytes, "{}", self.context);
        }
        what
    }

    fn assert_kept(&self, n: u64, found: &Session) {
        let known = &self.sessions[&n];
        let (found, said) = (lines(found), lines(&known.session));
        assert!(said.starts_with(&found), "{}: {n} holds what was never said", self.context);
        let acknowledged = known.acknowledged.unwrap_or(0);
        assert!(found.len() >= acknowledged, "{}: {n} lost something", self.context);
    }

    /// A fork is published at once.
    fn assert_whole_or_absent(&self, n: u64) {
        let known = &self.sessions[&n];
        if known.session.header().parent.is_some() && known.acknowledged.is_none() {
            let found = self.store.read(&id(n));
            let whole = found.map_or(true, |read| lines(&read.session) == lines(&known.session));
            assert!(whole, "{}: {n} is half a fork", self.context);
        }
    }

    /// Why a session need not be there, or cannot be read now.
    fn assert_excused(&self, n: u64, error: &StoreError) {
        let known = &self.sessions[&n];
        let excused = match error {
            StoreError::NotFound(_) => known.acknowledged.is_none() || known.may_be_gone,
            // A planned failure.
            StoreError::Io(_) | StoreError::Lost(_) => true,
            _ => false,
        };
        assert!(excused, "{}: {n}: {error}", self.context);
    }

    /// At the end every session that is there can be continued, for good.
    async fn goes_on(&mut self, n: u64) {
        let Ok(mut opened) = self.store.open(&id(n)) else { return };
        self.assert_kept(n, &opened.session);
        opened.writer.append(say(&mut opened.session, "the end")).unwrap();
        opened.writer.flush().await.unwrap();
        let after = on(&self.disk.after_crash(Left::Nothing), self.version);
        let found = after.read(&id(n)).unwrap().session;
        assert_eq!(lines(&found), lines(&opened.session), "{}: {n}", self.context);
    }
}

fn on(disk: &SimulatedDisk, version: u32) -> FileStore {
    let versions = Versions { current: version, steps: STEPS.to_vec() };
    FileStore::on(Arc::new(disk.clone()), "/home/state").with_versions(versions)
}

#[tokio::test]
async fn any_life_of_a_store_keeps_what_was_acknowledged() {
    let (first, count) = match std::env::var("BRIDLE_STORE_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) if std::env::var_os("BRIDLE_LONG").is_some() => (fastrand::u64(..), LONG_SEQUENCES),
        Err(_) => (fastrand::u64(..), SEQUENCES),
    };
    let mut done = BTreeMap::<&str, usize>::new();
    for seed in (0..count).map(|n| first.wrapping_add(n)) {
        let mut world = World::new(seed);
        world.live().await;
        for (what, times) in world.done {
            *done.entry(what).or_default() += times;
        }
    }
    println!("seeds from {first}: {count} sequences, {done:?}");
}
