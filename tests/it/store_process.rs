//! A process that writes sessions through the store's public interface and says on a pipe what
//! was acknowledged to it. It is this test binary again, told by its environment what to be.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;

use bridle_session::{
    BlobHash, BlobRef, Content, Draft, Event, EventCount, EventData, Header, MessageId, Parent,
    Seq, Session, SessionId, UnixMillis, UserMessage, UserSource,
};
use bridle_store::{BlobStore as _, FileStore, LogWriter, Opened, SessionStore as _, StoreError};
use tokio::task::JoinSet;

const STATE: &str = "BRIDLE_TEST_STORE_STATE";
const SEED: &str = "BRIDLE_TEST_STORE_SEED";

/// How many sessions are written at once.
const WRITERS: u64 = 3;

/// After so many flushes a writer begins another session, new or forked.
const FLUSHES: u64 = 8;

/// Not a test of its own: what this binary is when another test starts it.
#[tokio::test]
async fn writes_for_ever() {
    let Some(state) = std::env::var_os(STATE) else { return };
    let seed: u64 = std::env::var(SEED).unwrap().parse().unwrap();
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let rng = fastrand::Rng::with_seed(seed.wrapping_add(number));
        let state = PathBuf::from(&state);
        let store = FileStore::new(&state);
        writers.spawn(async move {
            let mut writer = Worker { state, store, rng };
            let error = writer.work().await.unwrap_err();
            tell(&format!("failed {error}"));
        });
    }
    writers.join_all().await;
}

struct Worker {
    state: PathBuf,
    store: FileStore,
    rng: fastrand::Rng,
}

impl Worker {
    /// Writes until something fails.
    async fn work(&mut self) -> Result<(), StoreError> {
        let mut last = self.continued().await?;
        loop {
            let (writer, session) = match last {
                Some(parent) if self.rng.bool() => self.forked(&parent)?,
                _ => self.created().await?,
            };
            tell(&format!("acked {} {}", session.header().id, session.len()));
            last = Some(self.write(writer, session).await?);
        }
    }

    /// Goes on with any session that is stored and free.
    async fn continued(&mut self) -> Result<Option<Session>, StoreError> {
        let Some(id) = self.stored() else { return Ok(None) };
        match self.store.open(&id) {
            Ok(opened) => Ok(Some(self.write(opened.writer, opened.session).await?)),
            // Another worker has chosen the same, or the power went before there was a log.
            Err(StoreError::Locked { .. } | StoreError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn created(&mut self) -> Result<(LogWriter, Session), StoreError> {
        let session = Session::new(self.header());
        let writer = self.store.create(session.header())?;
        writer.flush().await?;
        Ok((writer, session))
    }

    fn forked(&mut self, parent: &Session) -> Result<(LogWriter, Session), StoreError> {
        let at = Seq(self.rng.u64(..parent.len().0));
        let inherited = EventCount(at.next().0);
        let of = Parent { id: parent.header().id.clone(), inherited };
        let session = parent.fork(Header { parent: Some(of), ..self.header() }, at).unwrap();
        Ok((self.store.seed(&session)?, session))
    }

    async fn write(
        &mut self,
        writer: LogWriter,
        mut session: Session,
    ) -> Result<Session, StoreError> {
        for _ in 0..FLUSHES {
            for _ in 0..self.rng.usize(1..5) {
                let filler = self.rng.usize(0..2_000);
                writer.append(said(&mut session, filler))?;
            }
            writer.flush().await?;
            tell(&format!("acked {} {}", session.header().id, session.len()));
            if self.rng.u8(..4) == 0 {
                let content = vec![self.rng.u8(..); self.rng.usize(1..100_000)];
                let blob = self.store.put(&content)?;
                tell(&format!("kept {} {}", blob.hash.as_str(), blob.bytes));
            }
        }
        Ok(session)
    }

    /// Any stored session.
    fn stored(&mut self) -> Option<SessionId> {
        let folders = fs_err::read_dir(self.state.join("sessions")).into_iter().flatten();
        let names = folders.map(|folder| folder.unwrap().file_name());
        self.rng.choice(names.collect::<Vec<_>>()).and_then(|name| SessionId::parse(name.to_str()?))
    }

    fn header(&mut self) -> Header {
        let id = format!("01980000-0000-7000-8000-{:012x}", self.rng.u64(..1 << 48));
        Header {
            format: Header::FORMAT,
            id: SessionId::parse(&id).unwrap(),
            created_at: UnixMillis(1_700_000_000_000),
            cwd: "/work/project".into(),
            extra_roots: Vec::new(),
            parent: None,
            origin: "test".into(),
            delegation_depth: 0,
            terms: Default::default(),
        }
    }
}

/// A message that carries its own position.
fn said(session: &mut Session, filler: usize) -> Arc<Event> {
    let text = format!("{} {}", session.len(), "text ".repeat(filler));
    let message = UserMessage {
        id: MessageId::new(format!("message-{}", session.len())),
        content: vec![Content::text(text)],
        source: UserSource::Human,
    };
    session.append(Draft::new(message), UnixMillis(1_700_000_000_000)).unwrap()
}

/// A line to the parent; the test harness writes to stdout as well, so it is marked.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {line}").unwrap();
    out.flush().unwrap();
}

/// What must be there whatever happens.
#[derive(Default)]
pub(crate) struct Acknowledged {
    /// How many events of which session.
    events: BTreeMap<SessionId, u64>,
    blobs: Vec<BlobRef>,
}

impl Acknowledged {
    /// Takes over what another round has acknowledged.
    pub(crate) fn extend(&mut self, newer: Self) {
        self.events.extend(newer.events);
        self.blobs.extend(newer.blobs);
    }

    /// How many events they are.
    pub(crate) fn events(&self) -> u64 {
        self.events.values().sum()
    }

    /// How many blobs they are.
    pub(crate) fn blobs(&self) -> usize {
        self.blobs.len()
    }

    /// Takes in a line of the process.
    fn hear(&mut self, line: &str) -> Option<()> {
        let (what, rest) = line.strip_prefix("> ")?.split_once(' ')?;
        let (name, number) = rest.split_once(' ')?;
        match what {
            "acked" => drop(self.events.insert(SessionId::parse(name)?, number.parse().ok()?)),
            "kept" => {
                let hash = BlobHash::parse(name)?;
                self.blobs.push(BlobRef { hash, bytes: number.parse().ok()? });
            }
            _ => return None,
        }
        Some(())
    }
}

/// The process, seen from outside.
pub(crate) struct StoreProcess {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) acknowledged: Acknowledged,
    /// Why writers have ended.
    pub(crate) failures: Vec<String>,
}

impl StoreProcess {
    /// Starts it on the state folder.
    pub(crate) fn start(state: &Path, seed: u64) -> Self {
        Self::start_through(&[], state, seed)
    }

