//! `bridle doctor`: whether this installation can work, one line per check.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use bridle_mcp::misconfigured;
use bridle_world::process::{CommandSpec, DEFAULT_TIMEOUT, SearchPath};
use bridle_world::sandbox::Tier;
use futures::StreamExt as _;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{Exit, lsp};
use crate::composition::App;
use crate::config::{ConfiguredServer, KnownProvider, PROVIDERS, Places, Settings, route_fault};
use crate::language_servers::{Looked, kinds, look};
use crate::text::visible;

/// How many language servers are tried at once.
const AT_ONCE: usize = 2;

/// What a check found.
enum Finding {
    Good(String),
    /// Worth knowing; the installation works all the same.
    Note(String),
    Bad(String),
}

pub(super) async fn run(app: Arc<App>) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let mut findings = vec![state_folder(&settings)];
    findings.extend(settings.problems.iter().map(|problem| Finding::Bad(problem.clone())));
    findings.extend(PROVIDERS.iter().map(|known| provider(known, &settings)));
    findings.push(model(&settings));
    findings.push(supervisor(&app).await);
    let path = match app.processes() {
        Some(processes) => processes.search_path(&CancellationToken::new()).await,
        None => None,
    };
    findings.extend(path.as_ref().map(search_path));
    findings.extend(path.iter().flat_map(|path| servers(&settings, path)));
    findings.extend(sandbox(&app).await);
    findings.extend(processes_of_one(&app).await);
    findings.extend(language_servers(&app).await);
    app.close().await;

    let mut out = std::io::stdout().lock();
    let mut exit = Exit::Done;
    for finding in findings {
        let (mark, text) = match finding {
            Finding::Good(text) => ("ok  ", text),
            Finding::Note(text) => ("note", text),
            Finding::Bad(text) => {
                exit = Exit::Failed;
                ("FAIL", text)
            }
        };
        writeln!(out, "{mark}  {text}")?;
    }
    Ok(exit)
}

fn state_folder(settings: &Settings) -> Finding {
    let Some(state) = &settings.state else {
        return Finding::Bad(Places::no_state().to_owned());
    };
    match probe(state) {
        Ok(None) => Finding::Good(format!("state folder {}", state.display())),
        Ok(Some(mode)) => Finding::Bad(format!(
            "state folder {} can be entered by others (mode {mode:04o}): run chmod 700 on it",
            state.display()
        )),
        Err(error) => Finding::Bad(format!("state folder cannot be written: {error}")),
    }
}

/// Creates the folder (private, as a session would) and writes a file in it; the mode of a
/// folder that is open to others.
fn probe(state: &Path) -> std::io::Result<Option<u32>> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(|error| {
        std::io::Error::new(error.kind(), format!("{}: {error}", state.display()))
    })?;
    let file = state.join(format!(".doctor-{}", std::process::id()));
    fs_err::write(&file, b"")?;
    fs_err::remove_file(&file)?;
    let mode = fs_err::metadata(state)?.permissions().mode() & 0o7777;
    Ok((mode & 0o077 != 0).then_some(mode))
}

fn provider(known: &KnownProvider, settings: &Settings) -> Finding {
    let name = known.name;
    let source = settings.provider(name).and_then(|provider| provider.key_source.as_ref());
    match source {
        _ if !known.is_supported() => {
            Finding::Note(format!("provider {name}: not supported by this version"))
        }
        Some(source) => Finding::Good(format!("provider {name}: key from {source}")),
        None => Finding::Note(format!("provider {name}: no key; set {}", known.key_variable)),
    }
}

fn model(settings: &Settings) -> Finding {
    let Some(route) = &settings.route else {
        return Finding::Bad("no model: no provider has a key".to_owned());
    };
    if route_fault(route).is_some() {
        return Finding::Bad(format!("model {route} cannot be used"));
    }
    match settings.provider(&route.provider) {
        Some(provider) if provider.is_usable() => {
            match settings.catalogue.find(route).filter(|model| !model.assumed) {
                Some(_) => Finding::Good(format!("model {route}")),
                None => Finding::Note(format!(
                    "model {route} is not in the catalogue of {}; small limits are assumed",
                    settings.catalogue.as_of()
                )),
            }
        }
        _ => Finding::Bad(format!("model {route}: its provider has no key")),
    }
}

/// Where commands look for programs.
fn search_path(path: &SearchPath) -> Finding {
    let shell = path.shell.as_ref().map(|shell| format!(" {}", shell.display()));
    let shell = shell.unwrap_or_default();
    match &path.fault {
        None => Finding::Good(format!("commands have the PATH of the login shell{shell}")),
        Some(fault) => Finding::Note(format!(
            "the login shell{shell} did not tell its PATH, so commands have the one that Bridle was \
             started with: {fault}"
        )),
    }
}

