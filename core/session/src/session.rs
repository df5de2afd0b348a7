//! One session in memory: its header, its log, and what the log folds to.
//!
//! Only the driver that owns a session appends. An append that fails changes nothing. A live
//! append and a replay run the same check and the same commit, and both cost the same for a log
//! of any length.

use std::sync::Arc;

use crate::damage::Record;
use crate::event::{Draft, Event, SurfaceOp};
use crate::header::Header;
use crate::id::{EventCount, Seq, UnixMillis};
use crate::projection::Projection;
use crate::repair;
use crate::state::SessionState;
use crate::surface::{Plan, Surface};
use crate::vocabulary::{CompactionStart, EventData, LogGap};

/// An append that was refused; the log is as it was.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The event breaks a rule of its own type (e.g. a message without content).
    #[error("{type_name}: {rule}")]
    Inadmissible {
        /// The event's type.
        type_name: String,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The surface operation does not fit the surface as it is.
    #[error("surface: {0}")]
    Surface(&'static str),
}

/// A stored log that does not fold.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The event carries a position that the log has passed.
    #[error("event {found} stands where {expected} or a later one was due")]
    Sequence {
        /// The first position that was due.
        expected: Seq,
        /// The position that the event carries.
        found: Seq,
    },
    /// The event could not have been appended.
    #[error("event {seq}: {source}")]
    Inadmissible {
        /// Where.
        seq: Seq,
        /// Why.
        source: AppendError,
    },
    /// The header says another length of the inherited prefix than the log, which was not damaged
    /// there.
    #[error("the header says that {header} events were inherited; the log says {log} of {len}")]
    Boundary {
        /// What the header says.
        header: EventCount,
        /// What the last `session/seed-end` says; 0 without one.
        log: EventCount,
        /// The length of the log.
        len: EventCount,
    },
}

/// One session: header, log, and what the log folds to.
#[derive(Clone, Debug)]
pub struct Session {
    header: Arc<Header>,
    pub(crate) log: Vec<Arc<Event>>,
    pub(crate) surface: Surface,
    pub(crate) state: SessionState,
}

impl Session {
    /// An empty session. One whose header names a parent is made by [`Session::fork`].
    pub fn new(header: Header) -> Self {
        Self {
            header: Arc::new(header),
            log: Vec::new(),
            surface: Surface::default(),
            state: SessionState::default(),
        }
    }

    /// Folds a stored log; the same checks as for live appends. Where positions are missing,
    /// their events are lost: a message says so on the surface, and what does not fit any more
    /// behind them is fitted in.
    ///
    /// # Errors
    /// [`ReplayError`] names the first event that does not fit, or the boundary of the inherited
    /// prefix when header and log disagree about it.
    pub fn replay(
        header: Header,
        records: impl IntoIterator<Item = impl Into<Record>>,
    ) -> Result<Self, ReplayError> {
        let mut session = Self::new(header);
        let mut damage = None;
        for record in records {
            match record.into() {
                Record::Damage { hash } => damage = Some(hash),
                Record::Event(event) => {
                    session.restore(Arc::new(event), damage.take().unwrap_or_default())?;
                }
            }
        }
        session.settle_boundary()?;
        Ok(session)
    }

    /// Takes in one stored event; `hash` is that of damaged bytes before it.
    pub(crate) fn restore(&mut self, event: Arc<Event>, hash: String) -> Result<(), ReplayError> {
        let (expected, found) = (self.next_seq(), event.seq);
        if found < expected {
            return Err(ReplayError::Sequence { expected, found });
        }
        if found > expected {
            self.lose(LogGap { first: expected, last: Seq(found.0.saturating_sub(1)), hash });
        }
        match self.check(found, &event.data, event.surface.as_ref()) {
            Ok(plan) => {
                self.commit(event, plan);
                Ok(())
            }
            Err(_) if self.state.is_damaged() => self.commit_behind_damage(event),
            Err(source) => Err(source),
        }
        .map_err(|source| ReplayError::Inadmissible { seq: found, source })
    }

    /// The header.
    pub fn header(&self) -> &Arc<Header> {
        &self.header
    }

