//! The `bridle` program as a library: the ACP server, the commands, and the composition root.
//!
//! Everything that knows ACP lives in [`acp`]; everything that knows where settings come from
//! lives in [`config`]; [`composition`] names every provider; [`commands`] holds what a person
//! can type. `main.rs` only parses arguments and picks one.

pub mod acp;
pub mod commands;
pub mod composition;
pub mod config;
