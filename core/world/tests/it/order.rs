//! What the tests tell the probe to run confined, and what it tells back.

use std::path::PathBuf;

use bridle_world::sandbox::{Policy, Tier};
use serde::{Deserialize, Serialize};

/// A command to run confined.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) at_most: Tier,
    pub(crate) policy: Policy,
    /// Whether its user looks for what is protected right before.
    pub(crate) look: bool,
    pub(crate) cwd: PathBuf,
    pub(crate) command: String,
}

/// How it ended.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) tier: Tier,
    pub(crate) cause: Option<String>,
    pub(crate) code: Option<i32>,
    pub(crate) output: String,
    /// Why it could not be run, beginning with the kind of error.
    pub(crate) error: Option<String>,
    /// `none`, `suspected`, or what was refused, one a line.
    pub(crate) denied: String,
    pub(crate) altered: Vec<PathBuf>,
    /// From where to where.
    pub(crate) put_aside: Vec<(PathBuf, PathBuf)>,
    pub(crate) left: usize,
    /// Why nothing limits its processes.
    pub(crate) unlimited: Option<String>,
}
