//! What a person can type: one file per command, and how each ends.
//!
//! Parses the command line, sets up tracing and the runtime, and runs one command. Standard
//! output belongs to the command's result (for `acp`: to the protocol); everything else goes to
//! standard error.

mod acp;
mod config;
#[cfg(feature = "demo")]
mod demo;
mod diagnostics;
mod doctor;
mod exec;
mod login;
mod lsp;
mod mcp;
mod models;
mod sessions;
mod signals;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::sync::Arc;

use bridle_model::Effort;
use clap::{Parser, Subcommand};

use crate::composition::App;
use crate::config::{Environment, Overrides};

pub use exec::ExecArguments;

/// The worker threads of the runtime. A session is one task, and what blocks runs elsewhere.
const WORKERS: usize = 2;

/// The most threads for blocking work: the disk, searches, standard input.
const MAX_BLOCKING_THREADS: usize = 32;

/// After how many steps of tasks a worker looks whether something came from outside, if it is busy. A step
/// may take milliseconds: that of a long request. A client that asks or cancels waits for this.
const EVENT_INTERVAL: u32 = 3;

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the model, the session or the machine failed, or an answer was cut at its limit
  2    the command line is wrong
  3    the model refused, a limit stopped the turn, or a call was not permitted: the mode
       forbids it, or it needed an answer and there is nobody to give one (exec)
  130  cancelled

Files: config.toml and credentials.toml in $BRIDLE_HOME or the platform's configuration folder
(`bridle config path`). BRIDLE_LOG=debug writes a trace to standard error.";

/// A coding agent that editors and programs drive over the Agent Client Protocol.
#[derive(Debug, Parser)]
#[command(name = "bridle", version, after_help = EXIT_CODES, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Serve an ACP client on standard input and output; this is what an editor starts.
    Acp {
        /// The model of new sessions, as provider/model.
        #[arg(long, value_name = "PROVIDER/MODEL")]
        model: Option<String>,
        /// The thinking level of new sessions: off, low, medium, high, xhigh or max.
        #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
        thinking: Option<Effort>,
        #[command(subcommand)]
        action: Option<AcpAction>,
    },
    /// Do one thing without an editor: answer on standard output, progress on standard error.
    #[command(after_help = EXIT_CODES)]
    Exec(ExecArguments),
    /// Show the whole job without any key, against a scripted model on this machine.
    #[cfg(feature = "demo")]
    Demo,
    /// Keep the key of a model provider; it is read from the terminal or from a pipe.
    Login(login::Arguments),
    /// Remove the key of a model provider from credentials.toml.
    Logout(login::Arguments),
    /// List the models with their limits, thinking levels and prices.
    Models(models::Arguments),
    /// Look at stored sessions.
    #[command(subcommand)]
    Sessions(sessions::Action),
    /// Look at the MCP servers of the configuration.
    #[command(subcommand)]
    Mcp(mcp::Action),
    /// Look at the language servers.
    #[command(subcommand)]
    Lsp(lsp::Action),
    /// Look at the configuration.
    #[command(subcommand)]
    Config(config::Action),
    /// Check that this installation can work.
    Doctor,
}

/// What an editor may run instead, with the command line that it is configured with.
#[derive(Debug, Subcommand)]
enum AcpAction {
    /// The same as `bridle login`.
    Login(login::Arguments),
}

/// How a command ended; the numbers are promised in `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// It did what was asked.
    Done = 0,
    /// Something failed, and standard error says what.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// Refused by the model, stopped by a limit, or short of a permission.
    Blocked = 3,
    /// A person stopped it.
    Cancelled = 130,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Last words on standard error, for failures before there is any command.
pub fn give_up(error: &dyn std::fmt::Display) -> ExitCode {
    say(format_args!("bridle: {error}"));
    Exit::Failed.into()
}

/// One line on standard error. It has no other reader than a person, so its failure is ignored.
fn say(line: std::fmt::Arguments<'_>) {
    drop(writeln!(io::stderr(), "{line}"));
}

fn parse_level(id: &str) -> Result<Effort, String> {
    let known = || format!("levels are {}", Effort::ALL.map(Effort::id).join(", "));
    Effort::from_id(id).ok_or_else(known)
}

/// Parses the command line and runs one command to its end.
pub fn main(arguments: impl IntoIterator<Item = OsString>, environment: Environment) -> ExitCode {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Done };
            // Help that nobody can read is no failure of the program.
            drop(error.print());
            return exit.into();
        }
    };
    diagnostics::start(environment.text("BRIDLE_LOG"));
    match run(arguments.command, environment) {
        Ok(exit) => exit.into(),
        // The reader of our output went away, as in `bridle sessions list | head -1`.
        Err(error) if is_broken_pipe(&error) => Exit::Failed.into(),
        Err(error) => give_up(&format!("{error:#}")),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_error = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io_error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn run(command: Command, environment: Environment) -> anyhow::Result<Exit> {
    let plain = Overrides::default();
    match command {
        Command::Login(arguments)
        | Command::Acp { action: Some(AcpAction::Login(arguments)), .. } => {
            let app = block_on(async { Ok(app(environment, plain).await) })?;
            login::login(&app, &arguments)
        }
        Command::Acp { model, thinking, action: None } => {
            let overrides = Overrides { model, thinking, mode: None };
            block_on(async { acp::run(app(environment, overrides).await).await })
        }
        Command::Exec(arguments) => {
            let overrides = arguments.overrides();
            block_on(async { exec::run(app(environment, overrides).await, arguments).await })
        }
        #[cfg(feature = "demo")]
        Command::Demo => block_on(demo::run()),
        Command::Logout(arguments) => {
            let app = block_on(async { Ok(app(environment, plain).await) })?;
            login::logout(&app, &arguments)
        }
        Command::Models(arguments) => {
            block_on(async { models::run(&*app(environment, plain).await, &arguments).await })
        }
        Command::Sessions(action) => {
            let app = block_on(async { Ok(app(environment, plain).await) })?;
            sessions::run(&app, action)
        }
        Command::Mcp(action) => {
            block_on(async { mcp::run(&*app(environment, plain).await, action).await })
        }
        Command::Lsp(action) => {
            block_on(async { lsp::run(&*app(environment, plain).await, action).await })
        }
        Command::Config(action) => {
            block_on(async { config::run(&*app(environment, plain).await, action).await })
        }
        Command::Doctor => block_on(async { doctor::run(app(environment, plain).await).await }),
    }
}

async fn app(environment: Environment, overrides: Overrides) -> Arc<App> {
    Arc::new(App::compose(environment, overrides).await)
}

fn block_on<T>(future: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(MAX_BLOCKING_THREADS)
        .event_interval(EVENT_INTERVAL)
        .enable_all()
        .build()?;
    let result = runtime.block_on(future);
    // A thread may still wait in a read of standard input, which nothing can interrupt. Whatever
    // must be finished was awaited by the command.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests;
