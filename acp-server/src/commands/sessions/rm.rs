//! `bridle sessions rm`: sessions go for good. Asks first, unless told not to.

use std::io::{self, IsTerminal as _, Write as _};

use bridle_session::SessionId;
use bridle_store::{FileStore, SessionStore as _};
use clap::Args;

use super::print::{minute, shown_title};
use super::reference::Reference;
use super::{Exit, failure, say, words};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The sessions: ids, beginnings of ids, or `last`. They must not be open.
    #[arg(value_name = "ID", required = true)]
    sessions: Vec<Reference>,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let named = arguments.sessions.iter().map(|session| session.resolve(store));
    let mut ids = named.collect::<anyhow::Result<Vec<SessionId>>>()?;
    ids.sort();
    ids.dedup();
    if !arguments.yes {
        if !io::stdin().is_terminal() {
            say(format_args!("bridle: nobody is there to ask; add --yes to remove without asking"));
            return Ok(Exit::Usage);
        }
        if !confirmed(store, &ids)? {
            return Ok(Exit::Cancelled);
        }
    }
    let mut exit = Exit::Done;
    let mut out = io::stdout().lock();
    for id in &ids {
        match store.remove(id) {
            Ok(()) => writeln!(out, "removed {id}")?,
            Err(error) => {
                exit = Exit::Failed;
                say(format_args!("bridle: {:#}", failure(error)));
            }
        }
    }
    Ok(exit)
}

/// Says what would go, and asks. Only a clear yes is one.
fn confirmed(store: &FileStore, ids: &[SessionId]) -> io::Result<bool> {
    for id in ids {
        match store.read(id) {
            Ok(log) => {
                let title = shown_title(log.session.state().summary.title.text.as_deref());
                say(format_args!("{id}  {}  {title}", minute(log.session.last_time())));
            }
            Err(error) => say(format_args!("{id}  {error}")),
        }
    }
    let mut ask = io::stderr().lock();
    write!(ask, "Remove {} for good? [y/N] ", words::count(ids.len(), "session"))?;
    ask.flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
