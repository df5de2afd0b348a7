//! What a plugin is, and the row that puts one into a scope.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use schemars::{JsonSchema, Schema};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::activation::Setup;
use crate::needs::{Bound, Needs, ServiceKey};
use crate::scope::Scope;
use crate::tables::Duplicate;

/// A capability that can be put into a scope: a factory with a name, a configuration, and what it
/// needs and provides.
#[async_trait]
pub trait Plugin: Send + Sync + 'static {
    /// What rows call it.
    const NAME: &'static str;

    /// What a row may set; `()` for nothing. Its schema is shown to whoever writes rows.
    type Config: DeserializeOwned + JsonSchema + Send;

    /// The services it cannot do without.
    type Needs: Needs;

    /// The services that every activation provides.
    fn provides() -> Vec<ServiceKey> {
        Vec::new()
    }

    /// Sets the plugin up in `setup`'s scope. Everything it starts is owned by `setup`, and is
    /// undone when this fails. Waits for nothing outside the process: a scope activates its rows
    /// one after the other.
    ///
    /// # Errors
    /// [`ActivateError`] with what a person must do about it.
    async fn activate(
        &self,
        config: Self::Config,
        needs: Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError>;
}

/// Why a plugin could not be activated.
#[derive(Debug, thiserror::Error)]
pub enum ActivateError {
    /// It registered what its scope has already.
    #[error(transparent)]
    Duplicate(#[from] Duplicate),
    /// It cannot work as it is configured, or on this machine; the text is for a person.
    #[error("{0}")]
    Unable(String),
}

/// One plugin in one scope, as data.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// The row's name, unique in its scope.
    pub id: String,
    /// The plugin's name; the row's own where it is left out.
    #[serde(default)]
    pub plugin: Option<String>,
    /// What the plugin is configured with.
    #[serde(default)]
    pub config: Value,
    /// Whether the row is kept but not activated.
    #[serde(default)]
    pub disabled: bool,
}

impl Row {
    /// A row named like its plugin, with nothing configured.
    pub fn new(plugin: impl Into<String>) -> Self {
        Self { id: plugin.into(), plugin: None, config: Value::Null, disabled: false }
    }

    /// The same row with this configuration.
    #[must_use]
    pub fn with(self, config: Value) -> Self {
        Self { config, ..self }
    }

    /// The plugin's name.
    pub fn plugin(&self) -> &str {
        self.plugin.as_deref().unwrap_or(&self.id)
    }
}

/// What can be said of a plugin without activating it.
#[derive(Clone, Debug)]
pub struct PluginInfo {
    /// Its name.
    pub name: &'static str,
    /// The JSON Schema of its configuration.
    pub config: Schema,
    /// What it needs.
    pub needs: Vec<ServiceKey>,
    /// What it provides.
    pub provides: Vec<ServiceKey>,
}

/// The plugins that rows can name.
#[derive(Default)]
pub struct Plugins(BTreeMap<&'static str, Arc<dyn Factory>>);

impl Plugins {
    /// No plugins.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one; a later plugin of the same name takes its place.
    #[must_use]
    pub fn with<P: Plugin>(mut self, plugin: P) -> Self {
        self.0.insert(P::NAME, Arc::new(Typed(Arc::new(plugin))));
        self
    }

    /// Every plugin, by name.
    pub fn infos(&self) -> impl Iterator<Item = PluginInfo> + '_ {
        self.0.values().map(|factory| factory.info())
    }

    pub(crate) fn find(&self, name: &str) -> Option<Arc<dyn Factory>> {
        self.0.get(name).map(Arc::clone)
    }
}

/// A plugin without its types.
pub(crate) trait Factory: Send + Sync {
    fn info(&self) -> PluginInfo;

    fn needs(&self) -> Vec<ServiceKey>;

    fn provides(&self) -> Vec<ServiceKey>;

    /// Binds the needs as they are met now; `None` when one is not.
    fn bind(&self, scope: &Scope) -> Option<Ready>;
}

/// A plugin with its needs bound, ready to be activated.
pub(crate) struct Ready {
    pub(crate) bound: Vec<Bound>,
    pub(crate) activate: Activate,
}

type Activate =
    Box<dyn FnOnce(Value, Setup) -> BoxFuture<'static, Result<(), ActivateError>> + Send>;

struct Typed<P>(Arc<P>);

impl<P: Plugin> Factory for Typed<P> {
    fn info(&self) -> PluginInfo {
        PluginInfo {
            name: P::NAME,
            config: schemars::schema_for!(P::Config),
            needs: P::Needs::keys(),
            provides: P::provides(),
        }
    }

    fn needs(&self) -> Vec<ServiceKey> {
        P::Needs::keys()
    }

    fn provides(&self) -> Vec<ServiceKey> {
        P::provides()
    }

    fn bind(&self, scope: &Scope) -> Option<Ready> {
        let (needs, bound) = P::Needs::resolve(scope)?;
        let plugin = Arc::clone(&self.0);
        let activate = move |config, setup: Setup| {
            async move {
                let config = read_config::<P>(config)?;
                plugin.activate(config, needs, &setup).await
            }
            .boxed()
        };
        Some(Ready { bound, activate: Box::new(activate) })
    }
}

/// Nothing configured means the defaults of a configuration that has fields.
fn read_config<P: Plugin>(config: Value) -> Result<P::Config, ActivateError> {
    let unable = |error: serde_json::Error| ActivateError::Unable(format!("config: {error}"));
    if !config.is_null() {
        return serde_json::from_value(config).map_err(unable);
    }
    let empty = Value::Object(serde_json::Map::new());
    serde_json::from_value(Value::Null).or_else(|_| serde_json::from_value(empty)).map_err(unable)
}

/// The provider of a value that somebody outside the rows owns.
pub(crate) struct Given<S: ?Sized>(pub(crate) Arc<S>);

impl<S: ?Sized + Send + Sync + 'static> Factory for Given<S> {
    fn info(&self) -> PluginInfo {
        PluginInfo {
            name: "given",
            config: schemars::schema_for!(()),
            needs: Vec::new(),
            provides: self.provides(),
        }
    }

    fn needs(&self) -> Vec<ServiceKey> {
        Vec::new()
    }

    fn provides(&self) -> Vec<ServiceKey> {
        vec![ServiceKey::of::<S>()]
    }

    fn bind(&self, _: &Scope) -> Option<Ready> {
        let value = Arc::clone(&self.0);
        let activate = move |_, setup: Setup| {
            async move { setup.provide(value).map_err(ActivateError::from) }.boxed()
        };
        Some(Ready { bound: Vec::new(), activate: Box::new(activate) })
    }
}
