//! What a tool's success changes of the session besides its result.
//!
//! The changes of one result are recorded directly behind it, in the tool's order.

use bridle_session::{EventData, TodoWrite};

use super::Driver;
use super::halt::Halt;
use crate::mode::Mode;
use crate::tool::SessionChange;

impl Driver {
    pub(super) async fn make_changes(&mut self, changes: Vec<SessionChange>) -> Result<(), Halt> {
        for change in changes {
            match change {
                SessionChange::Todo(items) => {
                    self.recorder.append(TodoWrite { items })?;
                }
                // A person who left the mode while the tool ran has decided already.
                SessionChange::LeavePlan if self.mode != Mode::Plan => {}
                SessionChange::LeavePlan => self.set_mode(self.mode_before_plan()).await,
            }
        }
        Ok(())
    }

    /// The last mode but `plan` that is still allowed; a session that began in `plan` asks.
    fn mode_before_plan(&self) -> Mode {
        let chosen =
            self.recorder.session().events().iter().rev().filter_map(|event| match &event.data {
                EventData::PermissionMode(chosen) => Mode::from_id(&chosen.mode),
                _ => None,
            });
        chosen
            .chain([self.default_mode])
            .find(|mode| *mode != Mode::Plan && self.modes.contains(mode))
            .unwrap_or(Mode::Ask)
    }
}
