//! How a person names a session: its id, the beginning of it, or `last`.

use std::str::FromStr;

use anyhow::bail;
use bridle_session::SessionId;
use bridle_store::{FileStore, SessionStore as _};

use super::print::{shown_title, time};

/// The most candidates that an ambiguous beginning lists.
const MAX_CANDIDATES: usize = 10;

/// A session as a person names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands) enum Reference {
    /// The session that changed last.
    Last,
    /// The beginning of an id, or all of it.
    Beginning(String),
}

impl FromStr for Reference {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "last" {
            return Ok(Self::Last);
        }
        SessionId::beginning(text)
            .map(Self::Beginning)
            .ok_or("not a session id; `bridle sessions list` names them, and `last` is the newest")
    }
}

impl Reference {
    /// The session that is meant. A whole id is not looked up.
    pub(in crate::commands) fn resolve(&self, store: &FileStore) -> anyhow::Result<SessionId> {
        match self {
            Self::Last => match store.list()?.sessions.first() {
                Some(row) => Ok(row.header.id.clone()),
                None => {
                    bail!("there is no session yet; `bridle exec` and any ACP client begin one")
                }
            },
            Self::Beginning(text) => match SessionId::parse(text) {
                Some(id) => Ok(id),
                None => beginning_with(store, text),
            },
        }
    }
}

fn beginning_with(store: &FileStore, text: &str) -> anyhow::Result<SessionId> {
    let mut ids = store.ids()?;
    ids.retain(|id| id.as_str().starts_with(text));
    match ids.as_slice() {
        [] => bail!("no session begins with {text}; `bridle sessions list` names them"),
        [id] => Ok(id.clone()),
        several => bail!(
            "{} sessions begin with {text}; give more of the id:{}",
            several.len(),
            candidates(store, several)
        ),
    }
}

fn candidates(store: &FileStore, ids: &[SessionId]) -> String {
    let line = |id: &SessionId| match store.read(id) {
        Ok(log) => {
            let title = shown_title(log.session.state().summary.title.text.as_deref());
            format!("\n  {id}  {}  {title}", time(log.session.last_time()))
        }
        Err(_) => format!("\n  {id}  (cannot be read)"),
    };
    let mut text: String = ids.iter().take(MAX_CANDIDATES).map(line).collect();
    if let Some(more @ 1..) = ids.len().checked_sub(MAX_CANDIDATES) {
        text.push_str(&format!("\n  … and {more} more"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_beginnings_of_ids_are_taken() {
        for good in ["last", "0", "01a2313b", "01a2313b-6f57-74ab-a469-e7b658bf25e8", "01A2313B-6"]
        {
            assert!(good.parse::<Reference>().is_ok(), "{good}");
        }
        let long = "01a2313b-6f57-74ab-a469-e7b658bf25e80";
        for bad in ["", "..", "g", "01a2313b6", "../../etc/passwd", "0\u{e9}", "-", "Last", long] {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
    }
}
