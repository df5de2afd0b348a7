//! Running commands as terminals, for clients that keep what a terminal was sent: the convention of
//! `terminal_info`, `terminal_output` and `terminal_exit` in `_meta`. The terminal is only shown by
//! the client; the command runs here.

use std::collections::HashMap;
use std::path::PathBuf;

use agent_client_protocol::v1::schema::{
    Meta, SessionUpdate, Terminal, ToolCallContent, ToolCallUpdate, ToolCallUpdateFields,
};
use bridle_agent::{AgentUpdate, Display, ToolStatus};
use bridle_session::ToolCallId;
use serde_json::{Value, json};

use super::to_acp;
use crate::text;

/// The terminals of one session.
#[derive(Debug)]
pub(super) struct Terminals {
    cwd: PathBuf,
    /// The calls that were announced with a terminal and are not over, and whether it shows
    /// anything.
    open: HashMap<ToolCallId, bool>,
}

impl Terminals {
    pub(super) fn new(cwd: PathBuf) -> Self {
        Self { cwd, open: HashMap::new() }
    }

    /// What the client is sent for an update of a call.
    pub(super) fn updates(&mut self, update: AgentUpdate) -> Vec<SessionUpdate> {
        let meta = match &update {
            AgentUpdate::ToolCall { id, status: ToolStatus::Pending, display, .. }
                if display.streams =>
            {
                self.open.insert(id.clone(), false);
                meta("terminal_info", json!({"terminal_id": id.as_str(), "cwd": self.cwd}))
            }
            AgentUpdate::ToolProgress { id, .. } if self.open.contains_key(id) => {
                return Vec::new();
            }
            AgentUpdate::ToolOutput { id, lines } => return self.output(id, lines),
            AgentUpdate::ToolCallUpdate { id, status, display } => {
                match self.moved_on(id, *status, display.as_ref()) {
                    Some(meta) => meta,
                    None => return to_acp::updates(update),
                }
            }
            _ => return to_acp::updates(update),
        };
        to_acp::updates(update).into_iter().map(|update| in_terminal(update, &meta)).collect()
    }

    /// The `_meta` of a call that goes on in its terminal; `None` for one that has none.
    fn moved_on(
        &mut self,
        id: &ToolCallId,
        status: ToolStatus,
        display: Option<&Display>,
    ) -> Option<Meta> {
        match status {
            ToolStatus::Pending | ToolStatus::Running => self.open.contains_key(id).then(Meta::new),
            ToolStatus::Completed | ToolStatus::Failed => {
                // One that never ran has an empty terminal, and something to say instead.
                self.open.remove(id).filter(|shows| *shows)?;
                let fact = |name| display?.raw_output.as_ref()?.get(name).cloned();
                let fact = |name| fact(name).unwrap_or(Value::Null);
                let exit = json!({
                    "terminal_id": id.as_str(),
                    "exit_code": fact("exit_code"),
                    "signal": fact("signal"),
                });
                Some(meta("terminal_exit", exit))
            }
        }
    }

    fn output(&mut self, id: &ToolCallId, lines: &str) -> Vec<SessionUpdate> {
        let Some(shows) = self.open.get_mut(id) else { return Vec::new() };
        *shows = true;
        let data = text::visible_block(lines);
        let meta = meta("terminal_output", json!({"terminal_id": id.as_str(), "data": data}));
        let update = ToolCallUpdate::new(id.as_str().to_owned(), ToolCallUpdateFields::new());
        vec![SessionUpdate::ToolCallUpdate(update.meta(meta))]
    }
}

fn meta(key: &str, value: Value) -> Meta {
    Meta::from_iter([(key.to_owned(), value)])
}

/// The update with the terminal of its call in the place of text.
fn in_terminal(update: SessionUpdate, meta: &Meta) -> SessionUpdate {
    let in_place_of_text = |id: &str, content: Vec<ToolCallContent>| {
        let terminal = ToolCallContent::Terminal(Terminal::new(id.to_owned()));
        let changes = content.into_iter().filter(|part| matches!(part, ToolCallContent::Diff(_)));
        [terminal].into_iter().chain(changes).collect()
    };
    let meta = (!meta.is_empty()).then(|| meta.clone());
    match update {
        SessionUpdate::ToolCall(mut call) => {
            call.content = in_place_of_text(&call.tool_call_id.0, call.content);
            SessionUpdate::ToolCall(call.meta(meta))
        }
        SessionUpdate::ToolCallUpdate(mut call) => {
            let content = call.fields.content.take().unwrap_or_default();
            call.fields.content = Some(in_place_of_text(&call.tool_call_id.0, content));
            SessionUpdate::ToolCallUpdate(call.meta(meta))
        }
        other => other,
    }
}
