//! The hardening of this process and the confinement of commands.
//!
//! The only part of Bridle where unsafe code is allowed; each use says why it is sound.

pub(crate) mod descriptors;
pub(crate) mod fork;
mod policy;
mod protected;
mod secrets;

pub use policy::{Access, Denial, MAX_DENIALS, Network, Policy, Tier, Verdict};
pub use protected::Protected;
pub use secrets::{NotSingleThreaded, set_not_dumpable, take_secrets};
