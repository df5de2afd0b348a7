//! What a person is told of language servers: which are on this machine, for which files, and how those
//! stand that were asked. Starts none.

use std::path::{Path, PathBuf};

use bridle_lsp::{
    Located, Missing, Purpose, SearchIn, ServerDefinition, Servers, Stage, Standing, locate,
};
use tokio_util::sync::CancellationToken;

use crate::composition::App;
use crate::config::LspConfig;

/// The most kinds of file of one server that are named.
const MOST_KINDS: usize = 6;

/// A server that was looked for.
pub(crate) struct Looked {
    /// The server.
    pub(crate) definition: ServerDefinition,
    /// Where it is.
    pub(crate) located: Result<Located, Missing>,
}

impl Looked {
    /// The server as it is started.
    pub(crate) fn ready(&self) -> Result<ServerDefinition, Missing> {
        let located = self.located.clone()?;
        Ok(self.definition.clone().located(located))
    }
}

/// Looks for every configured server, as sessions in `roots` would.
pub(crate) async fn look(app: &App, roots: Vec<PathBuf>) -> Vec<Looked> {
    let definitions = app.settings().lsp.settings.servers.clone();
    let path = match app.processes() {
        Some(processes) => processes.search_path(&CancellationToken::new()).await,
        None => None,
    };
    let Some(path) = path.map(|path| path.value) else { return Vec::new() };
    let looked = tokio::task::spawn_blocking(move || {
        let home = std::env::home_dir();
        let search = SearchIn { path: &path, home: home.as_deref(), session_roots: &roots };
        let looked = definitions.into_iter().map(|definition| {
            let located = locate(&definition, search);
            Looked { definition, located }
        });
        looked.collect()
    });
    looked.await.unwrap_or_default()
}

/// The files of a server: `.py .pyi`.
pub(crate) fn kinds(definition: &ServerDefinition) -> String {
    let mut names: Vec<_> = definition.files.iter().map(|kind| kind.name.as_str()).collect();
    if names.len() > MOST_KINDS {
        names.truncate(MOST_KINDS - 1);
        names.push("…");
    }
    let names = names.join(" ");
    match definition.purpose {
        Purpose::Everything => names,
        Purpose::Diagnostics => format!("{names} (diagnostics)"),
    }
}

/// How the servers of a session stand that works in `cwd`, in Markdown.
pub(crate) fn standing(
    lsp: &LspConfig,
    servers: Option<&Servers>,
    looked: &[Looked],
    cwd: &Path,
) -> String {
    if !lsp.enabled {
        return "Language servers are switched off: `enabled` of `[lsp]` in config.toml.\n"
            .to_owned();
    }
    let mut text = String::new();
    if !lsp.settings.trusts(cwd) {
        text.push_str(&format!(
            "None starts here: `{}` is in no folder that `trusted` of `[lsp]` in config.toml names.\n\n",
            cwd.display()
        ));
    }
    let asked = servers.map(Servers::standing).unwrap_or_default();
    for Standing { server, root, stage, detail } in &asked {
        let stage = match stage {
            Stage::Starting => "is being started",
            Stage::Ready => "ready",
            Stage::Loading => "ready, does not know all of the project yet",
            Stage::Stopped => "not running; the next question starts it",
            Stage::Failed => "cannot be used",
        };
        let detail = match detail.trim() {
            "" => String::new(),
            detail => format!(" ({detail})"),
        };
        text.push_str(&format!("- {server} in `{}`: {stage}{detail}\n", root.display()));
    }
    let is_asked =
        |it: &&Looked| asked.iter().any(|standing| standing.server == it.definition.name);
    for server in looked.iter().filter(|it| !is_asked(it)) {
        let (name, kinds) = (&server.definition.name, kinds(&server.definition));
        match &server.located {
            Ok(located) => text.push_str(&format!(
                "- {name} ({kinds}): not asked yet, `{}`\n",
                located.program.display()
            )),
            Err(missing) if lsp.changed.contains(name) => {
                text.push_str(&format!("- {name} ({kinds}): not there: {missing}\n"));
            }
            Err(_) => {}
        }
    }
    if !text.contains("- ") {
        text.push_str(
            "No language server is on this machine; `bridle lsp list --all` names those that are \
                       known.\n",
        );
    }
    text
}
