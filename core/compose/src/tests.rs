//! Scopes, rows, effects and hooks, in process.

mod dependencies;
mod effects;
mod hooks;
mod ledger;
mod lookup;
mod sequences;
