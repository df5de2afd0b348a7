//! Commands under a supervisor: start, watch, cap, end.
//!
//! The one place of the agent from which processes start.
//! Each command gets a supervisor of its own (`supervisor`), an allow-listed environment, no
//! terminal (unless it is a shell for one) and no input. A call is over when the command's own process has
//! ended, never when its output does: a background process that holds the pipe is given a moment and then
//! ended.

mod call;
mod capture;
mod credential;
mod dialogue;
mod ended;
mod environment;
mod launcher;
mod login;
mod running;
mod spool;
mod terminal;

use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bridle_compose::{Clock, SystemClock};
use tokio::sync::OnceCell;
use tokio_util::sync::CancellationToken;

pub use capture::{Capture, HEAD_LIMIT, Since, TAIL_LIMIT};
pub use credential::{CredentialError, run_for_credential};
pub use dialogue::{Dialogue, ServerSpec};
pub use ended::{Finished, ProcessError};
pub use environment::Environment;
pub use login::SearchPath;
pub use running::Running;
pub use spool::{SPOOL_LIMIT, Spooled};
pub use terminal::Terminal;

use crate::sandbox::confine::Confinement;
use crate::sandbox::{Lookout, Policy, Sandbox, Tier};
use crate::supervisor::protocol::Request;
use launcher::Launcher;

/// How long a command may run when nobody said otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a command may run at most.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(600);

/// How long a command may take that only tries what can be enforced.
const CANARY_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs commands of this host. Cheap to clone.
#[derive(Clone)]
pub struct Processes {
    shared: Arc<Shared>,
}

struct Shared {
    launcher: Arc<Launcher>,
    shell: &'static str,
    environment: Environment,
    clock: Arc<dyn Clock>,
    /// Asked for once, when the first command is run.
    search_path: OnceCell<SearchPath>,
    /// Tried out once, when the first command is confined.
    sandbox: OnceCell<Sandbox>,
    /// The strongest walls that are tried.
    at_most: Tier,
    lookout: Lookout,
}

/// A command to run.
#[derive(Clone, Debug)]
pub struct CommandSpec {
    /// What the shell is to do (`bash` where there is one, otherwise `sh`).
    pub command: String,
    /// The absolute folder it runs in.
    pub cwd: PathBuf,
    /// How long it may run; for ever without it.
    pub timeout: Option<Duration>,
    /// An empty file for output of which not all is kept in memory, up to [`SPOOL_LIMIT`].
    pub spool: Option<Arc<File>>,
    /// What it may do; without one it has the rights of this process.
    pub confinement: Option<Policy>,
}

impl Processes {
    /// Commands run under `supervisor`: the absolute path of a program whose `main` calls
    /// [`crate::supervisor::run_if_requested`], normally [`Processes::THIS_BINARY`]. They see
    /// `environment` and nothing else of this process's variables.
    pub fn new(supervisor: PathBuf, environment: Environment) -> Self {
        Self::with_clock(supervisor, environment, Arc::new(SystemClock))
    }

    /// As [`Processes::new`], with time-outs measured by `clock`.
    pub fn with_clock(
        supervisor: PathBuf,
        environment: Environment,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let shell = if Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
        let launcher = Arc::new(Launcher::new(supervisor));
        let (search_path, sandbox) = (OnceCell::new(), OnceCell::new());
        let lookout = Lookout::of_user(environment.value("HOME").map(PathBuf::from));
        let shared = Shared {
            launcher,
            shell,
            environment,
            clock,
            search_path,
            sandbox,
            at_most: Tier::Full,
            lookout,
        };
        Self { shared: Arc::new(shared) }
    }

    /// The same with no stronger walls than those of `tier`, whatever this machine can do: for a
    /// user whose system lets namespaces be made but not be used, and for tests.
    #[must_use]
    pub fn confined_at_most(&self, tier: Tier) -> Self {
        let Shared { launcher, shell, environment, clock, .. } = &*self.shared;
        let clock = Arc::clone(clock);
        let mut limited =
            Self::with_clock(launcher.program().to_owned(), environment.clone(), clock);
        if let Some(shared) = Arc::get_mut(&mut limited.shared) {
            (shared.shell, shared.at_most) = (shell, tier);
        }
        limited
    }

