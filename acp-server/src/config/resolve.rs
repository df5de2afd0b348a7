//! Layers in order, the last word wins, and every value keeps its source.

use std::path::Path;
use std::time::Duration;

use bridle_agent::Mode;
use bridle_model::{Catalogue, CatalogueModel, HttpClient, Secret};
use bridle_session::Route;
use bridle_store::Compression;

use super::environment::Environment;
use super::file::{self, Entry, FileKind, Setting};
use super::paths::Places;
use super::provider::{KnownProvider, PROVIDERS, supported_names};
use super::settings::{Overrides, ProviderSettings, Row, Settings, Source};

const BUILT_IN: &str = include_str!("builtin.toml");

/// Reads every layer and resolves them. Never fails: what is wrong is in [`Settings::problems`].
pub fn load(environment: &Environment, overrides: &Overrides) -> Settings {
    let mut places = Places::find(environment);
    let mut winners = Winners::default();
    let mut problems = std::mem::take(&mut places.problems);
    let mut take = |layer: file::FileLayer| {
        layer.entries.into_iter().for_each(|entry| winners.set(entry));
        problems.extend(layer.problems);
    };
    take(file::parse(BUILT_IN, Path::new("builtin.toml"), FileKind::BuiltIn));
    if let Some(folder) = &places.config {
        take(file::read(&folder.join("config.toml"), FileKind::Config));
        take(file::read(&folder.join("credentials.toml"), FileKind::Credentials));
    }
    environment_layer(environment).into_iter().for_each(|entry| winners.set(entry));
    flag_layer(overrides).into_iter().for_each(|entry| winners.set(entry));
    winners.settle(places, problems)
}

fn environment_layer(environment: &Environment) -> Vec<Entry> {
    let model = environment.text("BRIDLE_MODEL").map(|model| Entry {
        setting: Setting::Model(model.trim().to_owned()),
        source: Source::Variable("BRIDLE_MODEL"),
    });
    let providers = PROVIDERS.iter().flat_map(|provider| {
        let key = environment.secret(provider.key_variable).map(|key| Entry {
            setting: Setting::ApiKey(provider.name, key.clone()),
            source: Source::Variable(provider.key_variable),
        });
        let base_url = environment.text(provider.base_url_variable).map(|url| Entry {
            setting: Setting::BaseUrl(provider.name, url.trim().to_owned()),
            source: Source::Variable(provider.base_url_variable),
        });
        key.into_iter().chain(base_url)
    });
    model.into_iter().chain(providers).collect()
}

fn flag_layer(overrides: &Overrides) -> Vec<Entry> {
    let model = overrides
        .model
        .clone()
        .map(|model| Entry { setting: Setting::Model(model), source: Source::Flag("--model") });
    let mode = overrides
        .mode
        .map(|mode| Entry { setting: Setting::Mode(mode), source: Source::Flag("--permissions") });
    model.into_iter().chain(mode).collect()
}

