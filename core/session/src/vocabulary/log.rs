//! What the log says about itself.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{EventCount, Seq};

/// The end of the events that a fork inherited. What follows is the session's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeedEnd {
    /// How many they are: the position of this event.
    pub inherited: EventCount,
}

/// Stored events were found damaged and are lost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogGap {
    /// The first lost event.
    #[serde(rename = "a")]
    pub first: Seq,
    /// The last lost event, inclusive.
    #[serde(rename = "b")]
    pub last: Seq,
    /// What the damaged bytes hash to; empty where no bytes are between the neighbours.
    pub hash: String,
}

/// An event of a type that this build does not know, kept so that it can be rewritten untouched.
#[derive(Clone, Debug)]
pub struct UnknownEvent {
    /// The type as written.
    pub type_name: Arc<str>,
    /// The data as written.
    pub data: Box<RawValue>,
}
