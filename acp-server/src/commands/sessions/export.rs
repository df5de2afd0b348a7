//! `bridle sessions export`: sessions as files that leave Bridle. A file appears whole, under its
//! own name, and in the place of another one only on demand.

pub(super) mod html;
pub(super) mod markdown;
mod prose;

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use bridle_session::{EventData, SessionId};
use bridle_store::{FileStore, SessionStore as _};
use clap::{Args, ValueEnum};

use super::filter::Filter;
use super::reference::Reference;
use super::report::Report;
use super::{Exit, failure, progress, read, say, words};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The sessions: ids, beginnings of ids, or `last`.
    #[arg(value_name = "ID", required_unless_present = "all")]
    sessions: Vec<Reference>,
    /// Export every session that the filters admit.
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    #[command(flatten)]
    filter: Filter,
    /// What to write. Without it, the ending of the output file decides.
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Where to write: a file, or a folder that gets one file for each session. Without it, one
    /// session goes to standard output.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long)]
    force: bool,
}

/// What an export is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The header and the events exactly as they are stored, one JSON object a line.
    Jsonl,
    /// Plain Markdown.
    Markdown,
    /// One page that needs nothing else.
    Html,
}

impl Format {
    fn extension(self) -> &'static str {
        match self {
            Self::Jsonl => "jsonl",
            Self::Markdown => "md",
            Self::Html => "html",
        }
    }

    fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "jsonl" => Some(Self::Jsonl),
            "md" | "markdown" => Some(Self::Markdown),
            "html" | "htm" => Some(Self::Html),
            _ => None,
        }
    }
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    if !arguments.all && !arguments.filter.is_empty() {
        bail!("the filters choose among all sessions; add --all, or leave the ids out");
    }
    let format = match (arguments.format, &arguments.output) {
        (Some(format), _) => format,
        (None, Some(output)) if !output.is_dir() => Format::of(output).with_context(|| {
            format!("{} does not tell the format; add --format", output.display())
        })?,
        _ => bail!("add --format html, --format markdown or --format jsonl"),
    };
    let ids = chosen(store, arguments)?;
    match &arguments.output {
        Some(folder) if folder.is_dir() => {
            return to_folder(store, &ids, format, folder, arguments.force);
        }
        _ if ids.len() != 1 => bail!(
            "{} sessions need --output with a folder that exists: one file is for one session",
            ids.len()
        ),
        _ => {}
    }
    let [id] = ids.as_slice() else { return Ok(Exit::Done) };
    let bytes = render(store, id, format)?;
    match &arguments.output {
        Some(path) => publish(path, &bytes, arguments.force)?,
        None => io::stdout().lock().write_all(&bytes)?,
    }
    Ok(Exit::Done)
}

fn chosen(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Vec<SessionId>> {
    if !arguments.all {
        return arguments.sessions.iter().map(|session| session.resolve(store)).collect();
    }
    let selection = arguments.filter.resolve()?;
    let listing = store.list()?;
    for (_, error) in &listing.unreadable {
        say(format_args!("bridle: left out: {error}"));
    }
    let rows = listing.sessions.iter().filter(|row| selection.admits(row));
    Ok(rows.map(|row| row.header.id.clone()).collect())
}

/// One file for each session, named by its id. One that fails does not keep the others back.
fn to_folder(
    store: &FileStore,
    ids: &[SessionId],
    format: Format,
    folder: &Path,
    force: bool,
) -> anyhow::Result<Exit> {
    let bar = progress::bar("exporting", ids.len());
    let mut exit = Exit::Done;
    for id in ids {
        let path = folder.join(format!("{id}.{}", format.extension()));
        let written = bar.suspend(|| render(store, id, format));
        if let Err(error) = written.and_then(|bytes| publish(&path, &bytes, force)) {
            exit = Exit::Failed;
            bar.suspend(|| say(format_args!("bridle: {error:#}")));
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(exit)
}

fn render(store: &FileStore, id: &SessionId, format: Format) -> anyhow::Result<Vec<u8>> {
    if format == Format::Jsonl {
        let lines = store.lines(id).map_err(failure)?;
        // Of a log that does not fold nobody knows what it needs.
        if let Ok(log) = store.read(id) {
            say_blobs(id, log.session.blobs().len());
        }
        return Ok(lines);
    }
    let log = read(store, id)?;
    if format == Format::Markdown {
        // It says nothing of what files held before they were changed.
        let events = log.session.events().iter();
        let shown = events.filter(|event| !matches!(event.data, EventData::FileKept(_)));
        say_blobs(id, shown.flat_map(|event| event.blobs()).collect::<BTreeSet<_>>().len());
    }
    let report = Report::of(&log.session);
    let text = match format {
        Format::Markdown => markdown::render(&report),
        _ => html::render(&report, store),
    };
    Ok(text.into_bytes())
}

/// What an export names and does not hold.
fn say_blobs(id: &SessionId, blobs: usize) {
    if blobs > 0 {
        let blobs = words::count(blobs, "blob");
        say(format_args!("bridle: {id}: the export names {blobs} of Bridle's state folder"));
    }
}

/// Writes a private file beside its name and then gives it the name.
fn publish(path: &Path, bytes: &[u8], force: bool) -> anyhow::Result<()> {
    let at = || path.display().to_string();
    match fs_err::symlink_metadata(path) {
        Ok(there) if !there.is_file() => bail!("{} is not a regular file; name another", at()),
        Ok(_) if !force => bail!("{} exists; name another file, or add --force", at()),
        _ => {}
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".bridle-export-")
        .tempfile_in(folder)
        .with_context(|| format!("cannot write in {}", folder.display()))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).with_context(at)?;
    let named = if force { file.persist(path) } else { file.persist_noclobber(path) };
    named.map(drop).map_err(|failed| failed.error).with_context(at)
}
