//! The Agent Client Protocol: the only module that knows the SDK.
//!
//! A line from the client passes [`inbound`] (framing, tolerance, the handshake gate), the SDK's
//! dispatch loop and [`handlers`], and ends in the mailbox of one [`session`] actor. What the
//! client must see comes out of the session's [`outbox`] and leaves through [`outbound`], the one
//! writer of the output. [`to_acp`] and [`from_acp`] translate between the agent's vocabulary and
//! the protocol's; [`errors`] holds every error that a client can be answered.

mod auth;
mod clients;
mod commands;
mod credit;
mod elicitation;
mod errors;
mod from_acp;
mod handlers;
mod inbound;
mod ledger;
mod link;
mod list;
mod memory;
mod opening;
mod options;
mod outbound;
mod outbox;
mod permission;
mod pieces;
mod serve;
mod servers;
mod session;
mod sessions;
mod skills;
mod speaking;
mod steering;
mod terminals;
mod terms;
mod to_acp;
mod turns;

#[cfg(test)]
mod tests;

#[cfg(fuzzing)]
pub use inbound::fuzz_line;
pub use serve::serve;
