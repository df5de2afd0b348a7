//! The child process `bridle acp`, as an editor starts it, and its orderly end.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio::process::{Child, ChildStdin, ChildStdout};

use super::sample::{KEY, MODEL, Sample};

/// How long the agent may take to exit once its input has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// The running agent.
pub(super) struct Server {
    child: Child,
}

/// How it ended.
pub(super) struct Ended {
    /// When.
    pub(super) at: Instant,
    /// Whether it exited with 0.
    pub(super) success: bool,
    /// Whether any process that it started is still there.
    pub(super) left_processes: bool,
}

impl Server {
    /// Starts the agent with a home of its own and the scripted model as its provider.
    pub(super) fn spawn(sample: &Sample, model_url: &str) -> anyhow::Result<Self> {
        // Orphans of the agent come back to this process, where they can be seen.
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .context("becoming the reaper of the agent's processes")?;
        let program = std::env::current_exe().context("the path of this program")?;
        #[expect(
            clippy::disallowed_methods,
            reason = "here Bridle is the client, which starts an agent as an editor does"
        )]
        let mut command = tokio::process::Command::new(program);
        command.arg("acp").current_dir(sample.workspace()).env_clear();
        if let Some(path) = std::env::var_os("PATH") {
            command.env("PATH", path);
        }
        command
            .env("BRIDLE_HOME", sample.home())
            .env("BRIDLE_MODEL", MODEL)
            .env("ANTHROPIC_API_KEY", KEY)
            .env("ANTHROPIC_BASE_URL", model_url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        Ok(Self { child: command.spawn().context("starting `bridle acp`")? })
    }

    /// The agent's output and input; once only.
    pub(super) fn pipes(&mut self) -> anyhow::Result<(ChildStdout, ChildStdin)> {
        let output = self.child.stdout.take().context("the agent's output")?;
        let input = self.child.stdin.take().context("the agent's input")?;
        Ok((output, input))
    }

    /// Waits for the end; the pipes must have been dropped.
    pub(super) async fn end(mut self) -> anyhow::Result<Ended> {
        let status = tokio::time::timeout(EXIT_LIMIT, self.child.wait())
            .await
            .with_context(|| format!("the agent did not exit within {EXIT_LIMIT:?}"))?
            .context("waiting for the agent")?;
        Ok(Ended { at: Instant::now(), success: status.success(), left_processes: has_children() })
    }
}

/// Whether this process has a living child; collects the dead ones.
fn has_children() -> bool {
    use rustix::process::{WaitOptions, wait};
    loop {
        match wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => return true,
            Err(_) => return false,
        }
    }
}
