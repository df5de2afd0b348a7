//! `bridle lsp`: which language servers there are, whether they answer, and what they said.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, anyhow};
use bridle_compose::SystemClock;
use bridle_lsp::{Introduction, servers_for};
use bridle_world::process::Processes;
use clap::{Args, Subcommand};
use tempfile::TempDir;

use super::{Exit, say};
use crate::composition::App;
use crate::config::{LspConfig, Settings};
use crate::language_servers::{Looked, kinds, look};
use crate::text::{visible, visible_block};

/// What to do with language servers.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List the servers that are on this machine, with their files.
    List(ListArguments),
    /// Start servers, say who they are and how long that took, and end them.
    Check(CheckArguments),
    /// Print what servers said of themselves.
    Log(LogArguments),
}

#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Only those for this file, in the order in which they are asked.
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// Those that are not on this machine, too.
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    /// The servers; all that are on this machine without any.
    #[arg(value_name = "NAME")]
    names: Vec<String>,
}

#[derive(Debug, Args)]
pub(super) struct LogArguments {
    /// Only what this server said.
    #[arg(long, value_name = "NAME")]
    server: Option<String>,
}

pub(super) async fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    let exit = match action {
        Action::List(arguments) => list(app, &arguments).await,
        Action::Check(arguments) => check(app, &arguments).await,
        Action::Log(arguments) => log(app, &arguments),
    };
    app.close().await;
    exit
}

/// What is wrong with the configuration of servers, on standard error.
fn tell_problems(settings: &Settings) -> Exit {
    let problems = settings.problems.iter().filter(|problem| problem.contains("lsp"));
    problems.fold(Exit::Done, |_, problem| {
        say(format_args!("bridle: {problem}"));
        Exit::Failed
    })
}

async fn list(app: &App, arguments: &ListArguments) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let exit = tell_problems(&settings);
    let lsp = &settings.lsp;
    let cwd = std::env::current_dir().context("the current folder")?;
    let looked = look(app, vec![cwd.clone()]).await;
    let mut out = io::stdout().lock();
    if !lsp.enabled {
        writeln!(out, "language servers are switched off: `enabled` of [lsp] in config.toml")?;
    }
    if let Some(file) = &arguments.file {
        return for_file(&mut out, &cwd.join(file), &cwd, lsp, &looked).map(|()| exit);
    }
    let is_wanted = |it: &&Looked| {
        arguments.all || it.located.is_ok() || lsp.changed.contains(&it.definition.name)
    };
    for server in looked.iter().filter(is_wanted) {
        writeln!(out, "{}", line(server))?;
    }
    for name in &lsp.switched_off {
        writeln!(out, "{}  (off)", visible(name))?;
    }
    let others = looked.iter().filter(|it| !is_wanted(it)).count();
    if others > 0 {
        writeln!(out, "{others} more are known and not on this machine; --all names them")?;
    }
    if lsp.settings.trusted.is_empty() {
        writeln!(out, "none starts before `trusted` of [lsp] in config.toml names a folder")?;
    }
    Ok(exit)
}

/// `rust-analyzer  .rs  /usr/bin/rust-analyzer`, or why it is not there.
fn line(server: &Looked) -> String {
    let (name, kinds) = (visible(&server.definition.name), kinds(&server.definition));
    match &server.located {
        Ok(located) => format!("{name}  {kinds}  {}", visible(&located.program.to_string_lossy())),
        Err(missing) => format!("{name}  {kinds}  not there: {}", visible(&missing.to_string())),
    }
}

fn for_file(
    out: &mut impl io::Write,
    file: &Path,
    cwd: &Path,
    lsp: &LspConfig,
    looked: &[Looked],
) -> anyhow::Result<()> {
    let chosen = servers_for(file, &lsp.settings.servers, &[cwd.to_owned()]);
    if chosen.is_empty() {
        writeln!(out, "no server is for {}", visible(&file.to_string_lossy()))?;
    }
    for choice in chosen {
        let is_it = |it: &&Looked| it.definition.name == choice.definition.name;
        let Some(server) = looked.iter().find(is_it) else { continue };
        let root = visible(&choice.root.to_string_lossy()).into_owned();
        let trust = if lsp.settings.trusts(&choice.root) { "" } else { " (not trusted)" };
        writeln!(out, "{}  in {root}{trust}", line(server))?;
        if server.located.is_err() && !choice.definition.install.is_empty() {
            writeln!(out, "    {}", choice.definition.install)?;
        }
    }
    Ok(())
}

