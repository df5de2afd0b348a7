//! What is known of a language server before it is started: what it is for and how it is spoken with.

use std::time::Duration;

use serde_json::Value;

/// One language server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDefinition {
    /// What a person calls it; unique in the table.
    pub name: String,
    /// Its program (a name on the search path, or an absolute path) and its arguments.
    pub command: Vec<String>,
    /// The files it is for.
    pub files: Vec<FileType>,
    /// What marks the folder of a workspace: the outermost one counts.
    pub workspace_markers: Vec<Marker>,
    /// What marks the folder of a package, where there is no workspace: the innermost one counts.
    pub package_markers: Vec<Marker>,
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
    /// Whether it bears that a request is cancelled; some never answer again.
    pub cancels: bool,
    /// How a person gets it, in one line.
    pub install: String,
}

/// A kind of file, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileType {
    /// An ending with its dot (`.rs`), or a whole name (`Dockerfile`).
    pub name: String,
    /// The identifier of its language in the protocol.
    pub language: String,
}

/// A file whose presence says that a folder is the root of something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Its name; a `*` stands for any letters of a name.
    pub name: String,
    /// A line that it must contain to count, as `[workspace]` in a `Cargo.toml`.
    pub containing: Option<String>,
}

/// What a server is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Navigation and diagnostics.
    Everything,
    /// Diagnostics only: a linter beside the server of the language.
    Diagnostics,
}
