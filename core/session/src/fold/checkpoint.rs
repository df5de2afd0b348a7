//! A fold's state with what it has seen of which log.

use std::cmp::Ordering;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::Fold;
use crate::event::Event;
use crate::id::{EventCount, SessionId};
use crate::session::Session;

/// The state of a fold after some events of one session.
///
/// It knows what it was made from, so that a log which is not the one it saw (another session,
/// a tail that was cut and grew again, events that were lost or came back) is noticed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint<F> {
    fold: String,
    version: u32,
    session: SessionId,
    /// The length of the log that was seen.
    seen: EventCount,
    /// How many events of it were there; fewer than `seen` when some are lost.
    present: usize,
    /// A hash of the last event seen. One that another build computes differently only costs a
    /// computation.
    fingerprint: u64,
    state: F,
}

impl<F: Fold> Checkpoint<F> {
    /// The fold of nothing yet.
    pub fn new(session: SessionId) -> Self {
        Self {
            fold: F::NAME.to_owned(),
            version: F::VERSION,
            session,
            seen: EventCount::default(),
            present: 0,
            fingerprint: 0,
            state: F::default(),
        }
    }

    /// The fold of the whole session.
    pub fn of(session: &Session) -> Self {
        let mut whole = Self::new(session.header().id.clone());
        whole.extend(session.events());
        whole
    }

    /// The fold of the whole session, from this checkpoint where it fits and anew where not.
    #[must_use]
    pub fn resume(mut self, session: &Session) -> Self {
        if !self.fits(session) {
            return Self::of(session);
        }
        self.extend(session.events());
        self
    }

    /// The fold of the whole session from a checkpoint that was kept as JSON, and anew where that
    /// is none or does not fit.
    pub fn read(json: &str, session: &Session) -> Self
    where
        F: DeserializeOwned,
    {
        match serde_json::from_str::<Self>(json) {
            Ok(kept) => kept.resume(session),
            Err(_) => Self::of(session),
        }
    }

    /// Takes in the events that follow those it has seen. The caller vouches that they are of the
    /// same log; events that were seen are passed over, a missing position is a lost event.
    pub fn extend<'a>(&mut self, events: impl IntoIterator<Item = &'a Arc<Event>>) {
        let mut last = None;
        for event in events {
            match event.seq.0.cmp(&self.seen.0) {
                Ordering::Less => continue,
                Ordering::Equal => (),
                Ordering::Greater => self.state.lose(),
            }
            self.state.apply(event);
            self.seen = EventCount(event.seq.next().0);
            self.present = self.present.saturating_add(1);
            last = Some(event);
        }
        if let Some(event) = last {
            self.fingerprint = fingerprint(event);
        }
    }

    /// What the events seen fold to.
    pub fn state(&self) -> &F {
        &self.state
    }

    /// The length of the log that was seen.
    pub fn seen(&self) -> EventCount {
        self.seen
    }

    fn fits(&self, session: &Session) -> bool {
        let events = session.events();
        let present = events.partition_point(|event| event.seq.0 < self.seen.0);
        let last = events.get(..present).and_then(<[_]>::last);
        self.fold == F::NAME
            && self.version == F::VERSION
            && self.session == session.header().id
            && self.present == present
            && self.seen.0 == last.map_or(0, |event| event.seq.next().0)
            && self.fingerprint == last.map_or(0, |event| fingerprint(event))
    }
}

fn fingerprint(event: &Event) -> u64 {
    let mut hasher = DefaultHasher::new();
    event.to_line().ok().hash(&mut hasher);
    hasher.finish()
}
