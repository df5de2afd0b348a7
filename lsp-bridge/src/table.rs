//! The servers that Bridle knows: a dated TOML file in the binary, with what the user says differently put
//! over it.
//!
//! Nothing here looks at the machine: whether a server is there is for [`crate::locate`] to find out.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::LazyLock;
use std::time::Duration;

use bridle_world::servers::Secrets;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{FileType, Hasty, Marker, Nesting, NodePackage, Purpose, ServerDefinition, Variables};

/// How long a server may take to answer `initialize`, in seconds, where nothing else is said.
const START_LIMIT_S: u32 = 30;

/// All known servers, those first that are preferred for their kind of file.
#[derive(Clone, Debug)]
pub struct ServerTable {
    as_of: String,
    rows: Vec<Row>,
}

/// The form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    as_of: String,
    #[serde(rename = "server")]
    rows: Vec<Row>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    command: Vec<String>,
    files: BTreeMap<String, String>,
    workspace: Vec<Marker>,
    package: Vec<Marker>,
    #[serde(default)]
    nesting: Nesting,
    #[serde(default)]
    needs_marker: bool,
    npm: Option<NodePackage>,
    #[serde(default)]
    purpose: Purpose,
    #[serde(default = "nothing")]
    settings: Value,
    section: Option<String>,
    #[serde(default)]
    initialization: Value,
    start_limit_s: Option<u32>,
    #[serde(default)]
    warm_s: u32,
    #[serde(default)]
    hasty: Option<Hasty>,
    #[serde(default)]
    asks_settings: bool,
    #[serde(default = "yes")]
    cancels: bool,
    #[serde(default)]
    background: Vec<String>,
    #[serde(default)]
    checks: Vec<String>,
    #[serde(default)]
    whole_with: Vec<Marker>,
    install: String,
    source: String,
    #[serde(skip, default = "yes")]
    enabled: bool,
    #[serde(skip)]
    environment: Variables,
}

fn yes() -> bool {
    true
}

fn nothing() -> Value {
    Value::Object(Map::new())
}

/// What a user says of a server, or of one that the table does not have.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerPatch {
    /// Its program: a name on the search path, or an absolute path.
    pub command: Option<String>,
    /// The program's arguments. Without any, those of a known server stay as they are.
    pub args: Option<Vec<String>>,
    /// Variables for it alone.
    pub env: BTreeMap<String, String>,
    /// The keys that `env` holds, as far as they are known to be any.
    #[serde(skip)]
    pub secrets: Secrets,
    /// Endings or whole names of its files, each with the identifier of its language.
    pub files: Option<BTreeMap<String, String>>,
    /// What marks the root of a workspace.
    pub workspace: Option<Vec<Marker>>,
    /// What marks the root of a package.
    pub package: Option<Vec<Marker>>,
    /// What it needs at the root to know the whole project.
    pub whole_with: Option<Vec<Marker>>,
    /// What it is for.
    pub purpose: Option<Purpose>,
    /// Put over what it is told when it asks for its configuration.
    pub settings: Option<BTreeMap<String, Value>>,
    /// Put over what it is told with `initialize`.
    pub initialization: Option<BTreeMap<String, Value>>,
    /// Whether it is used at all.
    pub enabled: Option<bool>,
    /// How long it may take to answer `initialize`, in seconds.
    pub start_timeout_s: Option<NonZeroU32>,
}

/// Why a row cannot be what the user says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// It is not in the table, and what is said does not make a server.
    #[error("Bridle does not know a server of that name, so it needs a `command` and `files`")]
    Incomplete,
    /// The program would be looked for beside whatever folder is current.
    #[error("`command` is the name of a program on the search path, or an absolute path")]
    RelativeCommand,
    /// A kind of file that no file can be of.
    #[error("`files` maps endings as \".rs\" or whole names to the identifiers of their languages")]
    Files,
    /// A marker that lies elsewhere.
    #[error("a marker is a name, or a path below the folder that it marks: {0}")]
    Marker(String),
}

