//! Other processes: killed writers, second writers, strange umasks. The other process is this
//! test binary again, told by an environment variable what to be.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use bridle_session::Session;

use super::sample::{header, id, quick_folder, say, written};
use crate::lock::is_at;
use crate::{FileStore, Opened, SessionStore as _, StoreError};

const ROLE: &str = "BRIDLE_STORE_TEST_ROLE";
const STATE: &str = "BRIDLE_STORE_TEST_STATE";

/// Not a test of its own: what this binary is when another test starts it.
#[tokio::test]
async fn child() {
    let (Ok(role), Ok(state)) = (std::env::var(ROLE), std::env::var(STATE)) else { return };
    let store = FileStore::new(state);
    match role.as_str() {
        "write" => write_for_ever(&store).await,
        "hold" => {
            let _opened = store.open(&id(1)).unwrap();
            tell("held");
            wait_for_ever();
        }
        "try" => match store.open(&id(1)) {
            Err(StoreError::Locked { pid, .. }) => tell(&format!("locked by {}", pid.unwrap())),
            other => tell(&format!("got {other:?}")),
        },
        umask => {
            rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask.parse().unwrap()));
            written(&store, 1, &[vec!["one".to_owned()]]).await;
            let log = store.log_path(&id(1)).unwrap();
            let mut file = fs_err::OpenOptions::new().append(true).open(log).unwrap();
            file.write_all(b"torn").unwrap();
            assert!(store.open(&id(1)).unwrap().recovery.kept_at.is_some());
            tell("done");
        }
    }
}

/// Appends and flushes, and acknowledges each event only then.
async fn write_for_ever(store: &FileStore) {
    let Opened { writer, mut session, .. } = store.open(&id(1)).unwrap();
    loop {
        for _ in 0..session.len().0 % 3 {
            writer.append(say(&mut session, "company")).unwrap();
        }
        let event = say(&mut session, &"text ".repeat(300));
        let seq = event.seq;
        writer.append(event).unwrap();
        writer.flush().await.unwrap();
        tell(&format!("acked {seq}"));
    }
}

/// A line to the parent; the test harness writes to stdout as well, so it is marked.
fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n> {line}").unwrap();
    out.flush().unwrap();
}

fn wait_for_ever() {
    std::io::stdin().lines().for_each(drop);
}

struct Other {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Other {
    #[expect(clippy::disallowed_methods, reason = "a test's own second process")]
    fn start(role: &str, state: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::processes::child", "--nocapture"])
            .envs([(ROLE, role.as_ref()), (STATE, state.as_os_str())])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The next line that the child tells; `None` at its end.
    fn hears(&mut self) -> Option<String> {
        let mut told = self
            .lines
            .by_ref()
            .filter_map(|line| line.unwrap().strip_prefix("> ").map(str::to_owned));
        told.next()
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Other {
    /// Also when an assertion has failed, nothing stays behind.
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test]
async fn what_a_killed_writer_acknowledged_is_there() {
    const ROUNDS: usize = 25;
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    let folder = tempfile::tempdir().unwrap();
    let store = FileStore::new(folder.path());
    written(&store, 1, &[]).await;
    let (mut acked_events, mut torn) = (0, 0);
    for round in 0..ROUNDS {
        let mut other = Other::start("write", folder.path());
        let mut acked = None;
        for _ in 0..rng.usize(1..25) {
            acked = other.hears();
        }
        other.kill();
        while let Some(line) = other.hears() {
            acked = Some(line);
        }
        let acked: u64 = acked.unwrap().strip_prefix("acked ").unwrap().parse().unwrap();
        let opened = store.open(&id(1)).unwrap();
        let len = opened.session.len().0;
        assert!(
            len > acked,
            "seed {seed}, round {round}: {acked} was acknowledged, {len} are there"
        );
        acked_events = acked + 1;
        torn += usize::from(opened.recovery.torn_bytes > 0);
    }
    println!("seed {seed}: {ROUNDS} kills, {acked_events} events acknowledged, {torn} torn ends");
    assert!(store.verify(&id(1)).unwrap().fold.is_ok());
}

#[tokio::test]
async fn a_second_process_is_refused_until_the_first_is_dead() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    written(&store, 1, &[]).await;

    let opened = store.open(&id(1)).unwrap();
    let told = Other::start("try", folder.path()).hears();
    assert_eq!(told, Some(format!("locked by {}", std::process::id())));
    drop(opened);

    let mut holder = Other::start("hold", folder.path());
    assert_eq!(holder.hears().as_deref(), Some("held"));
    match store.open(&id(1)) {
        Err(StoreError::Locked { pid, .. }) => assert_eq!(pid, Some(holder.child.id())),
        other => panic!("a second process got {other:?}"),
    }
    assert!(store.read(&id(1)).is_ok(), "reading needs no lock");
    holder.kill();
    assert!(store.open(&id(1)).is_ok(), "the lock outlived its holder");
}

#[test]
fn files_and_folders_are_private_under_any_umask() {
    for umask in [0o000, 0o022, 0o077, 0o277] {
        let folder = quick_folder();
        let state = folder.path().join("a/b");
        let told = Other::start(&format!("{umask}"), &state).hears();
        assert_eq!(told.as_deref(), Some("done"), "umask {umask:o}");
        let mut seen = 0;
        let mut folders = vec![folder.path().join("a")];
        while let Some(path) = folders.pop() {
            assert_eq!(mode(&path), 0o700, "umask {umask:o}: {}", path.display());
            for entry in fs_err::read_dir(path).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    assert_eq!(mode(&path), 0o600, "umask {umask:o}: {}", path.display());
                    seen += 1;
                }
            }
        }
        assert_eq!(seen, 3, "a log, a lock and a torn end");
    }
}

fn mode(path: &Path) -> u32 {
    fs_err::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[tokio::test]
async fn the_lock_file_names_its_holder_and_stays() {
    let folder = quick_folder();
    let store = FileStore::new(folder.path());
    let session = Session::new(header(1));
    let writer = store.create(session.header()).unwrap();
    writer.flush().await.unwrap();
    let lock = store.log_path(&id(1)).unwrap().with_file_name("session.lock");
    assert_eq!(fs_err::read_to_string(&lock).unwrap(), format!("{}\n", std::process::id()));
    drop(writer);
    assert!(lock.exists(), "the lock file is never deleted");
    // A file that stands at the path only after ours was opened is not ours.
    let ours = fs_err::File::open(&lock).unwrap();
    assert!(is_at(&ours, &lock).unwrap());
    fs_err::rename(&lock, lock.with_extension("old")).unwrap();
    assert!(!is_at(&ours, &lock).unwrap());
    fs_err::write(&lock, b"").unwrap();
    assert!(!is_at(&ours, &lock).unwrap());
}
