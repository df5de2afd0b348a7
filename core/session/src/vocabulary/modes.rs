//! What may happen: modes, and the questions that a person answered.

use serde::{Deserialize, Serialize};

use crate::id::ToolCallId;

/// A person was asked whether one call may run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalAsked {
    /// The call in question.
    pub call: ToolCallId,
    /// The question as shown.
    pub title: String,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalDecided {
    /// The call in question.
    pub call: ToolCallId,
    /// Whether exactly this call may run, once.
    pub allowed: bool,
    /// Who or what decided: `client`, `cancelled`, `client-error`, `no-approver`.
    pub by: String,
}

/// The permission mode changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PermissionMode {
    /// The new mode's id.
    pub mode: String,
}

/// The confinement of commands changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxMode {
    /// The new sandbox mode's id.
    pub mode: String,
}

/// Planning began or ended: while it lasts, the model is to plan and not to change anything.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanMode {
    /// Whether it lasts from here on.
    pub active: bool,
}
