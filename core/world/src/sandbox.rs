//! What needs unsafe code: the hardening of this process and, later, confinement of commands.
//!
//! The only part of Bridle where unsafe code is allowed; each use says why it is sound.

pub(crate) mod descriptors;
pub(crate) mod fork;
mod secrets;

pub use secrets::{NotSingleThreaded, set_not_dumpable, take_secrets};
