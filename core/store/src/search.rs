//! Search over sessions: what is asked, and what is found.
//!
//! An event is a hit when its own text holds every word. The index only proposes events; each is
//! read from its log and looked at by [`Asked`], so that an answer is the same with the index and
//! without.

mod said;
mod snippet;
mod words;

use std::path::PathBuf;

use bridle_session::{Event, Seq, SessionId, UnixMillis};

pub use self::said::HitKind;
pub(crate) use self::said::{may_be_found, said};
pub use self::snippet::Snippet;
pub(crate) use self::words::{Query, Words};
use crate::{SessionRow, StoreError};

/// Which sessions are meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionFilter {
    /// Those whose working directory is this canonical folder or below it.
    pub folder: Option<PathBuf>,
    /// Those that changed at this time or later.
    pub since: Option<UnixMillis>,
    /// Those that changed last before this time.
    pub before: Option<UnixMillis>,
}

impl SessionFilter {
    /// Whether the session is meant.
    pub fn admits(&self, row: &SessionRow) -> bool {
        let changed = row.updated_at();
        self.folder.as_ref().is_none_or(|folder| row.header.cwd.starts_with(folder))
            && self.since.is_none_or(|since| changed >= since)
            && self.before.is_none_or(|before| changed < before)
    }
}

/// What is looked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SearchQuery {
    /// The words as a person typed them; nothing in them is syntax. Each must be in one event;
    /// words without a space between them must follow each other there; the last one may be the
    /// beginning of a longer one. Case does not count. Without a letter or digit nothing is found.
    pub text: String,
    /// Where.
    pub filter: SessionFilter,
    /// The most hits.
    pub limit: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct SearchResults {
    /// The hits: sessions as in a list, newest first, and events in the order of their session.
    pub hits: Vec<Hit>,
    /// Whether there are more than the limit.
    pub more: bool,
    /// The sessions that could not be read, with the reason.
    pub unreadable: Vec<(SessionId, StoreError)>,
}

/// One event that holds every word.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its session.
    pub session: SessionRow,
    /// Its place in the session.
    pub seq: Seq,
    /// When it was appended.
    pub time: UnixMillis,
    /// Whose words they are.
    pub kind: HitKind,
    /// The words around the hit.
    pub snippet: Snippet,
}

impl SearchResults {
    /// Whether the limit is passed, so that nothing more need be read.
    pub(crate) fn is_full(&self) -> bool {
        self.more
    }

    /// Adds the event if it is a hit.
    pub(crate) fn consider(&mut self, asked: &Asked<'_>, session: &SessionRow, event: &Event) {
        let Some((kind, text)) = said(event) else { return };
        let Some(marks) = asked.words.find(&text) else { return };
        self.more = self.hits.len() >= asked.limit;
        if !self.more {
            let (session, snippet) = (session.clone(), Snippet::cut(&text, &marks));
            self.hits.push(Hit { session, seq: event.seq, time: event.time, kind, snippet });
        }
    }
}

/// A query that can be answered.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) words: Query,
    pub(crate) filter: &'a SessionFilter,
    limit: usize,
}

impl<'a> Asked<'a> {
    /// `None` when nothing can be found.
    pub(crate) fn new(query: &'a SearchQuery) -> Option<Self> {
        let words = Query::new(&query.text)?;
        Some(Self { words, filter: &query.filter, limit: query.limit })
    }
}
