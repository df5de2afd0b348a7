//! `bridle sessions list`.

use std::io::Write as _;

use bridle_store::{FileStore, SessionStore as _};
use clap::Args;
use serde_json::json;

use super::filter::Filter;
use super::print::{self, Row, shown_title, time};
use super::{Exit, say};
use crate::text;

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    #[command(flatten)]
    filter: Filter,
    /// Print one JSON object a line: id, title, folder, createdAt, updatedAt, turns, origin, parent; or
    /// id and error for a session that cannot be read.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let selection = arguments.filter.resolve()?;
    let listing = store.list()?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    for row in listing.sessions.iter().filter(|row| selection.admits(row)) {
        if arguments.json {
            print::json(&mut out, &Row::new(row))?;
            continue;
        }
        let folder = row.header.cwd.to_string_lossy();
        let (id, folder) = (&row.header.id, text::visible(&folder));
        let title = shown_title(row.title());
        writeln!(out, "{id}  {}  {folder}  {title}", time(row.updated_at()))?;
    }
    // What cannot be read may be of any folder and age.
    for (id, error) in &listing.unreadable {
        if arguments.json {
            print::json(&mut out, &json!({"id": id, "error": error.to_string()}))?;
        } else {
            say(format_args!("unreadable: {error}"));
        }
    }
    out.flush()?;
    Ok(if listing.unreadable.is_empty() { Exit::Done } else { Exit::Failed })
}