impl ServerTable {
    /// The table in the binary.
    pub fn built_in() -> &'static Self {
        static BUILT_IN: LazyLock<ServerTable> = LazyLock::new(|| {
            ServerTable::parse(include_str!("servers.toml")).unwrap_or_else(|error| {
                tracing::error!(%error, "the built-in table of language servers is unreadable");
                ServerTable { as_of: String::new(), rows: Vec::new() }
            })
        });
        &BUILT_IN
    }

    fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let File { as_of, rows } = toml::from_str(text)?;
        Ok(Self { as_of, rows })
    }

    /// The day of which the facts are, e.g. `2026-12-02`.
    pub fn as_of(&self) -> &str {
        &self.as_of
    }

    /// Every name, also of servers that are switched off.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(|row| row.name.as_str())
    }

    /// With what the user says of the server `name`. One that is new goes before all others: it was
    /// wanted.
    ///
    /// # Errors
    /// What is wrong with `patch`; the table has stayed as it was.
    pub fn patch(&mut self, name: &str, patch: &ServerPatch) -> Result<(), PatchError> {
        let at = self.rows.iter().position(|row| row.name == name);
        let known = at.and_then(|at| self.rows.get(at)).cloned();
        let row = known.map_or_else(|| Row::new(name, patch), Ok)?.patched(patch)?;
        match at.and_then(|at| self.rows.get_mut(at)) {
            Some(place) => *place = row,
            None => self.rows.insert(0, row),
        }
        Ok(())
    }

    /// The servers that are to be used, in the order of preference.
    pub fn servers(&self) -> Vec<ServerDefinition> {
        self.rows.iter().filter(|row| row.enabled).map(Row::definition).collect()
    }

    /// The names of those that the user has switched off.
    pub fn switched_off(&self) -> Vec<String> {
        self.rows.iter().filter(|row| !row.enabled).map(|row| row.name.clone()).collect()
    }
}

impl Row {
    /// A server that only the user knows.
    fn new(name: &str, patch: &ServerPatch) -> Result<Self, PatchError> {
        let (Some(command), Some(files)) = (&patch.command, &patch.files) else {
            return Err(PatchError::Incomplete);
        };
        Ok(Self {
            name: name.to_owned(),
            command: vec![command.clone()],
            files: files.clone(),
            workspace: Vec::new(),
            package: Vec::new(),
            nesting: Nesting::Outermost,
            needs_marker: false,
            npm: None,
            purpose: Purpose::Everything,
            settings: nothing(),
            section: None,
            initialization: Value::Null,
            start_limit_s: None,
            warm_s: 0,
            hasty: None,
            asks_settings: false,
            cancels: true,
            background: Vec::new(),
            checks: Vec::new(),
            whole_with: Vec::new(),
            install: String::new(),
            source: "your configuration".to_owned(),
            enabled: true,
            environment: Variables::default(),
        })
    }

    fn patched(mut self, patch: &ServerPatch) -> Result<Self, PatchError> {
        if let Some(program) = &patch.command {
            let arguments = self.command.drain(..).skip(1).collect::<Vec<_>>();
            self.command = [vec![program.clone()], arguments].concat();
            // Whoever names the program knows what it works on top of.
            self.npm = None;
        }
        if let Some(arguments) = &patch.args {
            self.command.truncate(1);
            self.command.extend(arguments.iter().cloned());
        }
        replace(&mut self.files, patch.files.as_ref());
        replace(&mut self.workspace, patch.workspace.as_ref());
        replace(&mut self.package, patch.package.as_ref());
        replace(&mut self.whole_with, patch.whole_with.as_ref());
        replace(&mut self.purpose, patch.purpose.as_ref());
        replace(&mut self.enabled, patch.enabled.as_ref());
        if let Some(seconds) = patch.start_timeout_s {
            self.start_limit_s = Some(seconds.get());
        }
        if let Some(settings) = &patch.settings {
            put_over(&mut self.settings, &object(settings));
        }
        if let Some(options) = &patch.initialization {
            let options = object(options);
            let option = self.npm.as_ref().and_then(|npm| npm.option.as_deref());
            if option.is_some_and(|option| at_path(&options, option).is_some()) {
                self.npm = None;
            }
            put_over(&mut self.initialization, &options);
        }
        let pairs = patch.env.iter().map(|(name, value)| (name.clone(), value.clone()));
        self.environment = Variables { pairs: pairs.collect(), secrets: patch.secrets.clone() };
        self.check().map(|()| self)
    }

