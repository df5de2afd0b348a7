//! Language servers as a read-only sense for the model: the only crate that knows the Language Server
//! Protocol.
//!
//! A server is found on the user's search path, started when a file of its kind is first asked about,
//! shared by the sessions of the process and believed only after it answered `initialize`. Nothing here
//! changes a file: edits that servers offer are shown or refused. Issue 11.

// A broken expectation must end a test.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod choice;
mod definition;
mod locate;
mod probe;
mod roots;
mod servers;
mod settings;
mod table;

pub use choice::{Choice, language_of, servers_for};
pub use definition::{
    FileType, Marker, Nesting, NodePackage, Purpose, ServerDefinition, Variables,
};
pub use locate::{Located, Missing, SearchIn, locate};
pub use probe::{Introduction, probe};
pub use roots::root_of;
pub use servers::{Servers, Stage, Standing};
pub use settings::LspSettings;
pub use table::{PatchError, ServerPatch, ServerTable};
