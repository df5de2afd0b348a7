//! The model source: from a route to a call with the key, the limits and the adapter of now.

use std::collections::HashSet;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_compose::{Clock, Scope};
use bridle_model::{
    CatalogueModel, FailureCode, HttpClient, ListedModel, ModelAdapter, ModelFailure, ModelSource,
    PreparedCall, RetryPolicy, Wire,
};
use bridle_session::Route;

use super::credentials::{CommandKeys, Renewing};
use super::plugins::CurrentSettings;
use crate::config::{
    KeySource, KnownProvider, ProviderSettings, Settings, route_fault, supported_names,
};

/// Resolves routes with the settings in force at the moment of the call.
pub(super) struct Providers {
    settings: Arc<CurrentSettings>,
    http: HttpClient,
    keys: CommandKeys,
    /// Where the wires are.
    scope: Scope,
}

impl Providers {
    pub(super) fn new(settings: Arc<CurrentSettings>, clock: Arc<dyn Clock>, scope: Scope) -> Self {
        let ca_file = settings.get().ca_file.clone();
        let http = HttpClient::trusting(clock, HttpClient::DEFAULT_IDLE, ca_file);
        Self { settings, http, keys: CommandKeys::default(), scope }
    }

    /// Prepares the HTTP client for the provider of `route`, so that the first prompt need not.
    /// A failure shows again, and is told, at the first prompt.
    pub(super) async fn warm(&self, route: &Route) {
        let settings = self.settings.get();
        let provider = settings.provider(&route.provider);
        if let Some(base_url) = provider.and_then(|provider| provider.base_url.as_deref()) {
            drop(self.http.warm(base_url).await);
        }
    }

    /// Asks the endpoint of `provider` which models it offers; `None` where its wire has no such
    /// question.
    ///
    /// # Errors
    /// As a request for an answer would.
    ///
    /// # Cancel safety
    /// Cancel safe.
    pub(super) async fn list(
        &self,
        provider: &str,
    ) -> Result<Option<Vec<ListedModel>>, ModelFailure> {
        let settings = self.settings.get();
        let Some(model) = settings.catalogue.default_for(provider).cloned() else {
            return Ok(None);
        };
        let adapter = self.adapter(&settings, model, Renewal::Never).await?;
        match adapter.list() {
            Some(list) => list.await.map(Some),
            None => Ok(None),
        }
    }

    /// An adapter for a model, with the key and the address of its provider.
    async fn adapter(
        &self,
        settings: &Settings,
        model: CatalogueModel,
        renewal: Renewal,
    ) -> Result<Box<dyn ModelAdapter>, ModelFailure> {
        let provider = settings.provider(&model.provider).ok_or_else(|| {
            ModelFailure::new(FailureCode::UnknownModel, no_provider(&model.route()))
        })?;
        let source = provider
            .key
            .as_ref()
            .ok_or_else(|| ModelFailure::new(FailureCode::Auth, no_key(provider, settings)))?;
        let base_url = provider
            .base_url
            .clone()
            .ok_or_else(|| ModelFailure::new(FailureCode::InvalidRequest, no_base_url(provider)))?;
        let wire = self.scope.all::<dyn Wire>().into_iter().find(|wire| wire.speaks(model.dialect));
        let wire = wire.ok_or_else(|| {
            let message = format!("no active part speaks the API of {}", model.provider);
            ModelFailure::new(FailureCode::UnknownModel, message)
        })?;
        let http = self.http.patient(settings.idle_timeout);
        let make = move |key| wire.adapter(http.clone(), &base_url, key, model.clone());
        match source {
            KeySource::Key(key) => make(key.clone()),
            KeySource::Command(command) => {
                let key = self.keys.get(command).await?;
                match renewal {
                    Renewal::Never => make(key),
                    Renewal::Once => Ok(Box::new(Renewing {
                        keys: self.keys.clone(),
                        command: command.clone(),
                        key,
                        make: Arc::new(make),
                    })),
                }
            }
        }
    }
}

/// Whether a key that a command printed is taken anew when it is refused.
#[derive(Clone, Copy)]
enum Renewal {
    Once,
    Never,
}

#[async_trait]
impl ModelSource for Providers {
    async fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure> {
        if let Some(fault) = route_fault(route) {
            return Err(ModelFailure::new(FailureCode::UnknownModel, fault));
        }
        let settings = self.settings.get();
        let unknown = || ModelFailure::new(FailureCode::UnknownModel, no_provider(route));
        let model = settings.catalogue.row(route).ok_or_else(unknown)?;
        let limits = model.limits();
        let (levels, prices) = (model.levels.clone(), model.prices.clone());
        let images = model.image_limits();
        let adapter = self.adapter(&settings, model, Renewal::Once).await?;
        let call = PreparedCall::new(route.clone(), limits, RetryPolicy::standard(), adapter);
        Ok(call.described(levels, prices).with_images(images))
    }

    fn default_route(&self) -> Result<Route, ModelFailure> {
        let settings = self.settings.get();
        let route = settings.route.clone();
        route.ok_or_else(|| ModelFailure::new(FailureCode::Auth, no_route(&settings)))
    }
}

/// Why there is no route: no provider has a key.
pub(super) fn no_route(settings: &Settings) -> String {
    let variables = settings.providers.iter().filter(|provider| provider.supported);
    let variables: Vec<_> = variables
        .filter_map(|provider| KnownProvider::named(provider.name))
        .map(|known| known.key_variable)
        .collect();
    let mut text = format!(
        "no model provider has a key: run `bridle login`, or set {} (an editor then has to authenticate again)",
        variables.join(" or "),
    );
    for provider in settings.providers.iter().filter(|p| !p.supported && p.key.is_some()) {
        text += &format!("; the key of {} is of no use in this version", provider.name);
    }
    let mut reasons: Vec<_> = settings.problems.iter().collect();
    reasons.extend(settings.providers.iter().filter_map(|provider| provider.withheld.as_ref()));
    let mut told = HashSet::new();
    for reason in reasons.into_iter().filter(|reason| told.insert(*reason)) {
        text += &format!("; {reason}");
    }
    text
}

fn config_file(settings: &Settings) -> String {
    settings.config.as_ref().map_or_else(
        || "config.toml".to_owned(),
        |folder| folder.join("config.toml").display().to_string(),
    )
}

fn no_provider(route: &Route) -> String {
    format!("provider `{}` is not configured; use {}", route.provider, supported_names())
}

fn no_key(provider: &ProviderSettings, settings: &Settings) -> String {
    if let Some(reason) = &provider.withheld {
        return format!("there is no key for {} that may be used: {reason}", provider.name);
    }
    let variable = KnownProvider::named(provider.name).map_or("", |known| known.key_variable);
    format!(
        "there is no key for {name}: run `bridle login {name}`, set {variable}, or name a \
         credential_command under [providers.{name}] in {file}",
        name = provider.name,
        file = config_file(settings)
    )
}

fn no_base_url(provider: &ProviderSettings) -> String {
    format!("the base URL of {} is not valid; `bridle doctor` says where it is set", provider.name)
}
