//! Newtypes for every identity, position, length and time in a session.
//!
//! A position ([`Seq`], from 0) and a length ([`EventCount`]) are different types on purpose: an
//! off-by-one between them has cost other agents whole transcripts.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Wraps the text as it is; the caller vouches for its form.
            pub fn new(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text of the id.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

text_id! {
    /// Names one session: a UUIDv7 in lower-case hyphenated form. It is also a folder name, so
    /// whatever comes from outside goes through [`SessionId::parse`].
    SessionId
}
text_id! {
    /// Names one message across the live stream, the log and a replay.
    MessageId
}
text_id! {
    /// The id by which a provider pairs a tool call with its result.
    ToolCallId
}

text_id! {
    /// Names one job (a process that runs on after the call that started it).
    JobId
}

impl SessionId {
    /// Accepts exactly the form that Bridle itself gives out: 36 characters, lower-case hex
    /// digits and hyphens. Anything else (`..`, a path, another agent's id) is `None`, so that an
    /// id from a client can never name a file outside the sessions folder.
    pub fn parse(text: &str) -> Option<Self> {
        let well_formed = text.len() == 36
            && text.bytes().enumerate().all(|(i, b)| match i {
                8 | 13 | 18 | 23 => b == b'-',
                _ => b.is_ascii_digit() || (b'a'..=b'f').contains(&b),
            });
        well_formed.then(|| Self::new(text))
    }

    /// A text that ids can begin with, in the letters that they have; `None` for any other. A whole id
    /// is one, too.
    pub fn beginning(text: &str) -> Option<String> {
        // Whatever makes a whole id with zeros behind it begins one.
        const ZEROS: &str = "00000000-0000-0000-0000-000000000000";
        let text = text.to_ascii_lowercase();
        let rest = ZEROS.get(text.len()..).filter(|_| !text.is_empty())?;
        Self::parse(&format!("{text}{rest}")).map(|_| text)
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u64);

        impl $name {
            /// The next number; saturates at the top, which no session can reach.
            #[must_use]
            pub fn next(self) -> Self {
                Self(self.0.saturating_add(1))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number! {
    /// The position of an event in its log, from 0, without holes.
    Seq
}
number! {
    /// How many events a log (or a prefix of it) holds.
    EventCount
}
number! {
    /// The turns of a session, counted from 1.
    TurnNumber
}
number! {
    /// The steps of a turn, counted from 1.
    StepNumber
}
number! {
    /// The request series of a session, counted from 1 (design: request series).
    SeriesNumber
}

/// Milliseconds since the Unix epoch.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl From<SystemTime> for UnixMillis {
    /// A time before 1970 becomes 0.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// Which provider and which of its models: `anthropic/claude-sonnet-5-5`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Route {
    /// The provider's name in the configuration.
    pub provider: Arc<str>,
    /// The model id as the provider spells it.
    pub model: Arc<str>,
}

impl Route {
    /// Reads `provider/model`; the model part may itself contain slashes. `None` when either part
    /// is missing.
    pub fn parse(text: &str) -> Option<Self> {
        let (provider, model) = text.split_once('/')?;
        (!provider.is_empty() && !model.is_empty())
            .then(|| Self { provider: provider.into(), model: model.into() })
    }
}

impl fmt::Display for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.provider, self.model)
    }
}