    /// The running binary itself, also after the file was replaced by another version.
    pub const THIS_BINARY: &str = "/proc/self/exe";

    /// Runs a command to its end. On a time-out, and when `token` is cancelled, every process it
    /// started gets SIGTERM and soon after SIGKILL. `on_output` sees what has been captured so
    /// far, at most ten times a second and always after the last output.
    ///
    /// # Errors
    /// [`ProcessError`] when the command could not be run. A non-zero exit is not an error.
    ///
    /// # Cancel safety
    /// Dropping the future ends every process of the command, without waiting for it.
    pub async fn run(
        &self,
        spec: CommandSpec,
        token: CancellationToken,
        on_output: impl FnMut(&Capture) + Send,
    ) -> Result<Finished, ProcessError> {
        match self.start(spec, &token).await? {
            Some(running) => running.finish(token, on_output).await,
            None => Ok(Finished::not_started()),
        }
    }

    /// Starts a command; `None` when `token` was cancelled before. What it is refused for may show
    /// only while it is followed.
    ///
    /// # Errors
    /// As for [`Processes::run`].
    ///
    /// # Cancel safety
    /// As for [`Processes::run`].
    pub async fn start(
        &self,
        spec: CommandSpec,
        token: &CancellationToken,
    ) -> Result<Option<Running>, ProcessError> {
        let Some(request) = self.request(spec.cwd, spec.confinement, token).await? else {
            return Ok(None);
        };
        let arguments = vec![OsString::from("-c"), spec.command.into()];
        let running = self.begin(Request { arguments, ..request }, None).await?;
        Ok(Some(Running { timeout: spec.timeout, spool: spec.spool, ..running }))
    }

    /// Starts an interactive bash with a terminal of its own; `None` as for [`Processes::start`]. What
    /// it writes comes out of the terminal and is not captured.
    ///
    /// # Errors
    /// As for [`Processes::run`].
    ///
    /// # Cancel safety
    /// As for [`Processes::run`].
    pub async fn terminal(
        &self,
        cwd: PathBuf,
        confinement: Option<Policy>,
        token: &CancellationToken,
    ) -> Result<Option<(Running, Terminal)>, ProcessError> {
        let Some(request) = self.request(cwd, confinement, token).await? else { return Ok(None) };
        let (terminal, path) = Terminal::open().map_err(call::failure)?;
        let request = Request {
            program: "/bin/bash".into(),
            // Nothing of a person's own: no profile, no history of keys, no editing of lines.
            arguments: ["--noprofile", "--norc", "--noediting", "-i"].map(Into::into).into(),
            terminal: Some(path),
            ..request
        };
        Ok(Some((self.begin(request, None).await?, terminal)))
    }

    /// Starts a program that is spoken with; `None` as for [`Processes::start`]. What it writes to its
    /// standard error is its captured output.
    ///
    /// # Errors
    /// As for [`Processes::run`].
    ///
    /// # Cancel safety
    /// As for [`Processes::run`].
    pub async fn server(
        &self,
        spec: ServerSpec,
        token: &CancellationToken,
    ) -> Result<Option<(Running, Dialogue)>, ProcessError> {
        let Some(request) = self.request(spec.cwd, spec.confinement, token).await? else {
            return Ok(None);
        };
        let (dialogue, theirs) = Dialogue::open().map_err(call::failure)?;
        let mut environment = request.environment;
        environment.retain(|(name, _)| spec.environment.iter().all(|(own, _)| own != name));
        environment.extend(spec.environment);
        let request =
            Request { program: spec.program, arguments: spec.arguments, environment, ..request };
        Ok(Some((self.begin(request, Some(theirs)).await?, dialogue)))
    }

