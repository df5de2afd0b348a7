//! A session that begins with the events of another.
//!
//! A fork copies the events, so that the parent can be deleted, and shares its blobs by their
//! hash. What the cut left open is closed by the same repair that a crash gets. The parent is not
//! touched.

use std::sync::Arc;

use crate::event::Event;
use crate::header::{Header, Parent};
use crate::id::{EventCount, Seq, SessionId};
use crate::session::{AppendError, ReplayError, Session};
use crate::vocabulary::SeedEnd;

/// A fork that was refused.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// There is no such event.
    #[error("event {at} is beyond the end of the session, which has {len} events")]
    BeyondEnd {
        /// Where the fork was to be.
        at: Seq,
        /// The length of the session.
        len: EventCount,
    },
    /// The header of the fork does not say what it is a fork of.
    #[error("the header of a fork must name session {} and {} inherited events", .0.id, .0.inherited)]
    Parent(Parent),
    /// The fork would have its parent's id.
    #[error("a fork of session {0} needs another id")]
    SameId(SessionId),
    /// A fork may not stand less deep in a chain of delegations than what it is a fork of.
    #[error("the delegation depth of a fork must be at least its parent's, {0}")]
    Depth(u32),
    /// The events do not fold by themselves: a bug.
    #[error("the inherited events do not fold: {0}")]
    Prefix(#[from] ReplayError),
    /// What the cut left open cannot be closed: a bug.
    #[error("the fork cannot be brought to rest: {0}")]
    Repair(#[from] AppendError),
}

impl Session {
    /// A session with the given header that has the events up to `at`, inclusive, and goes on by
    /// itself: `session/seed-end` marks the boundary, and [`Session::repair`] has been applied. It
    /// may be cut anywhere, also inside an open turn. Events that are lost stay lost.
    ///
    /// # Errors
    /// [`ForkError`]: the position or the header is wrong.
    pub fn fork(&self, header: Header, at: Seq) -> Result<Session, ForkError> {
        let inherited = EventCount(at.next().0);
        self.admit_fork(&header, at, inherited)?;
        let mut child = Session::new(header);
        for event in self.events().iter().take_while(|event| event.seq <= at) {
            child.restore(Arc::clone(event), self.lost_from(child.next_seq()))?;
        }
        let boundary = Event {
            seq: Seq(inherited.0),
            time: child.last_time(),
            data: SeedEnd { inherited }.into(),
            surface: None,
            ignorable: false,
        };
        child.restore(Arc::new(boundary), self.lost_from(child.next_seq()))?;
        for draft in child.repair() {
            child.append(draft, child.last_time())?;
        }
        Ok(child)
    }

    fn admit_fork(&self, header: &Header, at: Seq, inherited: EventCount) -> Result<(), ForkError> {
        let own = self.header();
        if inherited > self.len() {
            return Err(ForkError::BeyondEnd { at, len: self.len() });
        }
        let parent = Parent { id: own.id.clone(), inherited };
        if header.parent.as_ref() != Some(&parent) {
            return Err(ForkError::Parent(parent));
        }
        if header.id == own.id {
            return Err(ForkError::SameId(own.id.clone()));
        }
        if header.delegation_depth < own.delegation_depth {
            return Err(ForkError::Depth(own.delegation_depth));
        }
        Ok(())
    }

    /// What the damaged bytes hash to that took the events from `seq` on.
    fn lost_from(&self, seq: Seq) -> String {
        let mut gaps = self.state.gaps.iter();
        gaps.find(|gap| gap.lost.first == seq).map_or_else(String::new, |gap| gap.lost.hash.clone())
    }

    /// The boundary stands where it says, and not behind the header's: the prefix of a fork of a
    /// fork holds the boundaries of its ancestors.
    pub(crate) fn admit_boundary(&self, seq: Seq, seed: SeedEnd) -> Result<(), &'static str> {
        let inherited = self.header().parent.as_ref().map(|parent| parent.inherited);
        if seed.inherited.0 != seq.0 {
            return Err("does not stand at the boundary that it names");
        }
        if inherited.is_none_or(|inherited| seed.inherited > inherited) {
            return Err("is not in what the header says was inherited");
        }
        Ok(())
    }

    /// Header and log say the same; where the log has lost its word, the header's counts.
    pub(crate) fn settle_boundary(&mut self) -> Result<(), ReplayError> {
        let header = self.header().parent.as_ref().map_or(EventCount(0), |parent| parent.inherited);
        let log = self.state.inherited;
        let lost = self.state.gaps.iter().any(|gap| gap.lost.contains(Seq(header.0)));
        if header != log && !lost {
            return Err(ReplayError::Boundary { header, log, len: self.len() });
        }
        self.state.inherited = header;
        Ok(())
    }
}