    /// Every event that is there, in order; [`SessionState::gaps`] says which are lost.
    pub fn events(&self) -> &[Arc<Event>] {
        &self.log
    }

    /// How many events were appended, lost ones included; also the position of the next one.
    pub fn len(&self) -> EventCount {
        EventCount(self.log.last().map_or(0, |event| event.seq.next().0))
    }

    /// Whether nothing has happened yet.
    pub fn is_empty(&self) -> bool {
        self.log.is_empty()
    }

    /// What the log folds to besides the messages: turn, series, modes, route, title, queue …
    pub fn state(&self) -> &SessionState {
        &self.state
    }

    /// The time of the last event, or of the creation where there is none: the time at which a
    /// repair is logged, so that it does not depend on when it is made.
    pub fn last_time(&self) -> UnixMillis {
        self.log.last().map_or(self.header.created_at, |event| event.time)
    }

    /// Checks and appends one event.
    ///
    /// # Errors
    /// [`AppendError`]; nothing changed then.
    pub fn append(&mut self, draft: Draft, time: UnixMillis) -> Result<Arc<Event>, AppendError> {
        let Draft { data, surface } = draft;
        let seq = self.next_seq();
        let plan = self.check(seq, &data, surface.as_ref())?;
        let ignorable = data.is_ignorable();
        let event = Arc::new(Event { seq, time, data, surface, ignorable });
        self.commit(Arc::clone(&event), plan);
        Ok(event)
    }

    /// The messages on the surface now. Shares the surface's own list, so it costs the same for
    /// any length, and so does the append after it.
    pub fn projection(&self) -> Projection {
        self.surface.projection(&self.state)
    }

    /// The messages on the surface without those that the open compaction omits, and behind them
    /// what it asks the model. `None` when none is open that asks something.
    pub fn instructed(&self) -> Option<Projection> {
        let (event, start) = self.open_compaction()?;
        start.instruction.as_ref()?;
        let surface = self.surface.without(start.omits).followed_by(Arc::clone(event));
        Some(surface.projection(&self.state))
    }

    /// The compaction that is open.
    pub fn open_compaction(&self) -> Option<(&Arc<Event>, &CompactionStart)> {
        let event = self.event(self.state.compacting?)?;
        match &event.data {
            EventData::CompactionStart(start) => Some((event, start)),
            _ => None,
        }
    }

    /// The event at this position; `None` where it is lost or has not happened.
    pub(crate) fn event(&self, seq: Seq) -> Option<&Arc<Event>> {
        self.log.get(self.log.binary_search_by_key(&seq, |event| event.seq).ok()?)
    }

    /// What must be appended so that the log is at rest, in this order: `log/gap` for events that
    /// were found lost, what [`Session::settle`] says, `turn/end`, and the end of whatever else
    /// was left open: jobs, what a person has queued. Empty for a log at rest. Deterministic;
    /// append the drafts with [`Session::last_time`].
    pub fn repair(&self) -> Vec<Draft> {
        repair::repair(self)
    }

    /// What must be appended so that the turn can end: an answer that was being streamed as an
    /// interrupted one, results for calls without one in the model's order, the end of a compaction,
    /// `step/end`.
    pub fn settle(&self) -> Vec<Draft> {
        repair::settle(self)
    }

    pub(crate) fn next_seq(&self) -> Seq {
        Seq(self.len().0)
    }

    pub(crate) fn check(
        &self,
        seq: Seq,
        data: &EventData,
        op: Option<&SurfaceOp>,
    ) -> Result<Plan, AppendError> {
        let admitted = match data {
            EventData::SeedEnd(seed) => self.admit_boundary(seq, *seed),
            _ => self.state.admit(data, op),
        };
        admitted.map_err(|rule| AppendError::Inadmissible {
            type_name: data.type_name().to_owned(),
            rule,
        })?;
        self.surface.plan(data, op).map_err(AppendError::Surface)
    }

    pub(crate) fn commit(&mut self, event: Arc<Event>, plan: Plan) {
        self.state.apply(&event);
        self.surface.apply(plan, &event);
        self.log.push(event);
    }
}