    /// Starts it behind another program, which runs what its arguments end with.
    #[expect(clippy::disallowed_methods, reason = "a test's own second process")]
    pub(crate) fn start_through(front: &[String], state: &Path, seed: u64) -> Self {
        let own = std::env::current_exe().unwrap();
        let mut words = front.iter().map(OsStr::new).chain([own.as_os_str()]);
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .args(["--exact", "store_process::writes_for_ever", "--nocapture"])
            .envs([(STATE, state.as_os_str()), (SEED, OsStr::new(&seed.to_string()))])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines, acknowledged: Acknowledged::default(), failures: Vec::new() }
    }

    /// Waits for the next acknowledgement; false at the end.
    pub(crate) fn hears(&mut self) -> bool {
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if let Some(failure) = line.strip_prefix("> failed ") {
                self.failures.push(failure.to_owned());
            } else if self.acknowledged.hear(&line).is_some() {
                return true;
            }
        }
        false
    }

    /// Ends it. What it has said since the last one that was heard is not taken in.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for StoreProcess {
    /// Also when an assertion has failed, nothing stays behind.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// How many of the acknowledged events and blobs are not there. Panics when a log does not open.
pub(crate) fn lost(state: &Path, acknowledged: &Acknowledged) -> u64 {
    let store = FileStore::new(state);
    let missing = |(id, events): (&SessionId, &u64)| match store.open(id) {
        Ok(opened) => events.saturating_sub(sound(opened)),
        // Its creation was acknowledged as well.
        Err(StoreError::NotFound(_)) => events.saturating_add(1),
        Err(error) => panic!("{id}: {error}"),
    };
    let blobs = acknowledged.blobs.iter().filter(|blob| store.get(blob).is_err());
    acknowledged.events.iter().map(missing).sum::<u64>() + blobs.count() as u64
}

/// How many events a log holds that was opened; each must be the one that was written.
fn sound(opened: Opened) -> u64 {
    let Opened { session, recovery, .. } = opened;
    assert_eq!(recovery.damage, [], "damage before complete frames");
    for event in session.events() {
        let EventData::UserMessage(message) = &event.data else {
            assert!(matches!(event.data, EventData::SeedEnd(_)), "{event:?}");
            continue;
        };
        let [Content::Text { text }] = &message.content[..] else { panic!("{event:?}") };
        assert!(text.starts_with(&format!("{} ", event.seq)), "{event:?}");
    }
    session.len().0
}