async fn check(app: &App, arguments: &CheckArguments) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let mut exit = tell_problems(&settings);
    let processes = app.processes().ok_or_else(|| anyhow!("no program can be started here"))?;
    let cwd = std::env::current_dir().context("the current folder")?;
    let looked = look(app, vec![cwd.clone()]).await;
    let names = &arguments.names;
    for name in names {
        if looked.iter().all(|it| it.definition.name != *name) {
            say(format_args!(
                "bridle: there is no server {name}; `bridle lsp list --all` names them"
            ));
            exit = Exit::Failed;
        }
    }
    let is_wanted = |it: &&Looked| match names.is_empty() {
        true => it.located.is_ok(),
        false => names.contains(&it.definition.name),
    };
    let wanted: Vec<_> = looked.iter().filter(is_wanted).collect();
    if wanted.is_empty() && names.is_empty() {
        say(format_args!(
            "no language server is on this machine; `bridle lsp list --all` names them"
        ));
    }
    for server in wanted {
        let begun = Instant::now();
        let answer = try_out(server, &settings.lsp, &cwd, Arc::clone(&processes), app).await;
        let took = begun.elapsed().as_millis();
        let mut out = io::stdout().lock();
        let name = visible(&server.definition.name);
        match answer {
            Ok((Introduction { who, encoding, abilities }, place)) => {
                let who = visible(&who);
                writeln!(out, "ok    {name}: {who}, {encoding} ({took} ms{place})")?;
                writeln!(out, "      {}", visible(&abilities.join(", ")))?;
            }
            Err(why) => {
                exit = Exit::Failed;
                writeln!(out, "FAIL  {name}: {}", visible_block(&why))?;
            }
        }
    }
    Ok(exit)
}

/// Starts a server and ends it: in the project of the current folder where that is trusted, which shows
/// also whether it can load it, and in an empty folder elsewhere.
pub(super) async fn try_out(
    server: &Looked,
    lsp: &LspConfig,
    cwd: &Path,
    processes: Arc<Processes>,
    app: &App,
) -> Result<(Introduction, String), String> {
    let definition =
        server.ready().map_err(|missing| match server.definition.install.as_str() {
            "" => missing.to_string(),
            install => format!("{missing}; {install}"),
        })?;
    let project = bridle_lsp::root_of(&cwd.join("file"), &definition, &[cwd.to_owned()]);
    let project = project.filter(|root| lsp.settings.trusts(root));
    let empty = TempDir::new().map_err(|error| error.to_string())?;
    let (root, place) = match &project {
        Some(root) => (root.as_path(), format!(", in {}", visible(&root.to_string_lossy()))),
        None => (empty.path(), String::new()),
    };
    let (clock, tasks) = (Arc::new(SystemClock), app.tasks().clone());
    let log = lsp.settings.log.clone();
    let answer = bridle_lsp::probe(&definition, root, log, processes, clock, tasks).await;
    answer.map(|introduction| (introduction, place))
}

fn log(app: &App, arguments: &LogArguments) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let path = settings.lsp.settings.log.as_ref();
    let path = path.ok_or_else(|| anyhow!("there is no folder for what servers say"))?;
    let text = match fs_err::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    // `TIME SERVER: what it said`.
    let of_server = |line: &&str| match &arguments.server {
        Some(name) => line.split_once(' ').is_some_and(|(_, rest)| {
            rest.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with([':', ' ']))
        }),
        None => true,
    };
    let lines: Vec<_> = text.lines().filter(of_server).collect();
    if lines.is_empty() {
        let whose = arguments.server.as_ref().map_or(String::new(), |name| format!(" {name}"));
        say(format_args!("no language server{whose} said anything"));
    }
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", visible_block(line))?;
    }
    Ok(Exit::Done)
}
