//! What Bridle is made of: plugins in scopes, the services they share, the effects they leave, and
//! the hooks they listen at; also the clock and tracked tasks of every long-lived part.
//!
//! A [`Scope`] is a place where things are known: the process has one, each session has one below
//! it. A [`Row`] puts a [`Plugin`] into a scope with its configuration; the scope activates it when
//! the services it needs are there, and retracts it, effects in reverse, when one goes away. A
//! plugin gives its scope *services* (one per type: [`Setup::provide`]) and *contributions* (many
//! per type: tools, context sources, listeners at [`HookPoint`]s).
//!
//! Services are found by their Rust type. There is no global state, and nothing here knows what a
//! session, a tool or a model is.

mod activation;
mod clock;
mod effects;
mod hook;
mod needs;
mod plugin;
mod reconcile;
mod scope;
mod tables;
mod tasks;
#[cfg(test)]
mod tests;

pub use activation::{Activation, Setup};
pub use clock::{Clock, Sleep, SystemClock};
pub use effects::{EffectFailure, UndoError};
pub use hook::{Around, HookPoint, Hooks, Next, Observer};
pub use needs::{Needs, ServiceKey};
pub use plugin::{ActivateError, Plugin, PluginInfo, Plugins, Row};
pub use reconcile::{RowState, RowStatus};
pub use scope::Scope;
pub use tables::{Duplicate, Registration};
pub use tasks::TaskSet;
