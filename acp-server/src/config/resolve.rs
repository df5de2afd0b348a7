//! Layers in order, the last word wins, and every value keeps its source.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bridle_agent::{Effect, Mode, Rule, RulesConfig};
use bridle_model::{Catalogue, CatalogueModel, Effort, HttpClient, ModelPatch};
use bridle_session::Route;
use bridle_store::Compression;
use bridle_world::sandbox::{DEFAULT_PROCESSES, Tier};
use serde_json::{Map, Value};

use super::endpoint::Endpoint;
use super::environment::Environment;
use super::file::{self, Entry, FileKind, ServerTable, Setting};
use super::instructions::InstructionsWinners;
use super::listed::Listed;
use super::lsp::LspWinners;
use super::paths::Places;
use super::provider::{KnownProvider, PROVIDERS, supported_names};
use super::servers::ConfiguredServer;
use super::settings::{
    KeySource, Overrides, ProviderSettings, Row, SandboxSettings, Settings, Source,
};
use super::skills::SkillsWinners;

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
    winners.settle(places, environment, problems)
}

fn environment_layer(environment: &Environment) -> Vec<Entry> {
    let model = environment.text("BRIDLE_MODEL").map(|model| Entry {
        setting: Setting::Model(model.trim().to_owned()),
        source: Source::Variable("BRIDLE_MODEL".to_owned()),
    });
    let providers = PROVIDERS.iter().flat_map(|provider| {
        let key = environment.secret(provider.key_variable).map(|key| Entry {
            setting: Setting::ApiKey(provider.name, key.clone()),
            source: Source::Variable(provider.key_variable.to_owned()),
        });
        let base_url = environment.text(provider.base_url_variable).map(|url| Entry {
            setting: Setting::BaseUrl(provider.name, url.trim().to_owned()),
            source: Source::Variable(provider.base_url_variable.to_owned()),
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
    let thinking = overrides.thinking.map(|level| Entry {
        setting: Setting::Thinking(level),
        source: Source::Flag("--thinking"),
    });
    model.into_iter().chain(mode).chain(thinking).collect()
}

/// The strongest value of every key so far.
#[derive(Default)]
struct Winners {
    model: Option<(String, Source)>,
    thinking: Option<(Effort, Source)>,
    fallback: Option<(String, Source)>,
    mode: Option<(Mode, Source)>,
    full_access: Option<(bool, Source)>,
    apply_patch: Option<(bool, Source)>,
    terminal: Option<(bool, Source)>,
    ca_file: Option<(PathBuf, Source)>,
    at_most: Option<(Tier, Source)>,
    max_processes: Option<(u32, Source)>,
    writable: Vec<(PathBuf, Source)>,
    idle_timeout: Option<(u32, Source)>,
    compression: Option<(Compression, Source)>,
    budget: BTreeMap<&'static str, (Value, Source)>,
    compaction: BTreeMap<&'static str, (Value, Source)>,
    patches: Vec<(Route, Box<ModelPatch>, Source)>,
    endpoints: BTreeMap<&'static str, Endpoint>,
    rules: Vec<(Rule, Source)>,
    faulty_rules: bool,
    servers: BTreeMap<String, (Box<ServerTable>, Source)>,
    instructions: InstructionsWinners,
    lsp: LspWinners,
    skills: SkillsWinners,
}

impl Winners {
    fn set(&mut self, Entry { setting, source }: Entry) {
        let is_variable = matches!(source, Source::Variable(_));
        match setting {
            Setting::Model(model) => self.model = Some((model, source)),
            Setting::Thinking(level) => self.thinking = Some((level, source)),
            Setting::Fallback(model) => self.fallback = Some((model, source)),
            Setting::Mode(mode) => self.mode = Some((mode, source)),
            Setting::FullAccess(flag) => self.full_access = Some((flag, source)),
            Setting::ApplyPatch(flag) => self.apply_patch = Some((flag, source)),
            Setting::Terminal(flag) => self.terminal = Some((flag, source)),
            Setting::CaFile(path) => self.ca_file = Some((path, source)),
            Setting::SandboxTier(tier) => self.at_most = Some((tier, source)),
            Setting::MaxProcesses(number) => self.max_processes = Some((number, source)),
            Setting::Writable(path) => self.writable.push((path, source)),
            Setting::IdleTimeout(seconds) => self.idle_timeout = Some((seconds, source)),
            Setting::Compression(form) => self.compression = Some((form, source)),
            Setting::Rule(rule) => self.rules.push((rule, source)),
            Setting::FaultyRules => self.faulty_rules = true,
            Setting::McpServer(name, server) => drop(self.servers.insert(name, (server, source))),
            Setting::Instructions(setting) => self.instructions.set(setting, source),
            Setting::Lsp(setting) => self.lsp.set(setting, source),
            Setting::Skills(setting) => self.skills.set(setting, source),
            Setting::Budget(key, value) => drop(self.budget.insert(key, (value, source))),
            Setting::Compaction(key, value) => drop(self.compaction.insert(key, (value, source))),
            Setting::Patch(route, patch) => self.patches.push((route, patch, source)),
            Setting::ApiKey(provider, key) if is_variable => {
                self.endpoint(provider).variable_key = Some((key, source));
            }
            Setting::ApiKey(provider, key) => {
                self.endpoint(provider).file_key = Some((key, source))
            }
            Setting::KeyVariable(provider, variable) => {
                self.endpoint(provider).key_variable = Some((variable, source));
            }
            Setting::KeyCommand(provider, command) => {
                self.endpoint(provider).command = Some((command, source));
            }
            Setting::BaseUrl(provider, url) if is_variable => {
                self.endpoint(provider).variable_url = Some((url, source));
            }
            Setting::BaseUrl(provider, url) => {
                self.endpoint(provider).file_url = Some((url, source))
            }
        }
    }

    fn endpoint(&mut self, provider: &'static str) -> &mut Endpoint {
        self.endpoints.entry(provider).or_default()
    }

    fn settle(
        mut self,
        places: Places,
        environment: &Environment,
        mut problems: Vec<String>,
    ) -> Settings {
        let mut rows = Vec::new();
        let none = Endpoint::default();
        let providers: Vec<_> = PROVIDERS
            .iter()
            .map(|known| {
                let endpoint = self.endpoints.get(known.name).unwrap_or(&none);
                provider(known, endpoint, environment, &mut rows, &mut problems)
            })
            .collect();
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
        let fallback = self.fallback(&mut rows, &mut problems);
        let full_access = self.full_access.as_ref().is_some_and(|(flag, _)| *flag);
        let mode = self.mode(full_access, &mut problems);
        let catalogue = self.catalogue(places.state.as_deref(), &mut rows, &mut problems);
        let servers = self.servers(environment, &mut rows, &mut problems);
        let lsp = std::mem::take(&mut self.lsp);
        let lsp = lsp.settle(places.state.as_deref(), environment, &mut rows, &mut problems);
        let instructions = std::mem::take(&mut self.instructions).settle(&mut rows);
        let skills = std::mem::take(&mut self.skills);
        let skills = skills.settle(places.config.as_deref(), environment, &mut rows, &mut problems);
        let budget = values_of(&self.budget);
        let compaction = values_of(&self.compaction);
        let settings = Settings {
            thinking: self.thinking.as_ref().map(|(level, _)| *level),
            fallback,
            catalogue,
            ca_file: self.ca_file.as_ref().map(|(path, _)| path.clone()),
            sandbox: SandboxSettings {
                at_most: self.at_most.as_ref().map_or(Tier::Full, |(tier, _)| *tier),
                writable: self.writable.iter().map(|(path, _)| path.clone()).collect(),
                max_processes: self.max_processes.as_ref().map_or(DEFAULT_PROCESSES, |(n, _)| *n),
            },
            idle_timeout: self
                .idle_timeout
                .as_ref()
                .map_or(HttpClient::DEFAULT_IDLE, |idle| Duration::from_secs(u64::from(idle.0))),
            route,
            mode,
            full_access,
            apply_patch: self.apply_patch.as_ref().is_some_and(|(flag, _)| *flag),
            terminal: self.terminal.as_ref().is_some_and(|(flag, _)| *flag),
            budget,
            compaction,
            permissions: self.permissions(),
            servers,
            instructions,
            lsp,
            skills,
            compression: self.compression.as_ref().map(|(form, _)| *form).unwrap_or_default(),
            providers,
            problems,
            state: places.state,
            config: places.config,
            rows: Vec::new(),
        };
        rows.extend(self.plain_rows(settings.mode));
        rows.sort_by(|a, b| a.key.cmp(&b.key));
        Settings { rows, ..settings }
    }

    fn permissions(&self) -> RulesConfig {
        let mut config = RulesConfig { faulty: self.faulty_rules, ..RulesConfig::default() };
        for (rule, _) in &self.rules {
            let list = match rule.effect {
                Effect::Allow => &mut config.allow,
                Effect::Ask => &mut config.ask,
                Effect::Deny => &mut config.deny,
            };
            list.push(rule.text().to_owned());
        }
        config
    }

    /// The MCP servers that can be used, by name.
    fn servers(
        &self,
        environment: &Environment,
        rows: &mut Vec<Row>,
        problems: &mut Vec<String>,
    ) -> Vec<ConfiguredServer> {
        let mut servers = Vec::new();
        for (name, (table, source)) in &self.servers {
            match ConfiguredServer::new(name, table, environment) {
                Ok(server) => {
                    let off = if server.enabled { "" } else { " (off)" };
                    let value = format!("{}{off}", server.server.reach);
                    rows.push(row(&format!("mcp.{name}"), value, source.clone()));
                    servers.push(server);
                }
                Err(fault) => {
                    problems.push(format!("{source}: mcp.{name}: {fault}; it is left out"));
                }
            }
        }
        servers
    }

    /// The rows of what is one value each.
    fn plain_rows(self, mode: Mode) -> Vec<Row> {
        let mut rows = Vec::new();
        let flags = [
            ("full_access", self.full_access),
            ("apply_patch", self.apply_patch),
            ("terminal", self.terminal),
        ];
        for (key, flag) in flags {
            rows.extend(flag.map(|(flag, source)| row(key, flag.to_string(), source)));
        }
        rows.extend(self.mode.map(|(_, source)| row("mode", mode.id().to_owned(), source)));
        rows.extend(self.thinking.map(|(l, source)| row("thinking", l.to_string(), source)));
        rows.extend(
            self.ca_file.map(|(path, source)| row("ca_file", path.display().to_string(), source)),
        );
        rows.extend(
            self.at_most.map(|(tier, source)| row("sandbox.at_most", tier.to_string(), source)),
        );
        rows.extend(
            self.max_processes
                .map(|(n, source)| row("sandbox.max_processes", n.to_string(), source)),
        );
        rows.extend(
            self.writable
                .into_iter()
                .map(|(path, source)| row("sandbox.writable", path.display().to_string(), source)),
        );
        rows.extend(
            self.idle_timeout.map(|(n, source)| row("idle_timeout_s", n.to_string(), source)),
        );
        for (section, values) in [("budget", self.budget), ("compaction", self.compaction)] {
            rows.extend(values.into_iter().map(|(key, (value, source))| {
                let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                row(&format!("{section}.{key}"), value, source)
            }));
        }
        rows.extend(self.compression.map(|(form, source)| {
            let name = match form {
                Compression::Zstd => "zstd",
                Compression::None => "none",
            };
            row("sessions.compression", name.to_owned(), source)
        }));
        rows.extend(self.rules.into_iter().map(|(rule, source)| {
            row(&format!("permissions.{}", rule.effect), rule.text().to_owned(), source)
        }));
        rows
    }

    fn fallback(&self, rows: &mut Vec<Row>, problems: &mut Vec<String>) -> Option<Route> {
        let (text, source) = self.fallback.as_ref()?;
        rows.push(row("fallback", text.clone(), source.clone()));
        let before = problems.len();
        let route = chosen_route(text, source, problems);
        (problems.len() == before).then_some(route)
    }

    /// The built-in catalogue itself, as long as nobody has more to say.
    fn catalogue(
        &self,
        state: Option<&Path>,
        rows: &mut Vec<Row>,
        problems: &mut Vec<String>,
    ) -> Cow<'static, Catalogue> {
        let listed = state.map_or_else(|| Ok(Listed::default()), Listed::read);
        let listed = listed.unwrap_or_else(|problem| {
            problems.push(problem);
            Listed::default()
        });
        if listed.is_empty() && self.patches.is_empty() {
            return Cow::Borrowed(Catalogue::builtin());
        }
        let mut catalogue = listed.over(Catalogue::builtin().clone());
        for (route, patch, source) in &self.patches {
            if let Some(fault) = route_fault(route) {
                problems.push(format!("{source}: {fault}"));
                continue;
            }
            rows.push(row(&format!("models.\"{route}\""), "(changed)".into(), source.clone()));
            catalogue = catalogue.with_patch(route, patch);
        }
        Cow::Owned(catalogue)
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

fn provider(
    known: &KnownProvider,
    endpoint: &Endpoint,
    environment: &Environment,
    rows: &mut Vec<Row>,
    problems: &mut Vec<String>,
) -> ProviderSettings {
    let default = Catalogue::builtin().provider(known.name).map(|provider| &*provider.base_url);
    let path = |last: &str| format!("providers.{}.{last}", known.name);
    let (key, withheld) = match endpoint.key(known, default, environment, problems) {
        Ok(key) => (key, None),
        Err(reason) => (None, Some(reason)),
    };
    if let Some(key) = &key {
        let (last, value) = match &key.key {
            KeySource::Key(_) => ("api_key", "(set)".to_owned()),
            KeySource::Command(words) => {
                ("credential_command", words.first().cloned().unwrap_or_default())
            }
        };
        rows.push(row(&path(last), value, key.source.clone()));
    }
    problems.extend(withheld.clone());
    let url = match endpoint.url() {
        Some((text, source)) => check_url(text)
            // Not the default instead: the key must not go to a host that nobody chose.
            .map_err(|fault| {
                problems.push(format!("{source}: the base URL of {} {fault}", known.name));
            })
            .map(|()| (text.clone(), source.clone()))
            .ok(),
        None => default.map(|url| (url.to_owned(), Source::Catalogue)),
    };
    rows.extend(url.clone().map(|(text, source)| row(&path("base_url"), text, source)));
    ProviderSettings {
        name: known.name,
        supported: known.is_supported(),
        key_source: key.as_ref().map(|key| key.source.clone()),
        key: key.map(|key| key.key),
        withheld,
        base_url: url.map(|(text, _)| text.trim_end_matches('/').to_owned()),
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

/// The values of a section without where each came from.
fn values_of(section: &BTreeMap<&'static str, (Value, Source)>) -> Map<String, Value> {
    section.iter().map(|(key, (value, _))| ((*key).to_owned(), value.clone())).collect()
}

#[cfg(test)]
mod tests;
