//! `bridle sessions fork`: a new session that begins with the events of another. The other one
//! may be open; it is only read.

use std::io::Write as _;
use std::time::SystemTime;

use anyhow::{Context as _, anyhow};
use bridle_session::{Draft, ForkError, Seq, TitleSet, UnixMillis};
use bridle_store::{FileStore, SessionStore as _};
use clap::Args;
use serde_json::json;

use super::reference::Reference;
use super::{Exit, failure, print, read, rename};
use crate::composition::fork_header;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The session: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    session: Reference,
    /// The last event to inherit, counted from 0 as `show --json` does; without it, all of them.
    #[arg(long, value_name = "SEQ")]
    at: Option<u64>,
    /// The title of the fork; without it, that of the session.
    #[arg(long, value_name = "TITLE", value_parser = rename::title)]
    title: Option<String>,
    /// Print one JSON object: id, parent (id, inherited).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let id = arguments.session.resolve(store)?;
    let parent = read(store, &id)?.session;
    let end = || parent.len().0.checked_sub(1).context("the session has no event yet");
    let at = Seq(arguments.at.map_or_else(end, Ok)?);
    let now = UnixMillis::from(SystemTime::now());
    let mut fork = parent.fork(fork_header(parent.header(), at), at).map_err(refused)?;
    if let Some(title) = &arguments.title {
        fork.append(Draft::new(TitleSet { title: title.clone() }), now)?;
    }
    drop(store.seed(&fork).map_err(failure)?);
    let (mut out, id) = (std::io::stdout().lock(), &fork.header().id);
    match arguments.json {
        true => print::json(&mut out, &json!({"id": id, "parent": fork.header().parent}))?,
        false => writeln!(out, "{id}")?,
    }
    Ok(Exit::Done)
}

fn refused(error: ForkError) -> anyhow::Error {
    match error {
        ForkError::BeyondEnd { .. } => {
            anyhow!("{error}, counted from 0; `bridle sessions show --json` shows them")
        }
        error => error.into(),
    }
}
