//! The language servers of a process, shared by its sessions.

use std::path::PathBuf;

/// The language servers of a process, each started when it is first asked.
#[derive(Default)]
pub struct Servers {}

impl Servers {
    /// How each one stands that was ever asked, for a person.
    pub fn standing(&self) -> Vec<Standing> {
        Vec::new()
    }
}

/// How a server stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// What a person calls it.
    pub server: String,
    /// The folder of its project.
    pub root: PathBuf,
    /// Whether it runs.
    pub stage: Stage,
    /// What there is to say besides: who it says it is, what it is busy with, why it failed.
    pub detail: String,
}

/// Whether a server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It is being started.
    Starting,
    /// It answers.
    Ready,
    /// It answers, and says that it does not know the project yet.
    Loading,
    /// It was ended because nobody asked it; the next question starts it again.
    Stopped,
    /// It cannot be used.
    Failed,
}
