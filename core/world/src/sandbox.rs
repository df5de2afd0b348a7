//! The hardening of this process and the confinement of commands.
//!
//! The only part of Bridle where unsafe code is allowed; each use says why it is sound.

pub(crate) mod altered;
mod aside;
mod attributes;
mod bpf;
mod canary;
pub(crate) mod confine;
pub(crate) mod denials;
pub(crate) mod descriptors;
mod filter;
pub(crate) mod fork;
mod git_config;
mod landlock;
pub(crate) mod listener;
mod lookout;
mod memory;
pub(crate) mod namespaces;
pub(crate) mod network;
pub(crate) mod placeholders;
mod policy;
mod privileges;
pub(crate) mod process_limit;
mod protected;
mod reach;
mod seatbelt;
mod secrets;
pub(crate) mod start;
mod temporary;
mod view;
pub(crate) mod ways;

pub use aside::PutAside;
pub use canary::Sandbox;
pub use lookout::Lookout;
pub use placeholders::{remove_abandoned, standing};
pub use policy::{Access, DEFAULT_PROCESSES, Denial, MAX_DENIALS, Network, Policy, Tier, Verdict};
pub use protected::{LookError, Protected};
pub use seatbelt::{NotUtf8, profile};
pub use secrets::{NotSingleThreaded, set_not_dumpable, take_secrets};
pub use temporary::Temporary;
