//! What a tool's success changes of the session besides its result.
//!
//! The changes of one result are recorded directly behind it, in the tool's order.

use bridle_session::{EventData, FileObserved, TodoStatus, TodoWrite};

use super::Driver;
use super::halt::Halt;
use crate::mode::Mode;
use crate::tool::SessionChange;
use crate::update::AgentUpdate;

impl Driver {
    pub(super) async fn make_changes(&mut self, changes: Vec<SessionChange>) -> Result<(), Halt> {
        for change in changes {
            match change {
                SessionChange::Todo(items) => {
                    self.recorder.append(TodoWrite { items: items.clone() })?;
                    self.send(AgentUpdate::Todo(items)).await;
                }
                // The log can only name a path that is UTF-8.
                SessionChange::Observed { path, .. } if path.to_str().is_none() => {}
                SessionChange::Observed { path, hash } => {
                    self.recorder.append(FileObserved { path, hash })?;
                }
                // A person who left the mode while the tool ran has decided already.
                SessionChange::LeavePlan if self.mode != Mode::Plan => {}
                SessionChange::LeavePlan => self.set_mode(self.mode_before_plan()).await,
            }
        }
        Ok(())
    }

    /// A list that is done is put away when the next turn begins; one with open items stays.
    pub(super) async fn put_done_list_away(&mut self) -> Result<(), Halt> {
        let items = &self.recorder.session().state().todo.items;
        let done = items.iter().all(|item| item.status == TodoStatus::Completed);
        if items.is_empty() || !done {
            return Ok(());
        }
        self.make_changes(vec![SessionChange::Todo(Vec::new())]).await
    }

    /// The last mode but `plan` that is still allowed; a session that began in `plan` asks. What
    /// was chosen before events that are lost counts no more: it may have been made stricter there.
    fn mode_before_plan(&self) -> Mode {
        let events = self.recorder.session().events().iter().rev();
        let known = events.take_while(|event| !matches!(event.data, EventData::LogGap(_)));
        let chosen = known.filter_map(|event| match &event.data {
            EventData::PermissionMode(chosen) => Mode::from_id(&chosen.mode),
            _ => None,
        });
        chosen
            .chain([self.default_mode, Mode::Ask])
            .find(|mode| *mode != Mode::Plan && self.modes.contains(mode))
            .unwrap_or(Mode::ReadOnly)
    }
}
