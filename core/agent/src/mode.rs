//! Permission modes and the table that rules on a call. Design: permissions and the sandbox.

use serde::{Deserialize, Serialize};

use crate::tool::Access;

/// What a session may do without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Nothing is changed.
    ReadOnly,
    /// Nothing is changed; the model plans.
    Plan,
    /// Every change and every command asks.
    Ask,
    /// Changes inside the roots run.
    Auto,
    /// Everything runs. Only the user's own configuration enables it.
    FullAccess,
}

impl Mode {
    /// All modes, in the order clients show them.
    pub const ALL: [Self; 5] =
        [Self::ReadOnly, Self::Plan, Self::Ask, Self::Auto, Self::FullAccess];

    /// The id on the wire, in the log and in configuration.
    pub fn id(self) -> &'static str {
        match self {
            Self::ReadOnly => "read-only",
            Self::Plan => "plan",
            Self::Ask => "ask",
            Self::Auto => "auto",
            Self::FullAccess => "full-access",
        }
    }

    /// The mode with this id.
    pub fn from_id(id: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.id() == id)
    }

    /// The name a person reads.
    pub fn name(self) -> &'static str {
        match self {
            Self::ReadOnly => "Read only",
            Self::Plan => "Plan",
            Self::Ask => "Ask",
            Self::Auto => "Auto",
            Self::FullAccess => "Full access",
        }
    }

    /// One sentence for a person.
    pub fn description(self) -> &'static str {
        match self {
            Self::ReadOnly => "Reads and searches; changes nothing",
            Self::Plan => "Reads and plans; changes nothing",
            Self::Ask => "Asks before every change and every command",
            Self::Auto => "Edits files in the workspace; asks before commands",
            Self::FullAccess => "Asks nothing",
        }
    }
}

/// Whether commands can be confined on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sandboxing {
    /// A sandbox works.
    Available,
    /// There is none.
    Unavailable,
}

/// What the gate says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// It runs.
    Allow,
    /// A person decides; the texts say what is special about it, most important first.
    Ask(Vec<String>),
    /// It does not run; the text tells the model why and what would help.
    Deny(String),
}

impl Mode {
    /// Rules on a call that would touch `accesses`: deny beats ask beats allow.
    pub fn rule(self, accesses: &[Access], sandboxing: Sandboxing) -> Ruling {
        let _ = (accesses, sandboxing);
        todo!()
    }
}
