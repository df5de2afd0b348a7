//! The model source: from a route to a call with the key, the limits and the adapter of now.

use std::sync::Arc;

use bridle_compose::{Clock, Scope};
use bridle_model::{
    Catalogue, FailureCode, HttpClient, ModelFailure, ModelSource, PreparedCall, RetryPolicy, Wire,
};
use bridle_session::Route;

use super::plugins::CurrentSettings;
use crate::config::{KnownProvider, ProviderSettings, Settings, route_fault, supported_names};

/// Resolves routes with the settings in force at the moment of the call.
pub(super) struct Providers {
    settings: Arc<CurrentSettings>,
    http: HttpClient,
    /// Where the wires are.
    scope: Scope,
}

impl Providers {
    pub(super) fn new(settings: Arc<CurrentSettings>, clock: Arc<dyn Clock>, scope: Scope) -> Self {
        Self { settings, http: HttpClient::new(clock, HttpClient::DEFAULT_IDLE), scope }
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
}

impl ModelSource for Providers {
    fn prepare(&self, route: &Route) -> Result<PreparedCall, ModelFailure> {
        if let Some(fault) = route_fault(route) {
            return Err(ModelFailure::new(FailureCode::UnknownModel, fault));
        }
        let settings = self.settings.get();
        let catalogue = Catalogue::builtin();
        let unknown = || ModelFailure::new(FailureCode::UnknownModel, no_provider(route));
        let provider = settings.provider(&route.provider).ok_or_else(unknown)?;
        let model = catalogue
            .find(route)
            .cloned()
            .or_else(|| catalogue.assume(route))
            .ok_or_else(unknown)?;
        let key = provider
            .key
            .clone()
            .ok_or_else(|| ModelFailure::new(FailureCode::Auth, no_key(provider, &settings)))?;
        let base_url = provider
            .base_url
            .as_deref()
            .ok_or_else(|| ModelFailure::new(FailureCode::InvalidRequest, no_base_url(provider)))?;
        let limits = model.limits();
        let wire = self.scope.all::<dyn Wire>().into_iter().find(|wire| wire.speaks(model.dialect));
        let wire = wire.ok_or_else(|| {
            let message = format!("no active part speaks the API of {}", route.provider);
            ModelFailure::new(FailureCode::UnknownModel, message)
        })?;
        let http = self.http.patient(settings.idle_timeout);
        let adapter = wire.adapter(http, base_url, key, model)?;
        Ok(PreparedCall::new(route.clone(), limits, RetryPolicy::standard(), adapter))
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
        "no model provider has a key: set {}, or write one in {} (an editor then has to authenticate again)",
        variables.join(" or "),
        config_file(settings)
    );
    for provider in settings.providers.iter().filter(|p| !p.supported && p.key.is_some()) {
        text += &format!("; the key of {} is of no use in this version", provider.name);
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
    let variable = KnownProvider::named(provider.name).map_or("", |known| known.key_variable);
    format!(
        "there is no key for {name}: set {variable}, or write api_key = \"…\" under \
         [providers.{name}] in {file}",
        name = provider.name,
        file = config_file(settings)
    )
}

fn no_base_url(provider: &ProviderSettings) -> String {
    format!("the base URL of {} is not valid; `bridle doctor` says where it is set", provider.name)
}