    /// What all commands have in common: the shell, without arguments yet.
    async fn request(
        &self,
        cwd: PathBuf,
        policy: Option<Policy>,
        token: &CancellationToken,
    ) -> Result<Option<Request>, ProcessError> {
        let confinement = match policy {
            Some(policy) => Some(self.confinement(policy).await?),
            None => None,
        };
        let Some(path) = self.search_path(token).await else { return Ok(None) };
        let environment = self.shared.environment.clone().with("PATH", &path.value);
        Ok(Some(Request {
            program: self.shared.shell.into(),
            arguments: Vec::new(),
            cwd: cwd.into(),
            environment: with_temporary(environment, confinement.as_ref()).variables().to_vec(),
            confinement,
            terminal: None,
        }))
    }

    async fn begin(
        &self,
        request: Request,
        dialogue: Option<[OwnedFd; 2]>,
    ) -> Result<Running, ProcessError> {
        let before = running::look_before(&request).await?;
        let clock = Arc::clone(&self.shared.clock);
        let call = call::Call::start(&self.shared.launcher, request, dialogue, clock).await?;
        let lookout = self.shared.lookout.clone();
        Ok(Running { call, timeout: None, spool: None, before, lookout })
    }

    /// Ends the launcher, which stays between commands, and waits for its end if that comes soon.
    /// Another command starts another.
    ///
    /// # Cancel safety
    /// When it is dropped, that ends in the background.
    pub async fn close(&self) {
        self.shared.launcher.close(&*self.shared.clock).await;
    }

    /// What confines commands on this machine. Tried out when it is asked for the first time.
    ///
    /// # Cancel safety
    /// When dropped, it is tried again the next time.
    pub async fn sandbox(&self) -> &Sandbox {
        self.shared
            .sandbox
            .get_or_init(|| Box::pin(Sandbox::probe(self, self.shared.at_most)))
            .await
    }

    /// How far commands can be confined on this machine, if that was found out already.
    pub fn known_tier(&self) -> Option<Tier> {
        self.shared.sandbox.get().map(Sandbox::tier)
    }

    /// Finds what is protected where commands run, and is asked again when they have ended.
    pub fn lookout(&self) -> &Lookout {
        &self.shared.lookout
    }

    /// The policy and what it is put in force with.
    async fn confinement(&self, policy: Policy) -> Result<Confinement, ProcessError> {
        let sandbox = self.sandbox().await;
        match sandbox.walls() {
            Some(walls) => Ok(Confinement::new(policy, walls)),
            None => {
                let reason = sandbox.cause().unwrap_or_default().to_owned();
                Err(ProcessError::Sandbox { reason })
            }
        }
    }

    /// Runs a command of Bridle's own with walls that have not been tried.
    pub(crate) async fn run_confined(
        &self,
        command: &str,
        cwd: &Path,
        confinement: Confinement,
    ) -> Result<Finished, ProcessError> {
        let environment = Environment::from_variables([]);
        let request = Request {
            program: self.shared.shell.into(),
            arguments: vec![OsString::from("-c"), command.into()],
            cwd: cwd.into(),
            environment: environment.variables().to_vec(),
            confinement: Some(confinement),
            terminal: None,
        };
        let clock = Arc::clone(&self.shared.clock);
        let call = call::Call::start(&self.shared.launcher, request, None, clock).await?;
        let lookout = self.shared.lookout.clone();
        let timeout = Some(CANARY_TIMEOUT);
        let running = Running { call, timeout, spool: None, before: None, lookout };
        running.finish(CancellationToken::new(), |_| ()).await
    }

    /// Where commands look for programs. Asks the user's login shell when it is wanted for the
    /// first time; `None` when `token` is cancelled before that is known.
    ///
    /// # Cancel safety
    /// As for [`Processes::run`].
    pub async fn search_path(&self, token: &CancellationToken) -> Option<SearchPath> {
        let found = self.shared.search_path.get_or_try_init(|| login::ask(&self.shared, token));
        match found.await {
            Ok(path) if !token.is_cancelled() => Some(path.clone()),
            _ => None,
        }
    }
}

/// With the name of the folder that is the command's own for temporary files.
fn with_temporary(environment: Environment, confinement: Option<&Confinement>) -> Environment {
    match confinement.and_then(Confinement::temporary) {
        Some(folder) => environment.with("TMPDIR", folder),
        None => environment,
    }
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processes").field("supervisor", &self.shared.launcher.program()).finish()
    }
}
