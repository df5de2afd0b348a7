//! `bridle exec`: one prompt without an editor, through the same server, in this process.
//!
//! There is nobody to ask, so a call that needs a permission is denied; `--permissions` says
//! beforehand what may run. The answer is the model's last message; everything before it is
//! progress.

mod report;

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use bridle_agent::Mode;
use bridle_model::Effort;
use bridle_session::{EventData, SessionId, ToolErrorCode};
use clap::Args;
use tokio_util::sync::CancellationToken;

use super::{Exit, say, signals};
use crate::client::{Client, ClientError};
use crate::composition::App;
use crate::config::{Overrides, route_fault};
use crate::text;
use report::Report;

/// The pipe between client and server, in bytes each way.
const PIPE_BYTES: usize = 64 << 10;

/// The longest prompt taken from standard input, in bytes.
const MAX_PROMPT_BYTES: u64 = 16 << 20;

/// What `exec` is told.
#[derive(Debug, Args)]
pub struct ExecArguments {
    /// What to do; `-` reads it from standard input.
    prompt: String,
    /// Print one JSON event a line on standard output instead of the answer.
    #[arg(long)]
    json: bool,
    /// What may run without a question: read-only, plan, ask, auto or full-access. Nobody can
    /// answer, so where a mode would ask, the answer is no.
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    permissions: Option<Mode>,
    /// The model, as provider/model.
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// How hard the model is to think: off, low, medium, high, xhigh or max.
    #[arg(long, value_name = "LEVEL", value_parser = super::parse_level)]
    thinking: Option<Effort>,
    /// The folder to work in, instead of the current one.
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

impl ExecArguments {
    pub(super) fn overrides(&self) -> Overrides {
        Overrides { model: self.model.clone(), thinking: self.thinking, mode: self.permissions }
    }

    fn prompt_text(&self) -> anyhow::Result<String> {
        if self.prompt != "-" {
            return Ok(self.prompt.clone());
        }
        let mut text = String::new();
        let read = std::io::stdin().lock().take(MAX_PROMPT_BYTES + 1).read_to_string(&mut text);
        let read = read.context("the prompt on standard input")?;
        anyhow::ensure!(
            read as u64 <= MAX_PROMPT_BYTES,
            "the prompt on standard input is larger than {MAX_PROMPT_BYTES} bytes"
        );
        Ok(text)
    }
}

fn parse_mode(id: &str) -> Result<Mode, String> {
    Mode::from_id(id).ok_or_else(|| format!("modes are {}", Mode::ALL.map(Mode::id).join(", ")))
}

/// Runs one prompt. What is wrong with the arguments is said on standard error.
pub(super) async fn run(app: Arc<App>, arguments: ExecArguments) -> anyhow::Result<Exit> {
    if arguments.permissions == Some(Mode::FullAccess) && !app.settings().full_access {
        say(format_args!(
            "bridle: mode full-access is off; write full_access = true in config.toml to enable it"
        ));
        return Ok(Exit::Usage);
    }
    // The session would be of no use: another model than the one asked for never answers.
    if let Some(fault) = app.settings().route.as_ref().and_then(route_fault) {
        let (source, exit) = match arguments.model {
            Some(_) => ("--model: ", Exit::Usage),
            None => ("", Exit::Failed),
        };
        say(format_args!("bridle: {source}{fault}"));
        return Ok(exit);
    }
    let prompt = arguments.prompt_text()?;
    if prompt.trim().is_empty() {
        say(format_args!("bridle: the prompt is empty"));
        return Ok(Exit::Usage);
    }
    let cwd = arguments.cwd.clone().unwrap_or_else(|| PathBuf::from("."));
    let cwd = match fs_err::canonicalize(&cwd) {
        Ok(cwd) => cwd,
        Err(error) => {
            say(format_args!("bridle: --cwd: {error}"));
            return Ok(Exit::Usage);
        }
    };
    let stop = signals::stop_token(app.tasks())?;
    let job = Job { prompt, cwd, json: arguments.json };
    let mut out = std::io::stdout();
    let exit = job.run(Arc::clone(&app), &stop, &mut out, &mut std::io::stderr()).await;
    app.close().await;
    exit
}

/// One prompt with everything it needs.
struct Job {
    prompt: String,
    cwd: PathBuf,
    json: bool,
}

impl Job {
    async fn run(
        self,
        app: Arc<App>,
        stop: &CancellationToken,
        out: &mut (dyn Output + '_),
        progress: &mut (dyn std::io::Write + Send),
    ) -> anyhow::Result<Exit> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let (input, output) = tokio::io::split(far);
        let server = app.tasks().spawn(crate::acp::serve(Arc::clone(&app), input, output));
        let (input, output) = tokio::io::split(near);
        let mut client = Client::new(input, output);

        let terminal = out.is_terminal();
        let mut report = Report::new(self.json, out, progress);
        let result = self.converse(&mut client, &mut report, stop).await;
        // The end of our input is what ends the server, also in the middle of a turn.
        client.close().await?;
        server.await.context("the server panicked")??;

        let denied = match &result {
            Ok(_) => denied_calls(app, report.session_id()).await,
            Err(_) => Ok(0),
        };
        let exit = denied.as_ref().map_or(Exit::Failed, |denied| exit_of(&result, *denied));
        report.finish(&result, *denied.as_ref().unwrap_or(&0), exit, |answer| {
            if terminal { text::visible_block(answer).into_owned() } else { answer.into() }
        })?;
        // The answer is out; a log that cannot be read is said behind it.
        denied.map(|_| exit)
    }

    async fn converse(
        &self,
        client: &mut Client,
        report: &mut Report<'_>,
        stop: &CancellationToken,
    ) -> Result<String, ClientError> {
        client.initialize(report).await?;
        let session = client.new_session(&self.cwd, report).await?;
        report.opened(&session)?;
        client.prompt(&session, &self.prompt, report, stop).await
    }
}

/// Where the answer goes.
trait Output: std::io::Write + Send {
    /// Whether a person's terminal reads it.
    fn is_terminal(&self) -> bool;
}

impl Output for std::io::Stdout {
    fn is_terminal(&self) -> bool {
        std::io::IsTerminal::is_terminal(self)
    }
}

/// How many calls of the session were refused, by its mode or because nobody could answer a
/// question. The protocol says only that a call failed; the log says why.
async fn denied_calls(app: Arc<App>, session: &str) -> anyhow::Result<usize> {
    let id = SessionId::parse(session).context("the session's id")?;
    let log = tokio::task::spawn_blocking(move || app.store().read(&id));
    let log = log.await?.context("the session's log")?;
    let results = log.session.events().iter().filter_map(|event| match &event.data {
        EventData::ToolResult(result) => Some(result),
        _ => None,
    });
    Ok(results.filter(|result| result.error == Some(ToolErrorCode::Denied)).count())
}

/// How the process ends. A refused call counts as blocked even when the model went on and
/// finished: what was asked for is then probably not done.
fn exit_of(result: &Result<String, ClientError>, denied: usize) -> Exit {
    match result.as_deref() {
        Ok("end_turn") if denied == 0 => Exit::Done,
        Ok("end_turn" | "refusal" | "max_turn_requests") => Exit::Blocked,
        Ok("cancelled") => Exit::Cancelled,
        Ok(_) | Err(_) => Exit::Failed,
    }
}

#[cfg(test)]
mod tests;
