//! Live output of running calls on its way to the driver: the newest text of each call wins.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bridle_session::ToolCallId;
use tokio::sync::Notify;

use crate::tool::Progress;

/// Where tool bodies put live output and the driver picks it up. Holds one text per call, so a
/// loud command costs no more memory than a quiet one.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProgressBoard {
    texts: Arc<Mutex<BTreeMap<ToolCallId, String>>>,
    changed: Arc<Notify>,
}

impl ProgressBoard {
    /// The sink of one call.
    pub(crate) fn sink(&self, call: ToolCallId) -> Progress {
        let board = self.clone();
        Progress::new(move |text| {
            board.lock().insert(call.clone(), text);
            board.changed.notify_one();
        })
    }

    /// Completes when there is something to take.
    ///
    /// # Cancel safety
    /// Cancel safe: a change is remembered for the next call.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Takes the newest text of every call that has one.
    pub(crate) fn take(&self) -> BTreeMap<ToolCallId, String> {
        std::mem::take(&mut *self.lock())
    }

    /// Drops what `call` has put there; its result says more.
    pub(crate) fn forget(&self, call: &ToolCallId) {
        self.lock().remove(call);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<ToolCallId, String>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
