//! What comes of a question: an answer and how far it can be trusted, or why there is none.

use std::time::Duration;

use serde_json::Value;

use crate::answer::{Listed, Unreadable};
use crate::servers::Candidate;
use crate::symbol::Found;

/// An answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) result: Value,
    pub(crate) completeness: Completeness,
    /// Where the symbol was that was asked about.
    pub(crate) found: Option<Found>,
}

/// Whether an answer is the whole truth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Completeness {
    /// As far as the server knows.
    Complete,
    /// The server does not know the project yet; what it is busy with.
    Loading(String),
    /// The server checks what was saved, and may find more that is wrong; what it calls that.
    Checking(String),
    /// It is one that does so, and has not: why that is known.
    Unchecked(String),
    /// It does not know the project yet, but it found the one thing that it was asked for.
    Found(String),
    /// The server says that it failed.
    Sick(String),
    /// The server knows a part of the project: why.
    Partial(String),
}

impl Completeness {
    /// The same of an answer of which this many elements could not be read.
    pub(crate) fn without(self, unread: usize) -> Self {
        if unread == 0 {
            return self;
        }
        let note = format!("{unread} more that were answered could not be read");
        match self {
            Self::Complete => Self::Partial(note),
            Self::Loading(what) => Self::Loading(format!("{what}; {note}")),
            Self::Checking(what) => Self::Checking(format!("{what}; {note}")),
            Self::Unchecked(why) => Self::Unchecked(format!("{why}; {note}")),
            Self::Found(what) => Self::Found(format!("{what}; {note}")),
            Self::Sick(why) => Self::Sick(format!("{why}; {note}")),
            Self::Partial(why) => Self::Partial(format!("{why}; {note}")),
        }
    }
}

impl Reply {
    /// Reads what was answered; what could not be read of it makes it less than whole.
    ///
    /// # Errors
    /// [`Trouble::Unreadable`].
    pub(crate) fn read<T>(
        &mut self,
        candidate: &Candidate,
        read: impl FnOnce(&Value) -> Result<Listed<T>, Unreadable>,
    ) -> Result<Listed<T>, Trouble> {
        let unreadable = |Unreadable| Trouble::Unreadable(candidate.server.name.clone());
        let listed = read(&self.result).map_err(unreadable)?;
        let known = std::mem::replace(&mut self.completeness, Completeness::Complete);
        self.completeness = known.without(listed.unread);
        Ok(listed)
    }
}

/// Why there is no answer, for the model.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The file or the symbol is not there.
    #[error("{0}")]
    NotThere(String),
    /// The server has nothing of the kind.
    #[error("{0} does not support this")]
    Unsupported(String),
    /// The server refused.
    #[error("{server} refused: {why}")]
    Refused {
        /// Which.
        server: String,
        /// In its words.
        why: String,
    },
    /// The server answered, but not what the protocol has for an answer.
    #[error("what {0} answered cannot be read; whether there is an answer is unknown")]
    Unreadable(String),
    /// The server did not answer in time.
    #[error("{server} did not answer within {} s; whether there is an answer is unknown", .limit.as_secs())]
    TimedOut {
        /// Which.
        server: String,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The server did not answer, and did not before, either.
    #[error(
        "{server} does not answer: it did not when it was asked before, and not within {} s now; whether there is \
         an answer is unknown",
        .limit.as_secs_f64()
    )]
    StillSilent {
        /// Which.
        server: String,
        /// How long it was waited for this time.
        limit: Duration,
    },
    /// The server cannot be used.
    #[error("{server} failed: {why}")]
    Failed {
        /// Which.
        server: String,
        /// Why.
        why: String,
    },
    /// Nobody waits any more.
    #[error("cancelled")]
    Cancelled,
}
