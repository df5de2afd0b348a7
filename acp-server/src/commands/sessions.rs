//! `bridle sessions`: what is stored, read without the lock, so that a running agent is left
//! alone.

use std::io::Write as _;

use anyhow::bail;
use bridle_session::{SessionId, UnixMillis};
use bridle_store::{FileStore, StoreError};
use clap::Subcommand;

use super::{Exit, say};
use crate::composition::App;
use crate::config::Places;

/// What to do with stored sessions.
#[derive(Debug, Subcommand)]
pub(super) enum Action {
    /// List the sessions, newest first: id, last change, folder, title.
    List,
    /// Print a session's log, one JSON event a line.
    Show {
        /// The session's id.
        #[arg(value_parser = parse)]
        id: SessionId,
    },
    /// Check that a session's log is whole and folds.
    Verify {
        /// The session's id.
        #[arg(value_parser = parse)]
        id: SessionId,
    },
    /// Print where a session's log is.
    Path {
        /// The session's id.
        #[arg(value_parser = parse)]
        id: SessionId,
    },
}

pub(super) fn run(app: &App, action: Action) -> anyhow::Result<Exit> {
    match action {
        Action::List => list(app),
        Action::Show { id } => show(app, &id),
        Action::Verify { id } => verify(app, &id),
        Action::Path { id } => path(app, &id),
    }
}

fn parse(id: &str) -> Result<SessionId, &'static str> {
    SessionId::parse(id).ok_or("not a session id; `bridle sessions list` names them")
}

fn list(app: &App) -> anyhow::Result<Exit> {
    let listing = app.store().list()?;
    let mut out = std::io::stdout().lock();
    for row in &listing.sessions {
        let (id, cwd) = (&row.header.id, row.header.cwd.display());
        let title = row.title.as_deref().unwrap_or("(no title)");
        writeln!(out, "{id}  {}  {cwd}  {}", time(row.updated_at), title.escape_debug())?;
    }
    for (id, error) in &listing.unreadable {
        say(format_args!("unreadable: {id}: {error}"));
    }
    Ok(if listing.unreadable.is_empty() { Exit::Done } else { Exit::Failed })
}

/// UTC to the second.
fn time(millis: UnixMillis) -> String {
    let millis = i64::try_from(millis.0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(millis)
        .map_or_else(|_| "?".to_owned(), |time| format!("{time:.0}"))
}

fn show(app: &App, id: &SessionId) -> anyhow::Result<Exit> {
    let log = app.store().read(id)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    writeln!(out, "{}", serde_json::to_string(&**log.session.header())?)?;
    for event in log.session.events() {
        writeln!(out, "{}", event.to_line()?)?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn verify(app: &App, id: &SessionId) -> anyhow::Result<Exit> {
    let log = app.store().read(id)?;
    let mut out = std::io::stdout().lock();
    for damage in &log.recovery.damage {
        writeln!(out, "{id}: {damage}")?;
    }
    let (events, torn) = (log.session.events().len(), log.recovery.torn_bytes);
    let open = log.session.repair().len();
    if torn > 0 {
        writeln!(out, "{id}: {events} events are whole; {torn} bytes behind them are torn")?;
        return Ok(Exit::Failed);
    }
    if !log.recovery.damage.is_empty() {
        writeln!(out, "{id}: the other {events} events are whole and are still loaded")?;
        return Ok(Exit::Failed);
    }
    match open {
        0 => writeln!(out, "{id}: {events} events, whole and at rest")?,
        // A turn may be running now; a load repairs what a crash left.
        open => writeln!(out, "{id}: {events} events, whole; {open} missing ends, as in mid-turn")?,
    }
    Ok(Exit::Done)
}

fn path(app: &App, id: &SessionId) -> anyhow::Result<Exit> {
    let settings = app.settings();
    let Some(state) = &settings.state else { bail!(Places::no_state()) };
    let path = FileStore::new(state).log_path(id)?;
    if !path.try_exists()? {
        return Err(StoreError::NotFound(id.clone()).into());
    }
    writeln!(std::io::stdout().lock(), "{}", path.display())?;
    Ok(Exit::Done)
}
