//! A throw-away workspace and home, and how a program is started in it.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;

use crate::limit::Limit;
use crate::processes::{self, Process};

/// A workspace, a home and a name for everything that runs in them. Removed when dropped.
pub struct Place {
    root: TempDir,
    mark: String,
    _limit: Limit,
}

/// What to start: a program of the [`Place`], its arguments and its whole environment.
#[derive(Clone, Debug)]
pub struct Launch {
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: PathBuf,
}

impl Place {
    /// An empty workspace beside an empty home.
    pub fn new() -> Self {
        let root = tempfile::Builder::new().prefix("bridle-test-").tempdir().expect("a folder");
        let mark = root.path().file_name().unwrap().to_string_lossy().into_owned();
        let place = Self { root, mark, _limit: Limit::new() };
        fs_err::create_dir(place.workspace()).unwrap();
        fs_err::create_dir(place.user_home()).unwrap();
        place
    }

    /// The canonical folder that sessions open.
    pub fn workspace(&self) -> PathBuf {
        self.canonical_root().join("workspace")
    }

    /// What `HOME` names.
    pub fn user_home(&self) -> PathBuf {
        self.canonical_root().join("home")
    }

    /// What `BRIDLE_HOME` names.
    pub fn bridle_home(&self) -> PathBuf {
        self.user_home().join("bridle")
    }

    /// The folder of stored sessions.
    pub fn sessions(&self) -> PathBuf {
        self.bridle_home().join("state/sessions")
    }

    /// A string that is in the environment and in the folder names of this place only.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Writes a file of the workspace, with its folders.
    pub fn write(&self, path: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.workspace().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, content).unwrap();
        path
    }

    /// Writes a file of Bridle's own folder, readable by its owner alone.
    pub fn configure(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.bridle_home().join(name);
        fs_err::create_dir_all(self.bridle_home()).unwrap();
        fs_err::write(&path, content).unwrap();
        fs_err::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        path
    }

    /// Waits until another process has made a file of the workspace.
    ///
    /// # Panics
    /// After a minute.
    pub async fn appears(&self, path: &str) {
        let wanted = self.workspace().join(path);
        let found = tokio::task::spawn_blocking(move || {
            crate::watch::until_exists(&wanted, Duration::from_secs(60))
        });
        assert!(found.await.unwrap(), "{path} does not appear");
    }

    /// The text of a file of the workspace.
    pub fn read(&self, path: &str) -> String {
        fs_err::read_to_string(self.workspace().join(path)).unwrap()
    }

    /// The binary under test with `args`, in the workspace, with a small clean environment and
    /// no key.
    pub fn launch<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Launch {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let launch = Launch {
            args: vec![crate::binary().into()],
            env: vec![("PATH".into(), path)],
            cwd: self.workspace(),
        };
        launch
            .args(args)
            .env("HOME", self.user_home())
            .env("BRIDLE_HOME", self.bridle_home())
            .env("BRIDLE_TEST_MARK", &self.mark)
    }

    /// `bridle acp` with a model at `url` and a key.
    pub fn acp(&self, url: &str) -> Launch {
        self.launch(["acp"]).model_at(url)
    }

    /// Every live process that works in this place or carries its mark.
    pub fn processes(&self) -> Vec<Process> {
        processes::marked(&self.canonical_root(), &self.mark)
    }

    /// Every file below the home, for searches.
    pub fn stored_files(&self) -> Vec<PathBuf> {
        files_below(&self.user_home())
    }

    fn canonical_root(&self) -> PathBuf {
        fs_err::canonicalize(self.root.path()).unwrap()
    }
}

impl Default for Place {
    fn default() -> Self {
        Self::new()
    }
}

impl Launch {
    /// Appends arguments.
    pub fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self = self.without(name);
        self.env.push((name.into(), value.as_ref().to_owned()));
        self
    }

    /// Starts another program with the same arguments and environment.
    pub fn replacing_program(mut self, program: impl Into<OsString>) -> Self {
        self.args[0] = program.into();
        self
    }

    /// Removes a variable.
    pub fn without(mut self, name: &str) -> Self {
        self.env.retain(|(known, _)| known != name);
        self
    }

    /// The provider's variables: a model server and a key that it accepts.
    pub fn model_at(self, url: &str) -> Self {
        self.env("ANTHROPIC_BASE_URL", url).env("ANTHROPIC_API_KEY", "key-of-the-test")
    }

    /// Starts elsewhere.
    pub fn cwd(mut self, cwd: impl Into<PathBuf>) -> Self {
        self.cwd = cwd.into();
        self
    }

    /// Puts another program in front, which ends with `exec "$@"` or the like.
    pub fn through<S: AsRef<OsStr>>(mut self, front: impl IntoIterator<Item = S>) -> Self {
        let mut args: Vec<OsString> =
            front.into_iter().map(|arg| arg.as_ref().to_owned()).collect();
        args.append(&mut self.args);
        self.args = args;
        self
    }

    /// The command, with all three streams as pipes.
    #[expect(clippy::disallowed_methods, reason = "the tests start programs as an editor would")]
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.args[0]);
        command
            .args(&self.args[1..])
            .env_clear()
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(&self.cwd)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    /// Runs to the end with this on stdin.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn output_of(&self, input: &str) -> std::process::Output {
        use tokio::io::AsyncWriteExt as _;
        let mut child = self.command().spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("it is a pipe");
        // A program that does not read its input may be gone already.
        drop(stdin.write_all(input.as_bytes()).await);
        drop(stdin);
        let ended = tokio::time::timeout(crate::DEADLINE, child.wait_with_output()).await;
        ended.expect("the program ends in time").expect("it can be waited for")
    }

    /// Runs to the end with an empty stdin.
    ///
    /// # Panics
    /// When it does not end in time.
    pub async fn output(&self) -> std::process::Output {
        let running = self.command().stdin(Stdio::null()).output();
        let ended = tokio::time::timeout(crate::DEADLINE, running).await;
        ended.expect("the program ends in time").expect("the program starts")
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs_err::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            found.extend(files_below(&entry.path()));
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    found
}