    fn check(&self) -> Result<(), PatchError> {
        let program = self.command.first().map_or("", String::as_str);
        if program.is_empty() || (program.contains('/') && !program.starts_with('/')) {
            return Err(PatchError::RelativeCommand);
        }
        let is_kind = |(name, language): (&String, &String)| {
            !name.is_empty() && !name.contains('/') && !language.is_empty()
        };
        if self.files.is_empty() || !self.files.iter().all(is_kind) {
            return Err(PatchError::Files);
        }
        let markers = self.workspace.iter().chain(&self.package).chain(&self.whole_with);
        match markers.into_iter().find(|marker| !is_below(&marker.name)) {
            Some(marker) => Err(PatchError::Marker(marker.name.clone())),
            None => Ok(()),
        }
    }

    fn definition(&self) -> ServerDefinition {
        let kinds = self.files.iter();
        let kinds = kinds.map(|(name, it)| FileType { name: name.clone(), language: it.clone() });
        let mut initialization = self.initialization.clone();
        if let Some(section) = self.section.as_deref().and_then(|it| self.settings.get(it)) {
            let mut whole = section.clone();
            put_over(&mut whole, &initialization);
            initialization = whole;
        }
        let seconds = |seconds: u32| Duration::from_secs(seconds.into());
        ServerDefinition {
            name: self.name.clone(),
            command: self.command.clone(),
            files: kinds.collect(),
            workspace_markers: self.workspace.clone(),
            package_markers: self.package.clone(),
            nesting: self.nesting,
            needs_marker: self.needs_marker,
            package: self.npm.clone(),
            purpose: self.purpose,
            settings: self.settings.clone(),
            initialization,
            start_limit: seconds(self.start_limit_s.unwrap_or(START_LIMIT_S)),
            warm_time: seconds(self.warm_s),
            hasty: self.hasty,
            asks_settings: self.asks_settings,
            cancels: self.cancels,
            background: self.background.clone(),
            checks: self.checks.clone(),
            whole_with: self.whole_with.clone(),
            environment: self.environment.clone(),
            install: self.install.clone(),
            source: self.source.clone(),
        }
    }
}

fn replace<T: Clone>(place: &mut T, by: Option<&T>) {
    if let Some(by) = by {
        place.clone_from(by);
    }
}

fn object(fields: &BTreeMap<String, Value>) -> Value {
    Value::Object(fields.iter().map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Whether a marker's text stays below the folder that it marks.
fn is_below(name: &str) -> bool {
    let is_part = |part: &str| !matches!(part, "" | "." | "..");
    name.split('/').all(is_part) && !(name.contains('/') && name.contains('*'))
}

/// Objects are put into one another; everything else is replaced, and `null` replaces nothing.
fn put_over(under: &mut Value, over: &Value) {
    match (under, over) {
        (_, Value::Null) => {}
        (Value::Object(under), Value::Object(over)) => {
            for (name, value) in over {
                put_over(under.entry(name.as_str()).or_insert(Value::Null), value);
            }
        }
        (under, over) => under.clone_from(over),
    }
}

/// What stands at a dotted path.
pub(crate) fn at_path<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(value, |value, name| value.get(name))
}

#[cfg(test)]
mod tests;
