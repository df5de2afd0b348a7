//! One configuration file: read with a limit, parsed as far as it can be, every fault named with
//! file and line. Knows the form of a file, not which layer wins.

use std::path::{Path, PathBuf};

use bridle_agent::{BUDGET_LIMITS, Mode, Rule};
use bridle_model::{Effort, ModelPatch, Secret};
use bridle_session::Route;
use bridle_store::Compression;
use bridle_world::sandbox::Tier;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::provider::{KnownProvider, PROVIDERS};
use super::settings::Source;

mod instructions;
mod lsp;
mod mcp;
mod permissions;
mod sandbox;
mod skills;
mod values;

pub(super) use instructions::InstructionsSetting;
pub(super) use lsp::LspSetting;
pub(super) use mcp::ServerTable;
pub(super) use skills::SkillsSetting;

/// The largest configuration file that is read; a larger one is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a key may be set to, typed.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Model(String),
    Mode(Mode),
    FullAccess(bool),
    ApplyPatch(bool),
    Terminal(bool),
    IdleTimeout(u32),
    Thinking(Effort),
    Fallback(String),
    CaFile(PathBuf),
    SandboxTier(Tier),
    MaxProcesses(u32),
    /// A folder that commands may write besides the workspace.
    Writable(PathBuf),
    Compression(Compression),
    /// A value of `[compaction]`.
    Compaction(&'static str, serde_json::Value),
    /// A limit of `[budget]`, or its currency.
    Budget(&'static str, serde_json::Value),
    /// What the user says of a model.
    Patch(Route, Box<ModelPatch>),
    Rule(Rule),
    /// A permission rule, or a list of them, could not be read.
    FaultyRules,
    ApiKey(&'static str, Secret),
    /// An MCP server and its name.
    McpServer(String, Box<ServerTable>),
    /// Something of `[instructions]`.
    Instructions(InstructionsSetting),
    /// Something of `[lsp]`.
    Lsp(LspSetting),
    /// Something of `[skills]`.
    Skills(SkillsSetting),
    /// The variable that holds the key.
    KeyVariable(&'static str, String),
    /// What prints the key.
    KeyCommand(&'static str, Vec<String>),
    BaseUrl(&'static str, String),
}

/// A setting with the place it came from.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) setting: Setting,
    pub(super) source: Source,
}

/// Which file it is; they differ in what they may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileKind {
    BuiltIn,
    Config,
    Credentials,
}

/// What came out of a file.
#[derive(Debug, Default)]
pub(super) struct FileLayer {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<String>,
}

/// Reads a file; a missing one is an empty layer.
pub(super) fn read(path: &Path, kind: FileKind) -> FileLayer {
    let text = match read_text(path) {
        Ok(Some(text)) => text,
        Ok(None) => return FileLayer::default(),
        // It may have held rules.
        Err(problem) => {
            let source = Source::File { path: path.to_owned(), line: 1 };
            let faulty = Entry { setting: Setting::FaultyRules, source };
            let entries = (kind == FileKind::Config).then_some(faulty).into_iter().collect();
            return FileLayer { entries, problems: vec![problem] };
        }
    };
    let mut layer = parse(&text, path, kind);
    let holds_key = |entry: &Entry| matches!(entry.setting, Setting::ApiKey(..));
    if layer.entries.iter().any(holds_key)
        && let Some(mode) = open_to_others(path)
    {
        layer.entries.retain(|entry| !holds_key(entry));
        layer.problems.push(format!(
            "{}: its keys are not used, because others can read it (mode {mode:04o}); run chmod \
             600 on it",
            path.display()
        ));
    }
    layer
}

fn read_text(path: &Path) -> Result<Option<String>, String> {
    let metadata = match fs_err::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return match path.is_symlink() {
                true => Err(format!("{}: is a link to nothing; it is not used", path.display())),
                false => Ok(None),
            };
        }
        Err(error) => return Err(format!("{error}; it is not used")),
    };
    // A pipe or a device would block the start for ever.
    if !metadata.is_file() {
        return Err(format!("{}: is not a regular file; it is not used", path.display()));
    }
    if metadata.len() > MAX_FILE_BYTES {
        return Err(format!(
            "{}: is larger than {MAX_FILE_BYTES} bytes; it is not used",
            path.display()
        ));
    }
    fs_err::read_to_string(path).map(Some).map_err(|error| format!("{error}; it is not used"))
}

#[cfg(unix)]
fn open_to_others(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs_err::metadata(path).ok()?.permissions().mode() & 0o7777;
    (mode & 0o077 != 0).then_some(mode)
}

#[cfg(not(unix))]
fn open_to_others(_: &Path) -> Option<u32> {
    None
}

/// Parses a file's text; `path` is only named.
pub(super) fn parse(text: &str, path: &Path, kind: FileKind) -> FileLayer {
    let (root, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { text, path, kind, entries: Vec::new(), problems: Vec::new() };
    // What the parser passed over may have been a rule.
    if !errors.is_empty() && text.contains("permissions") {
        reader.entry(0, Setting::FaultyRules);
    }
    for error in errors {
        let start = error.span().map_or(0, |span| span.start);
        reader.problem(start, &format!("{}; the rest of the file is used", error.message()));
    }
    reader.root(root.get_ref());
    // The parser yields keys in alphabetical order; a person reads a file from the top.
    reader.problems.sort_by_key(|(line, _)| *line);
    let problems = reader
        .problems
        .into_iter()
        .map(|(line, text)| format!("{}:{line}: {text}", path.display()))
        .collect();
    FileLayer { entries: reader.entries, problems }
}

/// The keys of the top level.
const ROOT_KEYS: [&str; 20] = [
    "model",
    "thinking",
    "fallback",
    "mode",
    "full_access",
    "apply_patch",
    "terminal",
    "ca_file",
    "budget",
    "compaction",
    "idle_timeout_s",
    "permissions",
    "sandbox",
    "instructions",
    "mcp",
    "lsp",
    "skills",
    "sessions",
    "models",
    "providers",
];

/// The keys of `[compaction]`.
const COMPACTION_KEYS: [&str; 4] = ["auto", "trigger", "tail", "headroom"];

/// The keys of one provider.
const PROVIDER_KEYS: [&str; 4] = ["api_key", "api_key_variable", "credential_command", "base_url"];

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    kind: FileKind,
    entries: Vec<Entry>,
    /// Line and text.
    problems: Vec<(usize, String)>,
}

/// Whether a section looks like permission rules under another name.
fn holds_rules(section: &Spanned<DeValue<'_>>) -> bool {
    let table = section.get_ref().as_table();
    table.is_some_and(|table| {
        table.keys().any(|key| matches!(key.get_ref().as_ref(), "allow" | "ask" | "deny"))
    })
}

impl Reader<'_> {
    fn root(&mut self, table: &DeTable<'_>) {
        for (key, value) in table {
            let start = key.span().start;
            match key.get_ref().as_ref() {
                "providers" => self.providers(value),
                known if self.kind == FileKind::Credentials && ROOT_KEYS.contains(&known) => {
                    self.problem(start, &format!("`{known}` belongs in config.toml; ignored"));
                }
                "model" => self.text_value("model", value, |text| Ok(Setting::Model(text))),
                "thinking" => self.text_value("thinking", value, values::thinking),
                "fallback" => {
                    self.text_value("fallback", value, |text| Ok(Setting::Fallback(text)))
                }
                "ca_file" => {
                    self.text_value("ca_file", value, |text| Ok(Setting::CaFile(text.into())));
                    self.is_there("ca_file", value);
                }
                "mode" => self.text_value("mode", value, values::mode),
                "full_access" => self.flag("full_access", value, Setting::FullAccess),
                "apply_patch" => self.flag("apply_patch", value, Setting::ApplyPatch),
                "terminal" => self.flag("terminal", value, Setting::Terminal),
                "idle_timeout_s" => self.number("idle_timeout_s", value, Setting::IdleTimeout),
                "budget" => self.budget(value),
                "compaction" => self.compaction(value),
                "models" => self.models(value),
                "permissions" => self.permissions(value),
                "sandbox" => self.sandbox(value),
                "instructions" => self.instructions(value),
                "mcp" => self.mcp(value),
                "lsp" => self.lsp(value),
                "skills" => self.skills(value),
                "sessions" => self.sessions(value),
                unknown => {
                    self.unknown(start, "key", unknown, &ROOT_KEYS);
                    if holds_rules(value) {
                        self.entry(start, Setting::FaultyRules);
                    }
                }
            }
        }
    }

    /// Names a file that is missing. The setting stays: whoever needs the file must fail, and not
    /// go on without it.
    fn is_there(&mut self, key: &str, value: &Spanned<DeValue<'_>>) {
        let path = value.get_ref().as_str().map(str::trim).filter(|path| !path.is_empty());
        if let Some(path) = path.filter(|path| !Path::new(path).is_file()) {
            let start = value.span().start;
            self.problem(start, &format!("`{key}`: there is no file {path}"));
        }
    }

    fn flag(&mut self, key: &str, value: &Spanned<DeValue<'_>>, setting: fn(bool) -> Setting) {
        match value.get_ref().as_bool() {
            Some(flag) => self.entry(value.span().start, setting(flag)),
            None => self.wrong_type(key, "true or false", value),
        }
    }

    fn number(&mut self, key: &str, value: &Spanned<DeValue<'_>>, setting: fn(u32) -> Setting) {
        let number = value
            .get_ref()
            .as_integer()
            .and_then(|digits| u32::from_str_radix(digits.as_str(), digits.radix()).ok());
        match number.filter(|number| *number > 0) {
            Some(number) => self.entry(value.span().start, setting(number)),
            None => self.wrong_type(key, "a whole number from 1", value),
        }
    }

    fn budget(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("budget", "a table", value);
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match BUDGET_LIMITS.iter().find(|limit| **limit == name) {
                Some(limit) => match values::limit(limit, value.get_ref()) {
                    Ok(setting) => self.entry(value.span().start, setting),
                    Err(problem) => self.problem(value.span().start, &problem),
                },
                None if name == "currency" => {
                    self.text_value("currency", value, values::currency);
                }
                None => self.unknown(key.span().start, "key", name, &values::budget_keys()),
            }
        }
    }

    fn compaction(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("compaction", "a table", value);
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match COMPACTION_KEYS.iter().find(|known| **known == name) {
                Some(known) => match values::compaction(known, value.get_ref()) {
                    Ok(setting) => self.entry(value.span().start, setting),
                    Err(problem) => self.problem(value.span().start, &problem),
                },
                None => self.unknown(key.span().start, "key", name, &COMPACTION_KEYS),
            }
        }
    }

    fn models(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("models", "a table", value);
        };
        for (key, value) in table {
            let Some(route) = Route::parse(key.get_ref()) else {
                let text =
                    format!("`{}` names no model; write provider/model; ignored", key.get_ref());
                self.problem(key.span().start, &text);
                continue;
            };
            match values::patch(value) {
                Ok(patch) => self.entry(key.span().start, Setting::Patch(route, Box::new(patch))),
                Err((at, fault)) => self.problem(at, &format!("model {route}: {fault}; ignored")),
            }
        }
    }

    fn sessions(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("sessions", "a table", value);
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "compression" => self.text_value("compression", value, values::compression),
                unknown => self.unknown(key.span().start, "key", unknown, &["compression"]),
            }
        }
    }

    fn providers(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("providers", "a table", value);
        };
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            match (KnownProvider::named(name), value.get_ref().as_table()) {
                (Some(provider), Some(table)) => self.provider(provider, table),
                (Some(_), None) => self.wrong_type(name, "a table", value),
                (None, _) => {
                    let known: Vec<_> = PROVIDERS.iter().map(|p| p.name).collect();
                    self.unknown(key.span().start, "provider", name, &known);
                }
            }
        }
    }

    fn provider(&mut self, provider: &'static KnownProvider, table: &DeTable<'_>) {
        for (key, value) in table {
            let name = provider.name;
            match key.get_ref().as_ref() {
                "api_key" => {
                    self.text_value("api_key", value, |key| {
                        Ok(Setting::ApiKey(name, Secret::new(key)))
                    });
                }
                known if self.kind == FileKind::Credentials && PROVIDER_KEYS.contains(&known) => {
                    let text = format!("`{known}` belongs in config.toml; ignored");
                    self.problem(key.span().start, &text);
                }
                "api_key_variable" => {
                    self.text_value("api_key_variable", value, |variable| {
                        Ok(Setting::KeyVariable(name, variable))
                    });
                }
                "credential_command" => match values::command(value.get_ref()) {
                    Some(command) => {
                        self.entry(value.span().start, Setting::KeyCommand(name, command));
                    }
                    None => self.wrong_type("credential_command", "a list of texts", value),
                },
                "base_url" => {
                    self.text_value("base_url", value, |url| Ok(Setting::BaseUrl(name, url)));
                }
                unknown => {
                    self.unknown(key.span().start, "key", unknown, &PROVIDER_KEYS);
                }
            }
        }
    }

    /// Takes a non-empty string; an empty one counts as not set, as in the environment.
    fn text_value(
        &mut self,
        key: &str,
        value: &Spanned<DeValue<'_>>,
        make: impl FnOnce(String) -> Result<Setting, String>,
    ) {
        let start = value.span().start;
        match value.get_ref().as_str().map(str::trim) {
            None => self.wrong_type(key, "a text in quotes", value),
            Some("") => {}
            Some(text) => match make(text.to_owned()) {
                Ok(setting) => self.entry(start, setting),
                Err(problem) => self.problem(start, &problem),
            },
        }
    }

    fn entry(&mut self, start: usize, setting: Setting) {
        let source = match self.kind {
            FileKind::BuiltIn => Source::BuiltIn,
            FileKind::Config | FileKind::Credentials => {
                Source::File { path: self.path.to_owned(), line: self.line(start) }
            }
        };
        self.entries.push(Entry { setting, source });
    }

    fn wrong_type(&mut self, key: &str, expected: &str, value: &Spanned<DeValue<'_>>) {
        // An empty span is the placeholder of a value that the parser has already reported.
        if !value.span().is_empty() {
            let text = format!("`{key}` must be {expected}; ignored");
            self.problem(value.span().start, &text);
        }
    }

    fn unknown(&mut self, start: usize, what: &str, name: &str, known: &[&str]) {
        let hint = match nearest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("known are {}", known.join(", ")),
        };
        self.problem(start, &format!("unknown {what} `{name}`, ignored; {hint}"));
    }

    fn problem(&mut self, start: usize, text: &str) {
        let line = self.line(start);
        self.problems.push((line, text.to_owned()));
    }

    /// The line of a byte offset, from 1.
    fn line(&self, offset: usize) -> usize {
        self.text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
    }
}

/// The known name that `name` was probably meant to be.
pub(super) fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    // At three edits "mode" would be offered for every four-letter word.
    const MAX_EDITS: usize = 2;
    known
        .iter()
        .map(|candidate| (strsim::osa_distance(name, candidate), *candidate))
        .filter(|(edits, _)| *edits <= MAX_EDITS)
        .min_by_key(|(edits, candidate)| (*edits, candidate.len().abs_diff(name.len())))
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests;
