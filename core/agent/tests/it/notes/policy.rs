//! Notes that a host keeps from its models, at the gate of every call.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use bridle_agent::{CallInfo, Ruling, ToolPre};
use bridle_compose::{ActivateError, Around, Next, Plugin, Setup};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Denies the reading of some notes. A search still shows how they begin.
pub(super) struct DenyNotes;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct DenyNotesConfig {
    ids: BTreeSet<String>,
}

#[async_trait]
impl Plugin for DenyNotes {
    const NAME: &'static str = "deny-notes";
    type Config = DenyNotesConfig;
    type Needs = ();

    async fn activate(
        &self,
        config: DenyNotesConfig,
        (): (),
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        Ok(setup.hook::<ToolPre>(Arc::new(Denied(config.ids)))?)
    }
}

struct Denied(BTreeSet<String>);

#[async_trait]
impl Around<ToolPre> for Denied {
    async fn around(&self, call: Arc<CallInfo>, next: Next<'_, ToolPre>) -> Ruling {
        match read_id(&call).filter(|id| self.0.contains(id)) {
            Some(id) => Ruling::Deny(format!("The host does not let note {id} be read.")),
            None => next.run(call).await,
        }
    }
}

/// The note that a call would read.
fn read_id(call: &CallInfo) -> Option<String> {
    let arguments = serde_json::from_str::<Value>(&call.arguments).ok()?;
    let id = arguments.get("id").filter(|_| call.name == "read_note")?;
    id.as_str().map(str::to_owned)
}
