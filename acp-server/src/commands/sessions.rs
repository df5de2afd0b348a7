//! `bridle sessions`: what is stored. One file per action; all of them read without the lock, so
//! that a running agent is left alone, except those that write (`rename`, `rm`, `gc`).

mod diff;
mod export;
mod filter;
mod fork;
mod gc;
mod list;
mod print;
mod progress;
mod reference;
mod rename;
mod report;
mod restore;
mod rm;
mod search;
mod show;
mod verify;
mod words;

use std::io::Write as _;

use anyhow::anyhow;
use bridle_session::SessionId;
use bridle_store::{FileStore, ReadLog, SessionStore as _, StoreError};
use clap::{Args, Subcommand};

pub(super) use self::reference::Reference;
use super::{Exit, say};
use crate::composition::App;
use crate::config::Places;

/// What to do with stored sessions. An ID may be shortened as long as it is the only one that
/// begins so; `last` is the session that changed last.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List the sessions, newest first: id, last change, folder, title.
    List(list::Arguments),
    /// Show what was said and done.
    Show(show::Arguments),
    /// Find what was said.
    Search(search::Arguments),
    /// Check that logs are whole and fold; name the byte of any damage.
    Verify(verify::Arguments),
    /// Write sessions as web pages, Markdown or JSON lines.
    Export(export::Arguments),
    /// Begin a new session with the events of another; print its id.
    Fork(fork::Arguments),
    /// Give a session another title.
    Rename(rename::Arguments),
    /// Remove sessions for good.
    Rm(rm::Arguments),
    /// Remove what nobody needs: empty sessions and what no log names, older than a day.
    Gc(gc::Arguments),
    /// Show what the tools of a turn did to files, and undo it.
    Restore(restore::Arguments),
    /// Print where a session's log is.
    Path(PathArguments),
}

#[derive(Debug, Args)]
pub(super) struct PathArguments {
    /// The session: its id, the beginning of it, or `last`.
    #[arg(value_name = "ID")]
    session: Reference,
}

pub(super) fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    let store = store(app)?;
    match action {
        Action::List(arguments) => list::run(&store, &arguments),
        Action::Show(arguments) => show::run(&store, &arguments),
        Action::Search(arguments) => search::run(&store, &arguments),
        Action::Verify(arguments) => verify::run(&store, &arguments),
        Action::Export(arguments) => export::run(&store, &arguments),
        Action::Fork(arguments) => fork::run(&store, &arguments),
        Action::Rename(arguments) => rename::run(&store, &arguments),
        Action::Rm(arguments) => rm::run(&store, &arguments),
        Action::Gc(arguments) => gc::run(&store, &arguments),
        Action::Restore(arguments) => restore::run(&store, &arguments),
        Action::Path(arguments) => path(&store, &arguments.session),
    }
}

/// Where the sessions are.
pub(super) fn store(app: &App) -> anyhow::Result<FileStore> {
    let settings = app.settings();
    let state = settings.state.as_ref().ok_or_else(|| anyhow!(Places::no_state()))?;
    Ok(FileStore::new(state))
}

fn path(store: &FileStore, session: &Reference) -> anyhow::Result<Exit> {
    let id = session.resolve(store)?;
    let path = store.log_path(&id)?;
    if !path.try_exists()? {
        return Err(failure(StoreError::NotFound(id)));
    }
    writeln!(std::io::stdout().lock(), "{}", path.display())?;
    Ok(Exit::Done)
}

/// Reads a session; what is damaged in it is said on standard error.
fn read(store: &FileStore, id: &SessionId) -> anyhow::Result<ReadLog> {
    let log = store.read(id).map_err(failure)?;
    for damage in &log.recovery.damage {
        say(format_args!("bridle: session {id}: {damage}"));
    }
    if log.recovery.torn_bytes > 0 {
        let bytes = log.recovery.torn_bytes;
        say(format_args!("bridle: session {id}: {bytes} bytes at its end are torn"));
    }
    Ok(log)
}

/// A failure of the store, with what a person can do about it.
fn failure(error: StoreError) -> anyhow::Error {
    let hint = match &error {
        StoreError::NotFound(_) => "`bridle sessions list` names those that exist",
        StoreError::Locked { .. } => "close it there first",
        StoreError::Newer { .. } => "update bridle to open it",
        StoreError::Unreadable { .. } => {
            "`bridle sessions export --format jsonl` gives the lines that are whole"
        }
        StoreError::NoBlob(_)
        | StoreError::DamagedBlob { .. }
        | StoreError::Io(_)
        | StoreError::Lost(_) => return error.into(),
    };
    anyhow!("{error}; {hint}")
}

#[cfg(test)]
mod tests;
