//! The `bridle` program as a library: the ACP server, the commands, and the composition root.
//!
//! Everything that knows ACP lives in [`acp`] (the server) and [`client`] (the small client that
//! `exec` and `demo` are); everything that knows where settings come from lives in [`config`];
//! [`composition`] names every provider; [`commands`] holds what a person can type. `main.rs`
//! only prepares the process.

pub mod acp;
pub mod client;
pub mod commands;
pub mod composition;
pub mod config;
mod language_servers;
mod tally;
mod text;
