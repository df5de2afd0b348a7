//! What is known of a language server before it is started: what it is for and how it is spoken with.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use bridle_world::servers::Secrets;
use serde::Deserialize;
use serde_json::Value;

use crate::choice::language_of;

/// One language server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDefinition {
    /// What a person calls it; unique in the table.
    pub name: String,
    /// Its program (a name on the search path, or an absolute path) and its arguments.
    pub command: Vec<String>,
    /// The files it is for.
    pub files: Vec<FileType>,
    /// What marks the folder of a workspace; `nesting` says which one counts.
    pub workspace_markers: Vec<Marker>,
    /// Which workspace a file belongs to where one lies in another.
    pub nesting: Nesting,
    /// What marks the folder of a package, where there is no workspace: the innermost one counts.
    pub package_markers: Vec<Marker>,
    /// Whether it is only for files below one of its markers, and goes before those that are for any
    /// file unless one of their markers is nearer.
    pub needs_marker: bool,
    /// A package of npm that it works on top of: whether it is there decides whether the server can work.
    pub package: Option<NodePackage>,
    /// What it is asked for.
    pub purpose: Purpose,
    /// What it is told when it asks for its configuration, by dotted path; an object.
    pub settings: Value,
    /// What it is told with `initialize`; `null` for nothing.
    pub initialization: Value,
    /// How long it may take to answer `initialize`.
    pub start_limit: Duration,
    /// How long after the first opened file its answers may still be incomplete without its saying so.
    pub warm_time: Duration,
    /// What it takes for the definition of a name before it knows the project, where that may be the wrong thing.
    pub hasty: Option<Hasty>,
    /// Whether it asks for its settings at its start: told of them besides, it would begin anew.
    pub asks_settings: bool,
    /// Whether it bears that a request is cancelled; some never answer again.
    pub cancels: bool,
    /// How the tokens of progress begin that says nothing of whether its answers are whole, as that of
    /// caches. Any other progress that goes on means that it does not know the project yet.
    pub background: Vec<String>,
    /// How the tokens of progress begin that is of a check: it begins when a file is saved, finds more than
    /// the server does when it is asked what is wrong, and is told by itself. Nothing else waits for it.
    pub checks: Vec<String>,
    /// What it needs at its root to know the whole project; without any of these it knows the files that it
    /// was shown. It knows the project by itself where there is nothing here.
    pub whole_with: Vec<Marker>,
    /// Its variables besides those that every command has.
    pub environment: Variables,
    /// How a person gets it, in one line; empty where the user named it.
    pub install: String,
    /// Where the facts of it are from.
    pub source: String,
}

impl ServerDefinition {
    /// Whether what is wrong may depend on a file: it is of its languages, or says what a project is.
    pub(crate) fn reads(&self, file: &Path) -> bool {
        let mut markers = self.workspace_markers.iter().chain(&self.package_markers);
        language_of(file, self).is_some() || markers.any(|marker| file.ends_with(&marker.name))
    }

    /// How a person gets it, as the end of a sentence that says that it is missing.
    pub(crate) fn way_to_get_it(&self) -> String {
        match self.install.as_str() {
            "" => String::new(),
            install => format!("; install: {install}"),
        }
    }
}

/// A kind of file, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileType {
    /// An ending with its dot (`.rs`), or a whole name (`Dockerfile`), in which a `*` stands for any
    /// letters.
    pub name: String,
    /// The identifier of its language in the protocol.
    pub language: String,
}

/// A file or folder whose presence says that a folder is the root of something.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(from = "MarkerText")]
pub struct Marker {
    /// Its name; a `*` stands for any letters of a name. Or the path of a file some folders below.
    pub name: String,
    /// What one of its lines must begin with to count, as `[workspace` in a `Cargo.toml`.
    pub containing: Option<String>,
}

/// A marker as it stands in a table: a name, or a name with a condition.
#[derive(Deserialize)]
#[serde(untagged)]
enum MarkerText {
    Name(String),
    Containing { name: String, containing: String },
}

impl From<MarkerText> for Marker {
    fn from(text: MarkerText) -> Self {
        match text {
            MarkerText::Name(name) => Self { name, containing: None },
            MarkerText::Containing { name, containing } => {
                Self { name, containing: Some(containing) }
            }
        }
    }
}

/// Which of several workspaces counts that lie in one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Nesting {
    /// The outermost: one server for all of a repository's packages.
    #[default]
    Outermost,
    /// The innermost, where the language has it so: the outer workspace does not hold the inner one's files.
    Innermost,
}

/// A package of npm that a server needs on the search path, by the program that comes with it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NodePackage {
    /// Its name.
    pub name: String,
    /// The program by which it is found.
    pub program: String,
    /// The lowest major version that will do.
    pub from: Option<u32>,
    /// The lowest major version that will not do any more.
    pub below: Option<u32>,
    /// Where the server is told of it, by dotted path into `initialization`.
    pub option: Option<String>,
    /// What it is told: this path inside of the package.
    pub path: Option<String>,
}

/// Variables of an environment. What is printed for debugging has their names only.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Variables {
    /// Their names and values.
    pub pairs: Vec<(String, String)>,
    /// Which of what they hold nobody is to read where a server says it again.
    pub secrets: Secrets,
}

impl fmt::Debug for Variables {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.pairs.iter().map(|(name, _)| name)).finish()
    }
}

/// What a server takes for the definition of a name before it knows the project.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hasty {
    /// Its import.
    Imports,
    /// Its declaration.
    Declarations,
}

/// What a server is good for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// Navigation and diagnostics.
    #[default]
    Everything,
    /// Diagnostics only: a linter beside the server of the language.
    Diagnostics,
}
