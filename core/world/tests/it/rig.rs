//! What the tests share: a rig with a marked environment, gates as barriers, the process table.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use bridle_compose::{Clock, Sleep, SystemClock};
use bridle_world::process::{
    CommandSpec, DEFAULT_TIMEOUT, Environment, Finished, ProcessError, Processes,
};
use bridle_world::sandbox::{Access, DEFAULT_PROCESSES, Network, Policy, Protected, Tier};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The variable that marks every process of one rig.
pub(crate) const MARK: &str = "BRIDLE_TEST_MARK";

/// The probe, which can be a supervisor.
pub(crate) fn probe() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_bridle-world-probe"))
}

/// A folder, processes that work in it, and a mark by which their descendants are found.
pub(crate) struct Rig {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) mark: String,
    pub(crate) processes: Processes,
    pub(crate) clock: HeldClock,
    pub(crate) confinement: Option<Policy>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::supervised_by(probe())
    }

    /// One whose commands are not confined, and one for each way to confine them.
    pub(crate) fn each() -> [Self; 3] {
        [Self::new(), Self::confined(Tier::Full), Self::confined(Tier::Landlock)]
    }

    pub(crate) fn confined(tier: Tier) -> Self {
        let mut rig = Self::new();
        rig.processes = rig.processes.confined_at_most(tier);
        let folder = fs_err::canonicalize(rig.folder.path()).unwrap();
        rig.confinement = Some(Policy {
            access: Access::WorkspaceWrite,
            roots: vec![folder.clone()],
            writable: Vec::new(),
            protected: Protected::default(),
            masked: Vec::new(),
            temporary: None,
            network: Network::Off,
            processes: DEFAULT_PROCESSES,
            records: folder,
        });
        rig
    }

    pub(crate) fn supervised_by(supervisor: PathBuf) -> Self {
        Self::with(supervisor, [])
    }

    /// Commands of a user who has these variables.
    pub(crate) fn of_user<const N: usize>(variables: [(&str, &str); N]) -> Self {
        Self::with(probe(), variables)
    }

    fn with<const N: usize>(supervisor: PathBuf, variables: [(&str, &str); N]) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("mark-{}-{count}-", std::process::id());
        let variables = variables.map(|(name, value)| (OsString::from(name), value.into()));
        let environment = Environment::from_variables(variables).with(MARK, &mark);
        let clock = HeldClock::new();
        let processes = Processes::with_clock(supervisor, environment, Arc::new(clock.clone()));
        Self { folder: tempfile::tempdir().unwrap(), mark, processes, clock, confinement: None }
    }

    pub(crate) fn spec(&self, command: &str) -> CommandSpec {
        CommandSpec {
            command: command.to_owned(),
            cwd: self.folder.path().to_owned(),
            timeout: Some(DEFAULT_TIMEOUT),
            spool: None,
            confinement: self.confinement.clone(),
        }
    }

    pub(crate) async fn run(&self, command: &str) -> Result<Finished, ProcessError> {
        self.processes.run(self.spec(command), CancellationToken::new(), |_| ()).await
    }

    /// Makes a named pipe in the folder.
    pub(crate) fn gate(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        mknodat(CWD, &path, FileType::Fifo, Mode::RWXU, 0).unwrap();
        path
    }

    /// The processes alive now that carry this rig's mark.
    pub(crate) fn marked(&self) -> Vec<String> {
        let lines = self.folders_of_marked().map(|folder| {
            let line = fs_err::read(folder.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).replace('\0', " ")
        });
        lines.collect()
    }

    fn folders_of_marked(&self) -> impl Iterator<Item = PathBuf> + use<> {
        let wanted = format!("{MARK}={}", self.mark);
        let entries = fs_err::read_dir("/proc").unwrap().flatten();
        entries.map(|entry| entry.path()).filter(move |folder| {
            let environment = fs_err::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == wanted.as_bytes())
        })
    }
}

impl Drop for Rig {
    /// A test that found survivors leaves none itself.
    fn drop(&mut self) {
        let numbers = self.folders_of_marked().filter_map(|folder| {
            let number = folder.file_name()?.to_str()?.parse().ok()?;
            rustix::process::Pid::from_raw(number)
        });
        for number in numbers {
            rustix::process::kill_process(number, rustix::process::Signal::KILL).ok();
        }
    }
}

/// Output as text, unchanged.
pub(crate) fn text(finished: &Finished) -> String {
    finished.output.text(str::to_owned)
}

/// The real clock, except that a time-out comes when the test says so.
#[derive(Clone)]
pub(crate) struct HeldClock(Arc<Semaphore>);

impl HeldClock {
    fn new() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }

    /// Lets one time-out pass.
    pub(crate) fn time_out(&self) {
        self.0.add_permits(1);
    }
}

impl Clock for HeldClock {
    fn now(&self) -> SystemTime {
        SystemClock.now()
    }

    fn sleep(&self, duration: Duration) -> Sleep {
        if duration != DEFAULT_TIMEOUT {
            return SystemClock.sleep(duration);
        }
        let permits = Arc::clone(&self.0);
        Box::pin(async move { permits.acquire_owned().await.unwrap().forget() })
    }
}

/// Reads a gate: blocks until a writer opens it, then line by line. `None` once every process
/// that holds its other end is gone.
pub(crate) struct GateReader(BufReader<fs_err::File>);

impl GateReader {
    pub(crate) fn open(path: &Path) -> Self {
        Self(BufReader::new(fs_err::File::open(path).unwrap()))
    }

    pub(crate) fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        (self.0.read_line(&mut line).unwrap() > 0).then(|| line.trim_end().to_owned())
    }
}
