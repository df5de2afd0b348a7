//! Who rules on a call before hooks and a person are asked.

use async_trait::async_trait;
use bridle_compose::{ActivateError, Plugin, ServiceKey, Setup};
use std::sync::Arc;

use crate::mode::{Mode, Ruling, Sandboxing};
use crate::tool::Access;

/// Rules on calls. A session without one runs nothing.
pub trait PermissionPolicy: Send + Sync + 'static {
    /// Rules on a call that would touch `accesses` in a session that is in `mode`.
    fn rule(&self, mode: Mode, accesses: &[Access]) -> Ruling;
}

/// The table of the modes.
#[derive(Clone, Copy, Debug)]
pub struct ModeTable {
    /// Whether commands can be confined.
    pub sandboxing: Sandboxing,
}

impl PermissionPolicy for ModeTable {
    fn rule(&self, mode: Mode, accesses: &[Access]) -> Ruling {
        mode.rule(accesses, self.sandboxing)
    }
}

/// The row of [`ModeTable`].
pub struct PermissionModes;

#[async_trait]
impl Plugin for PermissionModes {
    const NAME: &'static str = "permission-modes";
    type Config = ();
    type Needs = ();

    fn provides() -> Vec<ServiceKey> {
        vec![ServiceKey::of::<dyn PermissionPolicy>()]
    }

    async fn activate(&self, (): (), (): (), setup: &Setup) -> Result<(), ActivateError> {
        // Nothing here confines commands yet, so the table says of each one that it is not.
        let table = ModeTable { sandboxing: Sandboxing::Unavailable };
        Ok(setup.provide::<dyn PermissionPolicy>(Arc::new(table))?)
    }
}
