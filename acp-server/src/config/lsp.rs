//! The language servers of a process: the built-in table with what the user says over it, and where they
//! may run. Nothing that a workspace says is heard.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bridle_lsp::{LspSettings, MIB, PatchError, ServerPatch, ServerTable};
use bridle_world::servers::Secrets;

use super::environment::Environment;
use super::file::{LspSetting, nearest};
use super::servers::{Filler, fill, keys_among, open_value};
use super::settings::{Row, Source};

/// `[lsp]`.
#[derive(Clone, Debug)]
pub struct LspConfig {
    /// Whether there are any language servers at all.
    pub enabled: bool,
    /// The servers and their limits.
    pub settings: LspSettings,
    /// The names of servers that the user does not want.
    pub switched_off: Vec<String>,
    /// The names of servers of which the user says something.
    pub changed: Vec<String>,
}

impl LspConfig {
    /// The servers that there are, and their limits: none where they are switched off.
    pub fn in_force(&self) -> LspSettings {
        let mut settings = self.settings.clone();
        if !self.enabled {
            settings.servers.clear();
        }
        settings
    }
}

/// What the layers have said so far; the strongest last.
#[derive(Default)]
pub(super) struct LspWinners {
    enabled: Option<(bool, Source)>,
    after_edit: Option<(bool, Source)>,
    most: Option<(u32, Source)>,
    rest_after: Option<(u32, Source)>,
    memory: Option<(u32, Source)>,
    trusted: Vec<(String, Source)>,
    servers: BTreeMap<String, (Box<ServerPatch>, Source)>,
}

impl LspWinners {
    pub(super) fn set(&mut self, setting: LspSetting, source: Source) {
        match setting {
            LspSetting::Enabled(flag) => self.enabled = Some((flag, source)),
            LspSetting::AfterEdit(flag) => self.after_edit = Some((flag, source)),
            LspSetting::Most(number) => self.most = Some((number, source)),
            LspSetting::RestAfter(number) => self.rest_after = Some((number, source)),
            LspSetting::Memory(number) => self.memory = Some((number, source)),
            LspSetting::Trusted(folder) => self.trusted.push((folder, source)),
            LspSetting::Server(name, patch) => {
                self.servers.insert(name, (patch, source));
            }
        }
    }

    /// `state` is where it is written down what servers say.
    pub(super) fn settle(
        self,
        state: Option<&Path>,
        environment: &Environment,
        rows: &mut Vec<Row>,
        problems: &mut Vec<String>,
    ) -> LspConfig {
        let mut row = |key: &str, value: String, source: Source| {
            rows.push(Row { key: format!("lsp.{key}"), value, source });
        };
        let mut table = ServerTable::built_in().clone();
        let mut changed = Vec::new();
        for (name, (patch, source)) in &self.servers {
            let known: Vec<_> = ServerTable::built_in().names().collect();
            let patched = filled(patch, environment).and_then(|patch| {
                table.patch(name, &patch).map_err(|error| match error {
                    PatchError::Incomplete => match nearest(name, &known) {
                        Some(near) => format!("{error} (did you mean `{near}`?)"),
                        None => error.to_string(),
                    },
                    _ => error.to_string(),
                })
            });
            match patched {
                Ok(()) => {
                    let off = if patch.enabled == Some(false) { "(off)" } else { "(changed)" };
                    let new = if known.contains(&name.as_str()) { off } else { "(new)" };
                    row(name, new.to_owned(), source.clone());
                    changed.push(name.clone());
                }
                Err(fault) => {
                    problems.push(format!("{source}: lsp.{name}: {fault}; it is left out"))
                }
            }
        }
        let mut settings = LspSettings::new(table.servers());
        settings.log = state.map(|state| state.join("lsp.log"));
        for (folder, source) in self.trusted {
            match in_home(&folder, environment) {
                Some(path) => {
                    row("trusted", path.display().to_string(), source);
                    settings.trusted.push(path);
                }
                None => problems.push(format!(
                    "{source}: `trusted`: HOME does not say where {folder} is; it is left out"
                )),
            }
        }
        if let Some((flag, source)) = self.after_edit {
            settings.after_edit = flag;
            row("after_edit", flag.to_string(), source);
        }
        if let Some((most, source)) = self.most {
            settings.most = usize::try_from(most).unwrap_or(usize::MAX);
            row("max_servers", most.to_string(), source);
        }
        if let Some((seconds, source)) = self.rest_after {
            settings.idle_limit = Duration::from_secs(seconds.into());
            row("rest_after_s", seconds.to_string(), source);
        }
        if let Some((mib, source)) = self.memory {
            settings.memory_limit = u64::from(mib) * MIB;
            row("max_memory_mib", mib.to_string(), source);
        }
        let enabled = self.enabled.map(|(flag, source)| {
            row("enabled", flag.to_string(), source);
            flag
        });
        let switched_off = table.switched_off();
        LspConfig { enabled: enabled.unwrap_or(true), settings, switched_off, changed }
    }
}

/// With what its texts name of the environment.
fn filled(patch: &ServerPatch, environment: &Environment) -> Result<ServerPatch, String> {
    let open = |text: &String| fill(text, |name| open_value(environment, name));
    let mut patch = patch.clone();
    patch.command = patch.command.as_ref().map(open).transpose()?;
    if let Some(arguments) = &mut patch.args {
        *arguments = arguments.iter().map(open).collect::<Result<_, _>>()?;
    }
    let mut filler = Filler::new(environment);
    patch.env = filler.fill_all(&patch.env)?;
    patch.secrets = Secrets::new(keys_among(patch.env.iter()).into_iter().chain(filler.keys));
    Ok(patch)
}

fn in_home(folder: &str, environment: &Environment) -> Option<PathBuf> {
    let Some(below) = folder.strip_prefix("~/") else { return Some(PathBuf::from(folder)) };
    let home = environment.path("HOME").filter(|home| home.is_absolute())?;
    Some(home.join(below))
}

#[cfg(test)]
mod tests;
