//! The envelope of an event and its one-line JSON form.
//!
//! A line is decoded in two steps (envelope, then typed data by its `type`), because serde's
//! tagged and flattened enums buffer numbers and would not keep them exact.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::id::{Seq, UnixMillis};
use crate::vocabulary::EventData;

/// One durable fact of a session.
#[derive(Clone, Debug)]
pub struct Event {
    /// The position in the log, from 0.
    pub seq: Seq,
    /// When it was appended.
    pub time: UnixMillis,
    /// What happened.
    pub data: EventData,
    /// How the event changes the surface; `None` for events that produce no model message.
    pub surface: Option<SurfaceOp>,
    /// True only where a reader that does not know the type may skip it.
    pub ignorable: bool,
}

/// What an event does to the surface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SurfaceOp {
    /// The event goes to the end.
    Append,
    /// The event takes the place of the nodes from `first` to `last`, both inclusive and both on
    /// the surface now. `covers` names every node that goes, in surface order.
    Replace {
        /// First node to go.
        first: Seq,
        /// Last node to go.
        last: Seq,
        /// Every node that goes.
        covers: Vec<Seq>,
    },
}

/// An event before it has a position and a time.
#[derive(Clone, Debug)]
pub struct Draft {
    /// What happened.
    pub data: EventData,
    /// How it changes the surface.
    pub surface: Option<SurfaceOp>,
}

impl Draft {
    /// A draft whose surface operation is the usual one of its type: `append` for messages, none
    /// for everything else.
    pub fn new(data: impl Into<EventData>) -> Self {
        let data = data.into();
        let surface = data.is_message().then_some(SurfaceOp::Append);
        Self { data, surface }
    }
}

/// A line that is not an event this build may read.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// The line is not valid JSON, or its envelope or data has the wrong shape.
    #[error("event line is malformed: {0}")]
    Malformed(#[from] serde_json::Error),
    /// The type is unknown and not marked `ignorable`; skipping it could change what a model
    /// sees or what a person allowed.
    #[error("event type {0:?} is unknown to this version and may not be skipped")]
    UnknownRequired(String),
}

/// The wire form of an event, of which only the envelope was read. A field that this build does
/// not know could change what the event means, so it makes the line malformed; new fields come
/// with a new format version.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLine<'a> {
    /// The position in the log.
    pub seq: Seq,
    /// When the event was appended.
    pub time: UnixMillis,
    /// What happened, by name.
    #[serde(borrow, rename = "type")]
    pub type_name: Cow<'a, str>,
    /// The data's JSON text.
    #[serde(borrow)]
    pub data: &'a RawValue,
    /// How the event changes the surface.
    #[serde(rename = "surface_op", default, skip_serializing_if = "Option::is_none")]
    pub surface: Option<SurfaceOp>,
    /// Whether a reader that does not know the type may skip the event.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ignorable: bool,
}

impl<'a> EventLine<'a> {
    /// Reads the envelope of one line; the data is JSON, and nothing more is known of it.
    ///
    /// # Errors
    /// As for [`Event::from_line`], except that the data may not be that of its type.
    pub fn read(line: &'a str) -> Result<Self, DecodeError> {
        let line: Self = serde_json::from_str(line)?;
        if !line.ignorable && !EventData::knows(&line.type_name) {
            return Err(DecodeError::UnknownRequired(line.type_name.into_owned()));
        }
        Ok(line)
    }

    /// Reads the data.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] when it is not that of its type.
    pub fn decode(self) -> Result<Event, DecodeError> {
        let data = EventData::from_raw(&self.type_name, self.data, self.ignorable)?;
        let Self { seq, time, surface, ignorable, .. } = self;
        Ok(Event { seq, time, data, surface, ignorable })
    }
}

impl Event {
    /// The event as one JSON line without a line end.
    ///
    /// # Errors
    /// Only when the data cannot be expressed as JSON, which is a bug of the vocabulary.
    pub fn to_line(&self) -> Result<String, serde_json::Error> {
        let data = self.data.to_raw()?;
        serde_json::to_string(&EventLine {
            seq: self.seq,
            time: self.time,
            type_name: self.data.type_name().into(),
            data: &data,
            surface: self.surface.clone(),
            ignorable: self.ignorable,
        })
    }

    /// Reads one line.
    ///
    /// # Errors
    /// [`DecodeError::Malformed`] for anything that is not an event's JSON,
    /// [`DecodeError::UnknownRequired`] for a type that must not be skipped.
    pub fn from_line(line: &str) -> Result<Self, DecodeError> {
        EventLine::read(line)?.decode()
    }
}