/// Whether what the configured MCP servers are reached by is there. None is started.
fn servers(settings: &Settings, path: &SearchPath) -> Vec<Finding> {
    let enabled = settings.servers.iter().filter(|server| server.enabled);
    let finding = |ConfiguredServer { server, .. }: &ConfiguredServer| {
        let name = visible(&server.name);
        match misconfigured(server, path) {
            None => Finding::Good(format!("MCP server {name}: `bridle mcp test` tries it")),
            Some(fault) => Finding::Bad(format!("MCP server {name}: {}", visible(&fault))),
        }
    };
    enabled.map(finding).collect()
}

/// How far commands can be confined, by trying it.
async fn sandbox(app: &App) -> Option<Finding> {
    let processes = app.processes()?;
    let sandbox = processes.sandbox().await;
    let cause = sandbox.cause().unwrap_or("unknown");
    Some(match sandbox.tier() {
        Tier::Full if sandbox.cause().is_none() => {
            Finding::Good("commands are confined by namespaces, Landlock and seccomp".to_owned())
        }
        Tier::Full => Finding::Good(format!(
            "commands are confined by namespaces, Landlock and seccomp, without a `/proc` of their \
             own: {cause}"
        )),
        Tier::Landlock => Finding::Note(format!(
            "commands are confined by Landlock and seccomp only: what git and editors execute or \
             obey in the workspace is compared and not protected, nor are modes and times of files \
             elsewhere (docs/sandbox.md): {cause}"
        )),
        Tier::None => Finding::Note(format!(
            "commands cannot be confined, so each one asks, and `read-only` and `plan` refuse \
             them: {cause}"
        )),
    })
}

/// Whether anything keeps a command from starting processes without end.
async fn processes_of_one(app: &App) -> Option<Finding> {
    let processes = app.processes()?;
    let sandbox = processes.sandbox().await;
    let most = app.settings().sandbox.max_processes;
    match sandbox.unlimited() {
        _ if sandbox.tier() == Tier::None => None,
        None => Some(Finding::Good(format!(
            "a confined command has at most about {most} processes and threads at once"
        ))),
        Some(why) => Some(Finding::Note(format!(
            "nothing limits how many processes a confined command starts: {why}"
        ))),
    }
}

/// Which language servers are on this machine, and whether they answer. Each is started in a folder where
/// it finds nothing.
async fn language_servers(app: &App) -> Vec<Finding> {
    let settings = app.settings();
    let Some(processes) = app.processes().filter(|_| settings.lsp.enabled) else {
        return vec![Finding::Note("language servers are switched off".to_owned())];
    };
    let Ok(empty) = TempDir::new() else { return Vec::new() };
    let looked = look(app, Vec::new()).await;
    let wanted =
        |it: &&Looked| it.located.is_ok() || settings.lsp.changed.contains(&it.definition.name);
    let found = looked.iter().filter(wanted).map(|server| {
        let processes = Arc::clone(&processes);
        let (lsp, empty) = (&settings.lsp, empty.path());
        async move {
            let (name, kinds) = (&server.definition.name, kinds(&server.definition));
            let shown = format!("language server {name} ({kinds})");
            match lsp::try_out(server, lsp, empty, processes, app).await {
                Ok((introduction, _)) => {
                    let program =
                        server.located.as_ref().map(|it| it.program.display().to_string());
                    let (who, program) = (visible(&introduction.who), program.unwrap_or_default());
                    Finding::Good(format!("{shown}: {who}, {program}"))
                }
                Err(why) => Finding::Note(format!("{shown} cannot be used: {}", visible(&why))),
            }
        }
    });
    let mut findings: Vec<_> = futures::stream::iter(found).buffered(AT_ONCE).collect().await;
    if findings.is_empty() {
        let text =
            "no language server is on this machine; `bridle lsp list --all` names those known";
        findings.push(Finding::Note(text.to_owned()));
    } else if settings.lsp.settings.trusted.is_empty() {
        let text =
            "no language server starts before `trusted` of [lsp] in config.toml names a folder";
        findings.push(Finding::Note(text.to_owned()));
    }
    findings
}

async fn supervisor(app: &App) -> Finding {
    let spec = CommandSpec {
        command: "true".to_owned(),
        cwd: std::env::temp_dir(),
        timeout: Some(DEFAULT_TIMEOUT),
        spool: None,
        confinement: None,
    };
    let Some(processes) = app.processes() else {
        return Finding::Bad("commands cannot run: the part `processes` is not active".to_owned());
    };
    match processes.run(spec, CancellationToken::new(), |_| {}).await {
        Ok(finished) if finished.exit_code == Some(0) => {
            Finding::Good("commands run under the supervisor".to_owned())
        }
        Ok(finished) => Finding::Bad(format!(
            "the command `true` ended with code {:?} and signal {:?}",
            finished.exit_code, finished.signal
        )),
        Err(error) => Finding::Bad(format!("commands cannot run: {error}")),
    }
}
