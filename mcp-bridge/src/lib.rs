//! Tools of MCP servers, imported into sessions: the only crate that knows the Model Context Protocol.
//!
//! A session has its own servers, each with a supervised task ([`server`]): started in the background,
//! restarted when it dies, ended with the session. What a server offers becomes tools of the session's
//! scope ([`tool`]), called through the same pipeline and permissions as any other. A server that fails
//! costs its own tools and nothing else. Issue 10; facts about real servers: the notes on MCP.

// A broken expectation must end a test.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing))]

mod asking;
mod call;
mod clip;
mod config;
mod connection;
mod http;
mod imports;
mod late;
mod listener;
mod listing;
mod memory;
mod outcome;
mod pages;
mod pipes;
mod plugin;
mod probe;
mod report;
mod request;
mod resources;
mod server;
mod tool;

pub use config::{Reach, ServerConfig, SessionServers};
pub use plugin::{Running, plugins};
pub use probe::{Found, misconfigured, probe};
