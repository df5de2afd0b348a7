//! The plugins that this crate adds: what joins the other crates to the user's settings.

use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use bridle_agent::PromptSection;
use bridle_compose::{ActivateError, Clock, Plugin, Plugins, ServiceKey, Setup, SystemClock};
use bridle_model::ModelSource;
use bridle_session::Header;
use bridle_store::{BlobStore, FileStore, SessionStore};
use bridle_world::process::{Environment, Processes};
use bridle_world::sandbox;
use bridle_world::{Roots, key_folders};
use schemars::JsonSchema;
use serde::Deserialize;

use super::no_store::NoStore;
use super::providers::Providers;
use crate::config::Settings;

/// Every plugin that a row can name.
pub(super) fn all() -> Plugins {
    let plugins = Plugins::new()
        .with(SystemClock)
        .with(SessionStorePlugin)
        .with(ProcessesPlugin)
        .with(ModelsPlugin)
        .with(WorkspacePlugin)
        .with(ClientPromptPlugin);
    let plugins = bridle_model::plugins(plugins);
    let plugins = bridle_agent::plugins(plugins);
    let plugins = bridle_mcp::plugins(plugins);
    let plugins = bridle_lsp::plugins(plugins);
    bridle_toolkit::plugins(plugins)
}

/// The settings in force. Replaced as a whole, never changed.
pub(super) struct CurrentSettings(RwLock<Arc<Settings>>);

impl CurrentSettings {
    pub(super) fn new(settings: Settings) -> Self {
        Self(RwLock::new(Arc::new(settings)))
    }

    pub(super) fn get(&self) -> Arc<Settings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn set(&self, settings: Settings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }
}

/// Sessions and blobs in the state folder.
struct SessionStorePlugin;

#[async_trait]
impl Plugin for SessionStorePlugin {
    const NAME: &'static str = "session-store";
    type Config = ();
    type Needs = (Arc<CurrentSettings>,);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn SessionStore>(), ServiceKey::of::<dyn BlobStore>()]
    }

    async fn activate(
        &self,
        (): (),
        (settings,): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let settings = settings.get();
        match &settings.state {
            Some(state) => {
                let store = FileStore::new(state).with_compression(settings.compression);
                provide_store(setup, Arc::new(store))
            }
            None => provide_store(setup, Arc::new(NoStore)),
        }
    }
}

fn provide_store(
    setup: &Setup,
    store: Arc<impl SessionStore + BlobStore>,
) -> Result<(), ActivateError> {
    setup.provide::<dyn SessionStore>(Arc::clone(&store) as _)?;
    Ok(setup.provide::<dyn BlobStore>(store)?)
}

/// Commands, each under a supervisor that comes of this program, executed again.
struct ProcessesPlugin;

#[async_trait]
impl Plugin for ProcessesPlugin {
    const NAME: &'static str = "processes";
    type Config = ();
    type Needs = (Arc<CurrentSettings>,);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Processes>()]
    }

    async fn activate(
        &self,
        (): (),
        (settings,): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let environment = Environment::from_process();
        let processes = Processes::new(Processes::THIS_BINARY.into(), environment);
        let settings = settings.get();
        let processes = processes.confined_at_most(settings.sandbox.at_most);
        if let Some(folder) = settings.sandbox_folder() {
            setup.scope().tasks().spawn(tidy_up(folder));
        }
        let closed = processes.clone();
        setup.on_retract("the launcher of commands", || async move {
            closed.close().await;
            Ok(())
        })?;
        Ok(setup.provide(Arc::new(processes))?)
    }
}

/// Removes what killed commands have left in workspaces.
async fn tidy_up(records: PathBuf) {
    let tidied = tokio::task::spawn_blocking(move || sandbox::remove_abandoned(&records));
    match tidied.await {
        Ok(Err(error)) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(%error, "placeholders of killed commands may be left in workspaces");
        }
        _ => {}
    }
}

/// The configured providers, over whatever wires the scope has.
struct ModelsPlugin;

#[async_trait]
impl Plugin for ModelsPlugin {
    const NAME: &'static str = "models";
    type Config = ();
    type Needs = (Arc<CurrentSettings>, Arc<dyn Clock>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn ModelSource>(), ServiceKey::of::<Providers>()]
    }

    async fn activate(
        &self,
        (): (),
        (settings, clock): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let providers = Arc::new(Providers::new(settings, clock, setup.scope().clone()));
        setup.provide::<dyn ModelSource>(Arc::clone(&providers) as _)?;
        Ok(setup.provide(providers)?)
    }
}

/// The folders of a session, without Bridle's own and those of keys.
struct WorkspacePlugin;

#[async_trait]
impl Plugin for WorkspacePlugin {
    const NAME: &'static str = "workspace";
    type Config = ();
    type Needs = (Arc<CurrentSettings>, Arc<Header>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<Roots>()]
    }

    async fn activate(
        &self,
        (): (),
        (settings, header): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let settings = settings.get();
        let own = [&settings.config, &settings.state].into_iter().flatten().cloned();
        let home = std::env::home_dir();
        let keys = home.iter().flat_map(|home| key_folders(home));
        let roots = Roots::new(header.cwd.clone(), header.extra_roots.clone());
        let mut roots = roots.excluding(own.chain(keys));
        if let Some(state) = &settings.state {
            roots = roots.with_results(FileStore::blobs(state));
        }
        if let Some(records) = settings.sandbox_folder() {
            roots = roots.with_records(records);
        }
        Ok(setup.provide(Arc::new(roots))?)
    }
}

/// What the client that created a session wants its model to be told.
struct ClientPromptPlugin;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ClientPrompt {
    /// The text, taken as it is.
    text: String,
}

impl ClientPromptPlugin {
    /// Behind everything that Bridle itself says.
    const RANK: u16 = 900;
}

#[async_trait]
impl Plugin for ClientPromptPlugin {
    const NAME: &'static str = "client-prompt";
    type Config = ClientPrompt;
    type Needs = ();

    async fn activate(
        &self,
        ClientPrompt { text }: ClientPrompt,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let section = PromptSection::verbatim(Self::NAME, Self::RANK, text);
        Ok(setup.add(Self::NAME, Arc::new(section))?)
    }
}

#[cfg(test)]
mod tests {
    use bridle_compose::Row;

    use super::super::bundle::Bundle;
    use super::*;

    #[test]
    fn every_built_in_row_names_a_plugin() {
        let bundle = Bundle::builtin().unwrap();
        let plugins = all();
        let known: Vec<_> = plugins.infos().map(|info| info.name).collect();
        for row in bundle.process.iter().chain(&bundle.session) {
            assert!(known.contains(&row.plugin()), "{}", row.id);
        }
        let used = bundle.process.iter().chain(&bundle.session).map(Row::plugin);
        let used: Vec<_> = used.collect();
        assert!(known.iter().all(|name| used.contains(name)), "a plugin has no row: {known:?}");
    }
}
