//! A workspace, what lies around it, and a host process that runs confined commands there.

use std::io::Write as _;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bridle_world::sandbox::{Access, DEFAULT_PROCESSES, Network, Policy, Protected, Tier};

use crate::order::{Order, Outcome};
use crate::rig::probe;

/// Who runs the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// Whoever runs the tests.
    Own,
    /// Somebody without rights, when root runs the tests.
    Plain,
}

/// The users that the tests can be: as root, a plain one as well.
pub(super) const USERS: [User; 2] = [User::Own, User::Plain];

/// The number of the plain user and group.
const PLAIN: u32 = 1000;

/// Whether root runs the tests.
pub(super) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Folders for one test, outside of `/tmp`, because that is another one for a confined command.
pub(super) struct Place {
    user: User,
    _folder: tempfile::TempDir,
    /// The folder that holds the others.
    pub(super) base: PathBuf,
    pub(super) policy: Policy,
}

impl Place {
    /// A repository in `ws`, a file in `outside`, a key in `home/.ssh`.
    pub(super) fn new(user: User) -> Self {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let base = fs_err::canonicalize(folder.path()).unwrap();
        for name in ["ws", "outside", "records", "tmp", "home/.ssh", "home/cache"] {
            fs_err::create_dir_all(base.join(name)).unwrap();
        }
        fs_err::write(base.join("outside/file"), "as it was\n").unwrap();
        fs_err::write(base.join("home/.ssh/id"), "a key\n").unwrap();
        let policy = Policy {
            access: Access::WorkspaceWrite,
            roots: vec![base.join("ws")],
            writable: Vec::new(),
            protected: Protected::default(),
            masked: vec![base.join("home/.ssh")],
            temporary: Some(base.join("tmp")),
            network: Network::Off,
            processes: DEFAULT_PROCESSES,
            records: base.join("records"),
        };
        let place = Self { user, _folder: folder, base, policy };
        place.give(&place.base);
        place
    }

    pub(super) fn ws(&self) -> PathBuf {
        self.base.join("ws")
    }

    /// Makes the workspace a repository and looks for what is protected.
    pub(super) fn with_repository(mut self) -> Self {
        self.shell("git init -q . && git config user.email a@b && git config user.name a");
        self.look();
        self
    }

    /// Looks for what is protected now.
    pub(super) fn look(&mut self) {
        self.policy.protected = Protected::below(&self.ws()).unwrap();
    }

    /// Runs a command in the workspace, unconfined.
    pub(super) fn shell(&self, command: &str) -> String {
        let mut run = self.as_user("/bin/bash");
        run.args(["-c", command]).current_dir(self.ws()).env("HOME", self.base.join("home"));
        let output = run.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command}: {text}{errors}");
        text
    }

    /// Runs a command in the workspace, confined.
    pub(super) fn run(&self, at_most: Tier, command: &str) -> Outcome {
        self.run_with(&[], at_most, command)
    }

    /// The same with a host that is started by other programs.
    pub(super) fn run_with(&self, starters: &[&str], at_most: Tier, command: &str) -> Outcome {
        self.run_under(starters, self.policy.clone(), at_most, command)
    }

    /// The same under another policy.
    pub(super) fn run_under(
        &self,
        starters: &[&str],
        policy: Policy,
        at_most: Tier,
        command: &str,
    ) -> Outcome {
        let order =
            Order { at_most, policy, cwd: self.ws(), command: command.to_owned(), look: false };
        self.order(starters, &order)
    }

    /// Runs a command in the workspace, confined, after its own user has looked for what is
    /// protected.
    pub(super) fn look_and_run(&self, command: &str) -> Outcome {
        let (policy, command) = (self.policy.clone(), command.to_owned());
        let order = Order { at_most: Tier::Full, policy, cwd: self.ws(), command, look: true };
        self.order(&[], &order)
    }

    fn order(&self, starters: &[&str], order: &Order) -> Outcome {
        let probe = probe();
        let all: Vec<&str> = starters.iter().copied().chain(probe.to_str()).collect();
        let mut host = self.as_user(all[0]);
        host.args(&all[1..]);
        order_from(host, order, &self.base.join("home"))
    }

    /// A program that runs as this place's user.
    #[expect(clippy::disallowed_methods, reason = "a host of another user is a process of its own")]
    pub(super) fn as_user(&self, program: &str) -> Command {
        if self.user == User::Own || !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={PLAIN}"), &format!("--regid={PLAIN}"), "--clear-groups"]);
        command.arg(program);
        command
    }

    /// Makes everything at and below `path` this place's user's.
    pub(super) fn give(&self, path: &Path) {
        if self.user == User::Own || !is_root() {
            return;
        }
        chown(path, Some(PLAIN), Some(PLAIN)).unwrap();
        if path.is_dir() && !path.is_symlink() {
            for entry in fs_err::read_dir(path).unwrap() {
                self.give(&entry.unwrap().path());
            }
        }
    }
}

/// Has a host process run an order.
pub(super) fn order_from(mut host: Command, order: &Order, home: &Path) -> Outcome {
    let tools = std::env::var_os("RUSTUP_HOME").map(PathBuf::from);
    let tools = tools.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".rustup")));
    let mut child = host
        .arg("confined")
        .envs(tools.map(|tools| ("RUSTUP_HOME", tools)))
        .env("HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let order = serde_json::to_string(order).unwrap();
    child.stdin.take().unwrap().write_all(order.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}
