//! Language servers as a read-only sense for the model: the only crate that knows the Language Server
//! Protocol.
//!
//! A server is found on the user's search path, started when a file of its kind is first asked about,
//! shared by the sessions of the process and believed only after it answered `initialize`. Nothing here
//! changes a file: edits that servers offer are shown or refused. Issue 11.

// A broken expectation must end a test.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod after_edit;
mod answer;
mod ask;
mod check;
mod choice;
mod connection;
mod definition;
mod desk;
mod diagnose;
mod diagnostic;
mod documents;
mod elsewhere;
mod framing;
mod heard;
mod introduction;
mod life;
mod locate;
mod losses;
mod nav;
mod plugin;
mod position;
mod preview;
mod probe;
mod reply;
mod roots;
mod seen;
mod server;
mod servers;
mod settings;
mod silence;
mod source;
mod subject;
mod symbol;
mod symbols;
mod table;
mod tool;
mod untold;
mod uri;
mod view;
mod work;

pub use choice::{Choice, language_of, servers_for};
pub use definition::{
    FileType, Hasty, Marker, Nesting, NodePackage, Purpose, ServerDefinition, Variables,
};
pub use locate::{Located, Missing, SearchIn, locate};
pub use plugin::{TOOL_NAMES, plugins};
pub use probe::{Introduction, probe};
pub use roots::root_of;
pub use servers::{Servers, Stage, Standing};
pub use settings::{LspSettings, MIB};
pub use table::{PatchError, ServerPatch, ServerTable};
