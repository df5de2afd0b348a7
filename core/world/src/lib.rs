//! The execution world of one host: which folders a session works in, its files, its search, and
//! its processes under a supervisor, those of servers included.
//!
//! Tools go through this crate for every effect on the machine; it alone starts processes. It
//! refuses to judge whether an effect is allowed (`bridle-agent` does) and knows no tool.

pub mod files;
mod git;
pub mod heap;
mod names;
mod plant;
pub mod process;
mod protected_names;
mod roots;
pub mod sandbox;
pub mod search;
pub mod servers;
pub mod supervisor;
mod told;

pub use names::{name_text, path_text};
pub use protected_names::{key_folders, protected_names};
pub use roots::{Placement, ResolveError, Roots};
