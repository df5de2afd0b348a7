//! Whether a server is on this machine: its program on the user's search path, and what it works on top of.
//!
//! What a workspace brings along is never taken, not even when a folder of it is on the search path:
//! whoever wrote the workspace would choose what runs. A user can name such a program by its absolute
//! path. That a program is there does not make it a server; only its answer to `initialize` does.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use fs_err as fs;
use serde_json::{Map, Value};

use crate::roots::canonical;
use crate::{NodePackage, ServerDefinition};

/// Where programs are looked for.
#[derive(Clone, Copy, Debug)]
pub struct SearchIn<'a> {
    /// The user's search path: folders between colons.
    pub path: &'a OsStr,
    /// The user's home, whose folders are the user's own also when the session works in it.
    pub home: Option<&'a Path>,
    /// The folders of the session, of which no program is taken.
    pub session_roots: &'a [PathBuf],
}

/// A server that is there.
#[derive(Clone, Debug, PartialEq)]
pub struct Located {
    /// Its program, absolute.
    pub program: PathBuf,
    /// What it is told with `initialize`, with what was found of its package.
    pub initialization: Value,
}

/// Why a server is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// Nothing of that name is on the search path.
    #[error("`{0}` is not on the search path")]
    Nowhere(String),
    /// The search path leads to it inside of the session's folders only.
    #[error(
        "{} lies in the workspace, of which no program is taken; name it in your configuration",
        .0.display()
    )]
    InWorkspace(PathBuf),
    /// An absolute path at which there is no program.
    #[error("{} is not a program", .0.display())]
    NotAProgram(PathBuf),
    /// What it works on top of is there in another version.
    #[error("{name} is version {found} ({}), and it works with {wanted} only", .at.display())]
    Version {
        /// The package.
        name: String,
        /// What is there.
        found: String,
        /// What would do, e.g. `7 and later`.
        wanted: String,
        /// Where it lies.
        at: PathBuf,
    },
}

/// Finds a server's program. Blocks.
///
/// # Errors
/// Why it is not there; [`ServerDefinition::install`] says how to get it.
pub fn locate(definition: &ServerDefinition, search: SearchIn<'_>) -> Result<Located, Missing> {
    let program = definition.command.first().map_or("", String::as_str);
    let program = find(program, search)?;
    let mut initialization = definition.initialization.clone();
    if let Some(package) = &definition.package {
        let folder = package_folder(package, search)?;
        if let (Some(option), Some(path), Some(folder)) = (&package.option, &package.path, folder) {
            put_at(&mut initialization, option, &folder.join(path).to_string_lossy());
        }
    }
    Ok(Located { program, initialization })
}

fn find(program: &str, search: SearchIn<'_>) -> Result<PathBuf, Missing> {
    let path = Path::new(program);
    if path.is_absolute() {
        return match is_program(path) {
            true => Ok(path.to_owned()),
            false => Err(Missing::NotAProgram(path.to_owned())),
        };
    }
    if program.is_empty() || program.contains('/') {
        return Err(Missing::Nowhere(program.to_owned()));
    }
    let home = search.home.map(canonical);
    let is_project = |root: &&PathBuf| !home.as_ref().is_some_and(|home| home.starts_with(root));
    let roots: Vec<_> = search.session_roots.iter().map(|root| canonical(root)).collect();
    let mut inside = None;
    for folder in std::env::split_paths(search.path).filter(|folder| folder.is_absolute()) {
        let there = folder.join(program);
        if !is_program(&there) {
            continue;
        }
        let place = canonical(&folder);
        if !roots.iter().filter(is_project).any(|root| place.starts_with(root)) {
            return Ok(there);
        }
        inside.get_or_insert(there);
    }
    Err(inside.map_or_else(|| Missing::Nowhere(program.to_owned()), Missing::InWorkspace))
}

fn is_program(path: &Path) -> bool {
    let meta = fs::metadata(path);
    meta.is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// The folder of a package that is of a version that will do; `None` when that cannot be seen, because the
/// program is a script that leads elsewhere, and any version would do.
fn package_folder(package: &NodePackage, search: SearchIn<'_>) -> Result<Option<PathBuf>, Missing> {
    let program = find(&package.program, search)?;
    let wanted = match (package.from, package.below) {
        (Some(from), Some(below)) => format!("{from} to {}", below.saturating_sub(1)),
        (Some(from), None) => format!("{from} and later"),
        (None, Some(below)) => format!("versions before {below}"),
        (None, None) => "any version".to_owned(),
    };
    let wrong = |found: String, at: PathBuf| {
        let name = package.name.clone();
        Err(Missing::Version { name, found, wanted: wanted.clone(), at })
    };
    let Some((folder, version)) = package_of(&program, &package.name) else {
        // The newest is what a person most likely has.
        return match package.below {
            Some(_) => wrong("unknown".to_owned(), program),
            None => Ok(None),
        };
    };
    let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
    let will_do = major.is_some_and(|major| {
        package.from.is_none_or(|from| major >= from)
            && package.below.is_none_or(|below| major < below)
    });
    if will_do { Ok(Some(folder)) } else { wrong(version, folder) }
}

/// The package that a program comes with: above what its links lead to, or, where an installer writes
/// scripts instead of links, beside the folder of programs.
fn package_of(program: &Path, name: &str) -> Option<(PathBuf, String)> {
    let place = canonical(program);
    let beside = program
        .ancestors()
        .nth(2)
        .into_iter()
        .flat_map(|prefix| [prefix.join("lib/node_modules").join(name), prefix.join(name)]);
    let folders = place.ancestors().skip(1).map(Path::to_owned).chain(beside);
    folders.into_iter().find_map(|folder| {
        let text = fs::read(folder.join("package.json")).ok()?;
        let manifest: Value = serde_json::from_slice(&text).ok()?;
        let is_it = manifest.get("name").and_then(Value::as_str) == Some(name);
        let version = manifest.get("version").and_then(Value::as_str)?;
        is_it.then(|| (folder, version.to_owned()))
    })
}

/// Puts a text at a dotted path, with the objects that lead there.
fn put_at(value: &mut Value, path: &str, text: &str) {
    let mut place = value;
    for name in path.split('.') {
        if !place.is_object() {
            *place = Value::Object(Map::new());
        }
        let Some(fields) = place.as_object_mut() else { return };
        place = fields.entry(name).or_insert(Value::Null);
    }
    *place = Value::String(text.to_owned());
}

impl ServerDefinition {
    /// With what was found: its program, and what it is told of its package.
    #[must_use]
    pub fn located(mut self, found: Located) -> Self {
        if let Some(program) = self.command.first_mut() {
            *program = found.program.to_string_lossy().into_owned();
        }
        self.initialization = found.initialization;
        self.package = None;
        self
    }

    /// The settings for a server that is started in `root`: `${root}` is filled in, and what names a path
    /// in it that does not exist is left out. Blocks.
    pub fn settings_in(&self, root: &Path) -> Value {
        let mut settings = self.settings.clone();
        fill(&mut settings, root);
        settings
    }
}

fn fill(value: &mut Value, root: &Path) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, value| {
                let Some(text) = value.as_str().filter(|text| text.contains("${root}")) else {
                    fill(value, root);
                    return true;
                };
                let filled = text.replace("${root}", &root.to_string_lossy());
                let is_there = Path::new(&filled).exists();
                *value = Value::String(filled);
                is_there
            });
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, root)),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