/// The strongest value of every key so far.
#[derive(Default)]
struct Winners {
    model: Option<(String, Source)>,
    mode: Option<(Mode, Source)>,
    full_access: Option<(bool, Source)>,
    max_steps: Option<(u32, Source)>,
    idle_timeout: Option<(u32, Source)>,
    compression: Option<(Compression, Source)>,
    keys: Vec<(&'static str, Secret, Source)>,
    base_urls: Vec<(&'static str, String, Source)>,
}

impl Winners {
    fn set(&mut self, Entry { setting, source }: Entry) {
        match setting {
            Setting::Model(model) => self.model = Some((model, source)),
            Setting::Mode(mode) => self.mode = Some((mode, source)),
            Setting::FullAccess(flag) => self.full_access = Some((flag, source)),
            Setting::MaxSteps(number) => self.max_steps = Some((number, source)),
            Setting::IdleTimeout(seconds) => self.idle_timeout = Some((seconds, source)),
            Setting::Compression(form) => self.compression = Some((form, source)),
            Setting::ApiKey(provider, key) => {
                self.keys.retain(|(name, ..)| *name != provider);
                self.keys.push((provider, key, source));
            }
            Setting::BaseUrl(provider, url) => {
                self.base_urls.retain(|(name, ..)| *name != provider);
                self.base_urls.push((provider, url, source));
            }
        }
    }

    fn settle(self, places: Places, mut problems: Vec<String>) -> Settings {
        let mut rows = Vec::new();
        let providers: Vec<_> =
            PROVIDERS.iter().map(|known| self.provider(known, &mut rows, &mut problems)).collect();
        let route = match &self.model {
            Some((text, source)) => {
                rows.push(row("model", text.clone(), source.clone()));
                Some(chosen_route(text, source, &mut problems))
            }
            None => {
                let route = first_route(&providers);
                rows.extend(route.iter().map(|r| row("model", r.to_string(), Source::FirstKey)));
                route
            }
        };
        let full_access = self.full_access.as_ref().is_some_and(|(flag, _)| *flag);
        let mode = self.mode(full_access, &mut problems);
        rows.extend(self.full_access.map(|(f, source)| row("full_access", f.to_string(), source)));
        rows.extend(self.mode.map(|(_, source)| row("mode", mode.id().to_owned(), source)));
        // The built-in layer sets it; the fallback only satisfies the type.
        let max_steps = self.max_steps.as_ref().map_or(1, |(number, _)| *number);
        rows.extend(self.max_steps.map(|(n, source)| row("max_steps", n.to_string(), source)));
        let idle_timeout = self
            .idle_timeout
            .as_ref()
            .map_or(HttpClient::DEFAULT_IDLE, |idle| Duration::from_secs(u64::from(idle.0)));
        rows.extend(
            self.idle_timeout.map(|(n, source)| row("idle_timeout_s", n.to_string(), source)),
        );
        let compression = self.compression.as_ref().map(|(form, _)| *form).unwrap_or_default();
        rows.extend(self.compression.map(|(form, source)| {
            let name = match form {
                Compression::Zstd => "zstd",
                Compression::None => "none",
            };
            row("sessions.compression", name.to_owned(), source)
        }));
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        let Places { config, state, .. } = places;
        Settings {
            state,
            config,
            route,
            mode,
            full_access,
            max_steps,
            idle_timeout,
            compression,
            providers,
            problems,
            rows,
        }
    }

    fn provider(
        &self,
        known: &KnownProvider,
        rows: &mut Vec<Row>,
        problems: &mut Vec<String>,
    ) -> ProviderSettings {
        let key =
            self.keys.iter().find(|(name, ..)| *name == known.name).filter(|(_, key, source)| {
                let legal = key.expose().bytes().all(|byte| byte.is_ascii_graphic());
                if !legal {
                    problems.push(format!(
                    "{source}: the key of {} holds a space or a character that no key has; ignored",
                    known.name
                ));
                }
                legal
            });
        let url = self.base_urls.iter().find(|(name, ..)| *name == known.name);
        let path = |last: &str| format!("providers.{}.{last}", known.name);
        rows.extend(
            key.map(|(_, _, source)| row(&path("api_key"), "(set)".into(), source.clone())),
        );
        let url = match url {
            Some((_, text, source)) => check_url(text)
                // Not the default instead: the key must not go to a host that nobody chose.
                .map_err(|fault| {
                    problems.push(format!("{source}: the base URL of {} {fault}", known.name));
                })
                .map(|()| (text.clone(), source.clone()))
                .ok(),
            None => Catalogue::builtin()
                .provider(known.name)
                .map(|provider| (provider.base_url.clone(), Source::Catalogue)),
        };
        rows.extend(url.clone().map(|(text, source)| row(&path("base_url"), text, source)));
        ProviderSettings {
            name: known.name,
            supported: known.is_supported(),
            key: key.map(|(_, key, _)| key.clone()),
            key_source: key.map(|(_, _, source)| source.clone()),
            base_url: url.map(|(text, _)| text.trim_end_matches('/').to_owned()),
        }
    }

    fn mode(&self, full_access: bool, problems: &mut Vec<String>) -> Mode {
        match &self.mode {
            Some((Mode::FullAccess, source)) if !full_access => {
                problems.push(format!(
                    "{source}: mode `full-access` is off; write full_access = true in config.toml \
                     to enable it; mode `ask` is used"
                ));
                Mode::Ask
            }
            Some((mode, _)) => *mode,
            None => Mode::Ask,
        }
    }
}

fn row(key: &str, value: String, source: Source) -> Row {
    Row { key: key.to_owned(), value, source }
}

/// The route that a text names. A text that names nothing usable still becomes a route, which
/// fails at the prompt: another model than the one asked for never answers instead.
fn chosen_route(text: &str, source: &Source, problems: &mut Vec<String>) -> Route {
    let route = Route::parse(text)
        .unwrap_or_else(|| Route { provider: "".into(), model: text.trim_matches('/').into() });
    if let Some(fault) = route_fault(&route) {
        problems.push(format!("{source}: {fault}"));
    }
    route
}

/// Why no request can be made on `route` whatever keys there are; `None` when one could.
pub(crate) fn route_fault(route: &Route) -> Option<String> {
    let works = supported_names();
    if route.provider.is_empty() {
        return Some(format!(
            "model `{}` names no provider; write provider/model with {works} as provider",
            route.model
        ));
    }
    match KnownProvider::named(&route.provider) {
        Some(known) if known.is_supported() => None,
        Some(known) => Some(format!(
            "provider `{}` is not supported by this version; use {works} instead",
            known.name
        )),
        None => {
            let names = PROVIDERS.map(|provider| provider.name);
            let hint = file::nearest(&route.provider, &names)
                .map_or_else(|| format!("use {works}"), |name| format!("did you mean `{name}`?"));
            Some(format!("unknown provider `{}` in model `{route}`; {hint}", route.provider))
        }
    }
}

fn first_route(providers: &[ProviderSettings]) -> Option<Route> {
    let mut usable = providers.iter().filter(|provider| provider.is_usable());
    usable
        .find_map(|provider| Catalogue::builtin().default_for(provider.name))
        .map(CatalogueModel::route)
}

/// Says what is wrong with a base URL, without repeating it: it could hold a password.
fn check_url(text: &str) -> Result<(), &'static str> {
    let url = url::Url::parse(text).map_err(|_| "is not a URL; write https://host/path")?;
    if !matches!(url.scheme(), "https" | "http") || url.host().is_none() {
        return Err("must begin with https:// or http:// and name a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not hold a user or password; put the key in api_key");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must end with a path: no `?` and no `#`");
    }
    Ok(())
}

#[cfg(test)]
mod tests;
