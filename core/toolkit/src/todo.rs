//! `todo`: the list of what is to be done, as the person follows it.
//!
//! A call writes the whole list. It touches nothing outside the session, so it needs no permission.

use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{
    Access, Display, Grant, PlannedCall, SessionChange, Tool, ToolContext, ToolFailure, ToolKind,
    ToolOutcome,
};
use bridle_compose::{ActivateError, Plugin, Setup};
use bridle_model::ToolSpec;
use bridle_session::{Content, TodoItem, TodoStatus};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::arguments::{Arguments, text_of};
use crate::target::one_line;

/// The most items of a list.
const MAX_ITEMS: usize = 100;
/// The longest text of an item, in bytes.
const MAX_TEXT: usize = 1_000;

const DESCRIPTION: &str = "\
Writes the to-do list by which the user follows your work. Each call replaces the whole list: send \
every item, in order, each with its status (`pending`, `in_progress` for the one you are working on, \
`completed`). Use it for work of several steps and keep it up to date as you go: mark an item before \
you begin it and as soon as it is done. Leave it out for simple tasks. An empty list clears it.";

/// Puts the tool into the scope of a session.
pub(crate) struct TodoPlugin;

#[async_trait]
impl Plugin for TodoPlugin {
    const NAME: &'static str = TodoArguments::TOOL;
    type Config = ();
    type Needs = ();

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        let tool: Arc<dyn Tool> = Arc::new(Todo { spec: TodoArguments::spec(DESCRIPTION) });
        Ok(setup.add(Self::NAME, tool)?)
    }
}

/// Arguments of `todo`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TodoArguments {
    /// The whole list.
    items: Vec<Item>,
}

/// One thing to be done.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Item {
    /// What, in a few words.
    text: String,
    status: Status,
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Status {
    Pending,
    InProgress,
    Completed,
}

impl Arguments for TodoArguments {
    const TOOL: &'static str = "todo";
}

impl TodoArguments {
    fn checked(self) -> Result<Vec<TodoItem>, ToolFailure> {
        if self.items.len() > MAX_ITEMS {
            return Err(ToolFailure::bad_arguments(format!(
                "The list has {} items; at most {MAX_ITEMS} are kept. Join small ones. The list is \
                 as it was.",
                self.items.len()
            )));
        }
        self.items.into_iter().enumerate().map(|(index, item)| item.checked(index)).collect()
    }
}

impl Item {
    fn checked(self, index: usize) -> Result<TodoItem, ToolFailure> {
        let text = self.text.trim();
        if text.is_empty() || text.len() > MAX_TEXT {
            return Err(ToolFailure::bad_arguments(format!(
                "`items[{index}].text` is empty or longer than {MAX_TEXT} bytes. The list is as it \
                 was."
            )));
        }
        let status = match self.status {
            Status::Pending => TodoStatus::Pending,
            Status::InProgress => TodoStatus::InProgress,
            Status::Completed => TodoStatus::Completed,
        };
        Ok(TodoItem { text: text.to_owned(), status })
    }
}

struct Todo {
    spec: ToolSpec,
}

#[async_trait]
impl Tool for Todo {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn render(&self, value: &Value) -> Vec<Content> {
        text_of(value)
    }

    async fn plan(
        &self,
        arguments: Value,
        _: &ToolContext,
    ) -> Result<Box<dyn PlannedCall>, ToolFailure> {
        Ok(Box::new(NewList(TodoArguments::decode(arguments)?.checked()?)))
    }

    fn outline(&self, _: &str) -> Display {
        Display::new("To-do list", ToolKind::Think)
    }
}

struct NewList(Vec<TodoItem>);

impl NewList {
    fn count(&self, status: TodoStatus) -> usize {
        self.0.iter().filter(|item| item.status == status).count()
    }

    /// For clients that do not show plans.
    fn text(&self) -> String {
        let lines = self.0.iter().map(|item| {
            let mark = match item.status {
                TodoStatus::Pending => "☐",
                TodoStatus::InProgress => "▶",
                TodoStatus::Completed => "☑",
            };
            format!("{mark} {}", one_line(&item.text))
        });
        lines.collect::<Vec<_>>().join("  \n")
    }

    fn report(&self) -> String {
        if self.0.is_empty() {
            return "The list is empty now.".to_owned();
        }
        let working = self.count(TodoStatus::InProgress);
        let mut text = format!(
            "The list has {} pending, {working} in progress, {} completed.",
            self.count(TodoStatus::Pending),
            self.count(TodoStatus::Completed),
        );
        if working > 1 {
            text.push_str(" Keep only the item that you are working on in progress.");
        }
        text
    }
}

#[async_trait]
impl PlannedCall for NewList {
    fn display(&self) -> Display {
        let (done, all) = (self.count(TodoStatus::Completed), self.0.len());
        let title = match all {
            0 => "To-do list: cleared".to_owned(),
            _ => format!("To-do list: {done} of {all} done"),
        };
        let text = (all > 0).then(|| self.text());
        Display { text, ..Display::new(title, ToolKind::Think) }
    }

    fn access(&self) -> Vec<Access> {
        Vec::new()
    }

    async fn run(self: Box<Self>, _: Grant, _: ToolContext) -> Result<ToolOutcome, ToolFailure> {
        let value = json!({
            "text": self.report(),
            "pending": self.count(TodoStatus::Pending),
            "in_progress": self.count(TodoStatus::InProgress),
            "completed": self.count(TodoStatus::Completed),
        });
        let outcome = ToolOutcome::new(value, self.display());
        Ok(ToolOutcome { changes: vec![SessionChange::Todo(self.0)], ..outcome })
    }
}

#[cfg(test)]
mod tests;
