//! The driver as a row, and the other plugins of this crate.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bridle_compose::{ActivateError, Clock, Plugin, Plugins, ServiceKey, Setup};
use bridle_model::Effort;
use bridle_session::{Route, Session};
use bridle_store::LogWriter;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::agent::{Agent, AgentHandle, AgentParts};
use crate::budget::BudgetPlugin;
use crate::compaction::CompactionPlugin;
use crate::fallback::FallbackPlugin;
use crate::mode::Mode;
use crate::policy::PermissionModes;
use crate::update_queue::UpdateSender;

/// Adds the plugins of this crate: `driver`, `permission-modes`, `budget`, `fallback`, `compaction`.
pub fn plugins(plugins: Plugins) -> Plugins {
    plugins
        .with(DriverPlugin)
        .with(PermissionModes)
        .with(BudgetPlugin)
        .with(FallbackPlugin)
        .with(CompactionPlugin)
}

/// A session waiting for the driver of its scope.
pub struct SessionSeat(Mutex<Option<Seated>>);

/// What a driver takes over.
pub struct Seated {
    /// The session, new or replayed. The driver repairs it first.
    pub session: Session,
    /// Its log.
    pub writer: LogWriter,
    /// Where updates go.
    pub updates: UpdateSender,
}

impl SessionSeat {
    /// A seat with a session in it.
    pub fn new(seated: Seated) -> Self {
        Self(Mutex::new(Some(seated)))
    }

    fn take(&self) -> Option<Seated> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Starts the driver of a session scope and provides its [`AgentHandle`]. It takes the session
/// from the scope's [`SessionSeat`], once: a session has one driver in its life. Everything else it
/// works with (models, tools, policy, approver, hooks) is looked up in the scope when it is needed,
/// so that those rows can come and go.
pub struct DriverPlugin;

/// What a user has chosen for new sessions.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DriverConfig {
    /// The mode of a session whose log names none, or one that is not in `modes`.
    pub mode: Mode,
    /// The modes that are allowed now.
    pub modes: Vec<Mode>,
    /// The model of a session whose log names none, as `provider/model`.
    #[serde(default)]
    pub model: Option<String>,
    /// The thinking level of a session whose log names none.
    #[serde(default)]
    pub thinking: Option<String>,
}

#[async_trait]
impl Plugin for DriverPlugin {
    const NAME: &'static str = "driver";
    type Config = DriverConfig;
    type Needs = (Arc<SessionSeat>, Arc<dyn Clock>);

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<AgentHandle>()]
    }

    async fn activate(
        &self,
        config: DriverConfig,
        (seat, clock): Self::Needs,
        setup: &Setup,
    ) -> Result<(), ActivateError> {
        let unable = |text: String| ActivateError::Unable(text);
        let route = match &config.model {
            Some(model) => {
                let route = Route::parse(model);
                Some(route.ok_or_else(|| unable(format!("model {model:?} is no provider/model")))?)
            }
            None => None,
        };
        let seated = seat.take().ok_or_else(|| unable("its session has ended".to_owned()))?;
        let Seated { session, writer, updates } = seated;
        let handle = Agent::start(AgentParts {
            scope: setup.scope().clone(),
            session,
            writer,
            updates,
            clock,
            mode: config.mode,
            modes: config.modes,
            route,
            effort: config.thinking.as_deref().and_then(Effort::from_id),
        });
        let closing = handle.clone();
        setup.on_retract("the driver", move || async move {
            let failures = closing.close().await;
            let said: Vec<_> = failures.into_iter().map(|failure| failure.message).collect();
            if said.is_empty() { Ok(()) } else { Err(said.join("; ").into()) }
        })?;
        Ok(setup.provide(Arc::new(handle))?)
    }
}
