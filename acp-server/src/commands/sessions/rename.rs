//! `bridle sessions rename`: another title, as one more event of the log.

use std::time::SystemTime;

use bridle_session::{Draft, TitleSet, UnixMillis};
use bridle_store::{FileStore, Opened, SessionStore as _};
use clap::Args;

use super::reference::Reference;
use super::{Exit, failure};
use crate::commands::block_on;

/// The longest title, in characters.
const MAX_TITLE: usize = 200;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The session: its id, the beginning of it, or `last`. It must not be open.
    #[arg(value_name = "ID")]
    session: Reference,
    /// The new title: one line.
    #[arg(value_name = "TITLE", value_parser = title)]
    title: String,
}

/// Reads a title from the command line.
pub(super) fn title(text: &str) -> Result<String, String> {
    let text = text.trim();
    match text {
        "" => Err("a title has at least one letter".to_owned()),
        text if text.contains(['\n', '\r']) => Err("a title is one line".to_owned()),
        text if text.chars().nth(MAX_TITLE).is_some() => {
            Err(format!("a title has at most {MAX_TITLE} characters"))
        }
        text => Ok(text.to_owned()),
    }
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let id = arguments.session.resolve(store)?;
    let Opened { writer, mut session, .. } = store.open(&id).map_err(failure)?;
    // Whoever opens a log brings it to rest first.
    for draft in session.repair() {
        let time = session.last_time();
        writer.append(session.append(draft, time)?)?;
    }
    let time = UnixMillis::from(SystemTime::now()).max(session.last_time());
    let title = TitleSet { title: arguments.title.clone() };
    writer.append(session.append(Draft::new(title), time)?)?;
    block_on(async { Ok(writer.flush().await?) })?;
    Ok(Exit::Done)
}
