//! `bridle demo`: the whole job without any key, and the proof that it happened.
//!
//! A scripted model serves HTTP on this machine, `bridle acp` runs as a child process, and this
//! process is its ACP client. Everything between the two ends is real: the tools, the workspace,
//! the permission, the log on disk. Afterwards the disk is checked, not the agent's word.

mod checks;
mod sample;
mod server;
mod transcript;

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use tokio_util::sync::CancellationToken;

use super::Exit;
use crate::client::Client;
use checks::Outcome;
use sample::Sample;
use server::{Ended, Server};
use transcript::Transcript;

/// Runs the demo; its folder stays for whoever wants to look at it.
pub(super) async fn run() -> anyhow::Result<Exit> {
    let sample = Sample::create().context("the sample workspace")?;
    let model = bridle_model_server::ModelServer::start(sample::script())
        .await
        .context("the scripted model")?;
    let mut transcript = Transcript::new(io::stdout());
    transcript.title("Bridle demo: a client, the agent and a scripted model")?;
    transcript.fact("model", &format!("scripted, on {}", model.url()))?;
    transcript.fact("folder", &sample.workspace().display().to_string())?;

    let mut server = Server::spawn(&sample, &model.url())?;
    let (input, output) = server.pipes()?;
    let conversation = converse(Client::new(input, output), &sample, &mut transcript).await;
    let ended = server.end().await;
    let violations = model.violations();
    model.stop().await;

    let (session, times) = conversation?;
    let log = sample.store().log_path(&session).context("the session's log")?;
    transcript.title("On disk")?;
    transcript.fact("session", session.as_str())?;
    transcript.fact("log", &log.display().to_string())?;
    transcript.fact("times", &times.line(ended.as_ref().ok()))?;
    transcript.title("Checks")?;
    let outcome = Outcome { sample: &sample, transcript: &transcript, session, ended, violations };
    let checks = outcome.checks();
    let failed = checks.iter().filter(|check| check.fault.is_some()).count();
    for check in &checks {
        transcript.check(check.name, check.fault.as_deref())?;
    }
    transcript.title("Next")?;
    next_steps(&mut transcript, &sample)?;
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

/// How long the parts took.
struct Times {
    initialize: Duration,
    new_session: Duration,
    turn: Duration,
    /// When the agent's input was closed.
    closed: Instant,
}

impl Times {
    fn line(&self, ended: Option<&Ended>) -> String {
        let exit = ended.map_or_else(
            || "failed".to_owned(),
            |ended| format!("{:.1?}", ended.at.saturating_duration_since(self.closed)),
        );
        format!(
            "start and initialize {:.1?}, new session {:.1?}, turn {:.1?}, exit {exit}",
            self.initialize, self.new_session, self.turn
        )
    }
}

/// The client's part: one session, one prompt, then the end of the input.
async fn converse<W: Write + Send>(
    mut client: Client,
    sample: &Sample,
    transcript: &mut Transcript<W>,
) -> anyhow::Result<(bridle_session::SessionId, Times)> {
    let start = Instant::now();
    client.initialize(transcript).await.context("initialize")?;
    let initialize = start.elapsed();
    let start = Instant::now();
    let session =
        client.new_session(sample.workspace(), transcript).await.context("session/new")?;
    let new_session = start.elapsed();
    transcript.title("Prompt")?;
    transcript.prompt(sample::PROMPT)?;
    let start = Instant::now();
    let never = CancellationToken::new();
    let stop = client.prompt(&session, sample::PROMPT, transcript, &never).await;
    let turn = start.elapsed();
    transcript.end_of_turn(&stop.context("session/prompt")?)?;
    let closed = Instant::now();
    client.close().await.context("the end of the connection")?;
    let session = bridle_session::SessionId::parse(&session).context("the session's id")?;
    Ok((session, Times { initialize, new_session, turn, closed }))
}

fn next_steps<W: Write>(transcript: &mut Transcript<W>, sample: &Sample) -> anyhow::Result<()> {
    let program = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("bridle"));
    let program = program.display();
    let home = sample.home();
    let home = home.display();
    transcript.fact("read the log", &format!("BRIDLE_HOME={home} {program} sessions list"))?;
    transcript.fact("remove all this", &format!("rm -r {}", sample.folder().display()))?;
    transcript.fact("check your own", &format!("{program} doctor"))?;
    transcript.fact(
        "in Zed",
        &format!(
            "settings.json: {{\"agent_servers\": {{\"Bridle\": {{\"type\": \"custom\", \
             \"command\": \"{program}\", \"args\": [\"acp\"], \
             \"env\": {{\"ANTHROPIC_API_KEY\": \"…\"}}}}}}}}"
        ),
    )?;
    transcript.fact("other editors", "editor-configs/ in the source holds one file for each")?;
    Ok(())
}
