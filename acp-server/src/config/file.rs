//! One configuration file: read with a limit, parsed as far as it can be, every fault named with
//! file and line. Knows the form of a file, not which layer wins.

use std::path::Path;

use bridle_agent::Mode;
use bridle_model::Secret;
use bridle_store::Compression;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::provider::{KnownProvider, PROVIDERS};
use super::settings::Source;

/// The largest configuration file that is read; a larger one is a mistake.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// What a key may be set to, typed.
#[derive(Clone, Debug)]
pub(super) enum Setting {
    Model(String),
    Mode(Mode),
    FullAccess(bool),
    MaxSteps(u32),
    IdleTimeout(u32),
    Compression(Compression),
    ApiKey(&'static str, Secret),
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
        Err(problem) => return FileLayer { entries: Vec::new(), problems: vec![problem] },
    };
    let mut layer = parse(&text, path, kind);
    let holds_key = layer.entries.iter().any(|e| matches!(e.setting, Setting::ApiKey(..)));
    if holds_key && let Some(mode) = open_to_others(path) {
        layer.problems.push(format!(
            "{}: holds a key and can be read by others (mode {mode:04o}); run chmod 600 on it",
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
const ROOT_KEYS: [&str; 7] =
    ["model", "mode", "full_access", "max_steps", "idle_timeout_s", "sessions", "providers"];

struct Reader<'a> {
    text: &'a str,
    path: &'a Path,
    kind: FileKind,
    entries: Vec<Entry>,
    /// Line and text.
    problems: Vec<(usize, String)>,
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
                "mode" => self.text_value("mode", value, mode),
                "full_access" => match value.get_ref().as_bool() {
                    Some(flag) => self.entry(start, Setting::FullAccess(flag)),
                    None => self.wrong_type("full_access", "true or false", value),
                },
                "max_steps" => self.number("max_steps", value, Setting::MaxSteps),
                "idle_timeout_s" => self.number("idle_timeout_s", value, Setting::IdleTimeout),
                "sessions" => self.sessions(value),
                unknown => self.unknown(start, "key", unknown, &ROOT_KEYS),
            }
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

    fn sessions(&mut self, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            return self.wrong_type("sessions", "a table", value);
        };
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "compression" => self.text_value("compression", value, compression),
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
                "base_url" if self.kind == FileKind::Credentials => {
                    self.problem(key.span().start, "`base_url` belongs in config.toml; ignored")
                }
                "base_url" => {
                    self.text_value("base_url", value, |url| Ok(Setting::BaseUrl(name, url)));
                }
                unknown => {
                    self.unknown(key.span().start, "key", unknown, &["api_key", "base_url"]);
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

fn mode(text: String) -> Result<Setting, String> {
    Mode::from_id(&text).map(Setting::Mode).ok_or_else(|| {
        let ids = Mode::ALL.map(Mode::id);
        let hint = nearest(&text, &ids).map_or_else(
            || format!("modes are {}", ids.join(", ")),
            |id| format!("did you mean `{id}`?"),
        );
        format!("unknown mode `{text}`, ignored; {hint}")
    })
}

fn compression(text: String) -> Result<Setting, String> {
    match text.as_str() {
        "zstd" => Ok(Setting::Compression(Compression::Zstd)),
        "none" => Ok(Setting::Compression(Compression::None)),
        _ => Err(format!("unknown compression `{text}`, ignored; known are zstd, none")),
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
