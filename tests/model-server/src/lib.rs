//! A scripted, strict model server on loopback, for tests and the demo.
//!
//! It speaks the Messages wire (and DeepSeek's dialect of it under `/anthropic`) over real HTTP and
//! answers from a [`Script`]. It holds every request against the provider's rules first and refuses
//! what the provider would refuse, with a message that names the rule; [`ModelServer::violations`]
//! keeps them. It is stricter than the provider in three places, so that a sloppy client is seen:
//! tool results stand in the order of their calls, two assistant messages follow each other only
//! after a pause, and a tool result is never empty.
//!
//! Thinking is bound to what stood before it. Each thinking block is signed with a MAC over the
//! exact bytes of `system`, `tools` and every earlier message as they stood in the request, the
//! blocks before it in its own answer, its text and the model id. The bytes are compared after
//! `cache_control` members are removed (outside tool inputs and schemas), so a client may move its
//! cache breakpoints and change nothing else.
//!
//! It depends on none of our crates, so it cannot share a mistake with them. It is no model: it
//! knows nothing but its script, and serves loopback only.

mod directive;
mod dispatch;
mod error;
mod form;
mod gate;
mod ledger;
mod model;
mod plan;
mod record;
mod reply;
mod script;
mod server;
mod sse;
mod strict;
#[cfg(test)]
mod tests;

pub use form::check_form;
pub use gate::Gate;
pub use model::{ModelSpec, Thinking};
pub use record::{Delivery, Recorded, Violation};
pub use reply::{Answer, Reply, StopReason, Usage};
pub use script::Script;
pub use server::ModelServer;
