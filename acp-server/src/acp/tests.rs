//! The wire from a client's side: a scripted client over an in-memory pipe, the real agent behind
//! it, and the scripted model server on loopback.

mod asking;
mod auth;
mod bad_input;
mod client;
mod leaving;
mod permissions;
mod pieces;
mod plan;
mod queue;
mod sessions;
mod steering;
mod terms;
mod turns;
