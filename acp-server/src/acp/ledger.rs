//! The client's unanswered requests, our own requests, and whether the handshake is done.
//!
//! The transport forgets a request once the SDK has it. This remembers the method of each open id
//! (an error must not name more), bounds how many there are, and tells the reader when the answer
//! to `initialize` is on the wire and which ids an answer may be meant for.

use std::collections::{HashMap, VecDeque};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokio::sync::watch;

/// How many requests of a client may be unanswered.
pub(super) const MAX_OPEN: usize = 1_024;

/// How many ids of our own requests are remembered; the oldest are forgotten. They stay when they
/// are answered, because a client may answer again, or late.
const MAX_ASKED: usize = 1_024;

/// Where the handshake stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handshake {
    /// No `initialize` has succeeded and none is open.
    Missing,
    /// An `initialize` waits for its answer.
    Open,
    /// An `initialize` was answered with a result.
    Done,
}

/// Why a request is not taken up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotOpened {
    /// A request with the same id is unanswered.
    IdInUse,
    /// There are [`MAX_OPEN`] already.
    TooMany,
}

/// The open requests of one connection.
#[derive(Debug)]
pub(super) struct Ledger {
    open: Mutex<HashMap<String, Box<str>>>,
    asked: Mutex<VecDeque<Value>>,
    handshake: watch::Sender<Handshake>,
}

impl Ledger {
    pub(super) fn new() -> Self {
        Self {
            open: Mutex::default(),
            asked: Mutex::default(),
            handshake: watch::Sender::new(Handshake::Missing),
        }
    }

    /// Notes a request before the SDK sees it.
    pub(super) fn open(&self, id: &Value, method: &str) -> Result<(), NotOpened> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if open.len() >= MAX_OPEN {
            return Err(NotOpened::TooMany);
        }
        // The JSON text tells `1` from `"1"`.
        let key = id.to_string();
        if open.contains_key(&key) {
            return Err(NotOpened::IdInUse);
        }
        open.insert(key, method.into());
        Ok(())
    }

    /// Takes a request out when its answer is about to be written; returns its method.
    pub(super) fn close(&self, id: &Value) -> Option<Box<str>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&id.to_string())
    }

    /// Notes a request of our own before it is written.
    pub(super) fn ask(&self, id: Value) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if asked.len() >= MAX_ASKED {
            asked.pop_front();
        }
        asked.push_back(id);
    }

    /// Whether a request of our own had this id.
    pub(super) fn has_asked(&self, id: &Value) -> bool {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).contains(id)
    }

    /// Moves the handshake on.
    pub(super) fn set_handshake(&self, handshake: Handshake) {
        self.handshake.send_replace(handshake);
    }

    /// Waits while an `initialize` is open; then says how the handshake stands.
    ///
    /// # Cancel safety
    /// Cancel safe: it only looks.
    pub(super) async fn settled_handshake(&self) -> Handshake {
        let mut watch = self.handshake.subscribe();
        let settled = watch.wait_for(|state| *state != Handshake::Open).await;
        // The sender lives in `self`, so the channel cannot be closed here.
        settled.map_or(Handshake::Missing, |state| *state)
    }
}
