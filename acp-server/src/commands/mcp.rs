//! `bridle mcp`: the MCP servers that the configuration gives to every session.

use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use bridle_agent::{Rule, Rules};
use bridle_compose::SystemClock;
use bridle_mcp::{Found, misconfigured};
use clap::{Args, Subcommand};
use tokio_util::sync::CancellationToken;

use super::sessions::{self, Reference};
use super::{Exit, say};
use crate::composition::{App, journal};
use crate::config::ConfiguredServer;
use crate::text::{visible, visible_block};

/// What to do with MCP servers. Those that an editor names for a session are not among them; `/mcp` in
/// a session shows all that it has.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List the servers of the configuration.
    List,
    /// Start servers, say what they have and how long that took, and end them.
    Test(TestArguments),
    /// Print what the servers of a session said of themselves.
    Logs(LogsArguments),
}

#[derive(Debug, Args)]
pub(super) struct TestArguments {
    /// The servers; all that are not switched off without any.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// Name the tools.
    #[arg(long)]
    tools: bool,
}

#[derive(Debug, Args)]
pub(super) struct LogsArguments {
    /// The session: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID", default_value = "last")]
    session: Reference,
    /// Only what this server said.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
}

pub(super) async fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    let exit = match action {
        Action::List => list(app).await,
        Action::Test(arguments) => test(app, &arguments).await,
        Action::Logs(arguments) => logs(app, &arguments),
    };
    app.close().await;
    exit
}

/// What is wrong with the configuration of these servers, of all without any, on standard error.
fn tell_problems(app: &App, names: &[String]) -> Exit {
    let settings = app.settings();
    let is_asked = |problem: &&String| match names.is_empty() {
        true => problem.contains("mcp"),
        false => names.iter().any(|name| is_about(problem, name)),
    };
    settings.problems.iter().filter(is_asked).fold(Exit::Done, |_, problem| {
        say(format_args!("bridle: {problem}"));
        Exit::Failed
    })
}

/// Whether a problem of the configuration is one of this server.
fn is_about(problem: &str, server: &str) -> bool {
    problem.contains(&format!("mcp.{server}:"))
}

async fn list(app: &App) -> anyhow::Result<Exit> {
    let mut exit = tell_problems(app, &[]);
    let path = match app.processes() {
        Some(processes) => processes.search_path(&CancellationToken::new()).await,
        None => None,
    };
    let mut out = io::stdout().lock();
    let settings = app.settings();
    if settings.servers.is_empty() {
        writeln!(out, "no servers; [mcp.NAME] in config.toml gives one to every session")?;
    }
    for ConfiguredServer { server, enabled } in &settings.servers {
        let (name, reach) = (&server.name, server.reach.to_string());
        let off = if *enabled { "" } else { "  (off)" };
        writeln!(out, "{}  {}{off}", visible(name), visible(&reach))?;
        let judged = path.as_ref().filter(|_| *enabled);
        if let Some(fault) = judged.and_then(|path| misconfigured(server, path)) {
            exit = Exit::Failed;
            writeln!(out, "      {}", visible(&fault))?;
        }
    }
    Ok(exit)
}

async fn test(app: &App, arguments: &TestArguments) -> anyhow::Result<Exit> {
    let mut exit = tell_problems(app, &arguments.names);
    let settings = app.settings();
    let is_wanted = |server: &&ConfiguredServer| match arguments.names.is_empty() {
        true => server.enabled,
        false => arguments.names.contains(&server.server.name),
    };
    let wanted: Vec<_> = settings.servers.iter().filter(is_wanted).collect();
    for name in &arguments.names {
        let is_left_out = settings.problems.iter().any(|problem| is_about(problem, name));
        if !is_left_out && wanted.iter().all(|server| server.server.name != *name) {
            say(format_args!("bridle: there is no server {name}; `bridle mcp list` names them"));
            exit = Exit::Failed;
        }
    }
    let rules = Rules::new(&settings.permissions).unwrap_or_default();
    let cwd = std::env::current_dir().context("the current folder")?;
    let processes = app.processes().ok_or_else(|| anyhow!("no program can be started here"))?;
    for ConfiguredServer { server, .. } in wanted {
        let begun = Instant::now();
        let (clock, tasks) = (Arc::new(SystemClock), app.tasks().clone());
        let processes = Arc::clone(&processes);
        let (cwd, ca_file) = (cwd.clone(), settings.ca_file.clone());
        let found = bridle_mcp::probe(server, cwd, ca_file, processes, clock, tasks).await;
        let took = begun.elapsed().as_millis();
        let mut out = io::stdout().lock();
        let name = visible(&server.name);
        match found {
            Ok(Found { who, protocol, tools, resources, faults }) => {
                let resources = if resources { ", resources" } else { "" };
                let (count, who) = (tools.len(), visible(&who));
                writeln!(
                    out,
                    "ok    {name}: {who}, protocol {protocol}, {count} tools{resources} ({took} ms)"
                )?;
                for fault in faults {
                    writeln!(out, "      {}", visible(&fault))?;
                }
                for rule in rules.all() {
                    if is_about_nothing(rule, &server.name, &tools) {
                        exit = Exit::Failed;
                        let rule = rule.to_string();
                        writeln!(
                            out,
                            "      the rule `{}` is about no tool of it",
                            visible(&rule)
                        )?;
                    }
                }
                for tool in tools.iter().filter(|_| arguments.tools) {
                    writeln!(out, "      {}", visible(tool))?;
                }
            }
            Err(why) => {
                exit = Exit::Failed;
                writeln!(out, "FAIL  {name}: {}", visible(&why))?;
            }
        }
    }
    Ok(exit)
}

/// Whether a rule is meant for tools of this server, and it has none of that name.
fn is_about_nothing(rule: &Rule, server: &str, tools: &[String]) -> bool {
    let of_server = format!("mcp__{server}__");
    rule.tool().is_some_and(|name| name.starts_with(&of_server))
        && !tools.iter().any(|tool| rule.names(tool))
}

fn logs(app: &App, arguments: &LogsArguments) -> anyhow::Result<Exit> {
    let store = sessions::store(app)?;
    let id = arguments.session.resolve(&store)?;
    let settings = app.settings();
    let path = journal(&settings, &id).ok_or_else(|| anyhow!("there is no folder of sessions"))?;
    let text = match fs_err::read(&path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let mut out = io::stdout().lock();
    let of_server = |line: &&str| match &arguments.server {
        Some(name) => line.split_once(' ').is_some_and(|(_, rest)| {
            rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with(": "))
        }),
        None => true,
    };
    let lines: Vec<_> = text.lines().filter(of_server).collect();
    match &arguments.server {
        Some(name) if lines.is_empty() => {
            say(format_args!("no MCP server {name} of session {id} said anything"));
        }
        None if lines.is_empty() => {
            say(format_args!("no MCP server of session {id} said anything"));
        }
        Some(_) | None => {}
    }
    for line in lines {
        writeln!(out, "{}", visible_block(line))?;
    }
    Ok(Exit::Done)
}
