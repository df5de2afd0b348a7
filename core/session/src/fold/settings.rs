//! What was set last: title, modes, plan, to-do list.

use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::vocabulary::{EventData, TodoItem};

/// The title of the session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Title {
    /// One line, once there is one.
    pub text: Option<String>,
}

impl Fold for Title {
    const NAME: &'static str = "title";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        if let EventData::TitleSet(set) = &event.data {
            self.text = Some(set.title.clone());
        }
    }
}

/// The modes that a person chose. Behind lost events they are unknown: one that was made stricter
/// there must not be loosened by the loss, so what is configured holds again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Modes {
    /// The id of the permission mode.
    pub permission: Option<String>,
    /// The id of the sandbox mode.
    pub sandbox: Option<String>,
}

impl Fold for Modes {
    const NAME: &'static str = "modes";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        match &event.data {
            EventData::PermissionMode(mode) => self.permission = Some(mode.mode.clone()),
            EventData::SandboxMode(mode) => self.sandbox = Some(mode.mode.clone()),
            _ => (),
        }
    }

    fn lose(&mut self) {
        *self = Self::default();
    }
}

/// Whether the model is to plan only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Whether planning lasts.
    pub active: bool,
}

impl Fold for Plan {
    const NAME: &'static str = "plan";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        if let EventData::PlanMode(mode) = &event.data {
            self.active = mode.active;
        }
    }
}

/// What is to be done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Todo {
    /// The last list.
    pub items: Vec<TodoItem>,
}

impl Fold for Todo {
    const NAME: &'static str = "todo";
    const VERSION: u32 = 1;

    fn apply(&mut self, event: &Event) {
        if let EventData::TodoWrite(list) = &event.data {
            self.items.clone_from(&list.items);
        }
    }
}
