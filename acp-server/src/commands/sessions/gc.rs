//! `bridle sessions gc`: what nobody needs goes.

use std::io::{self, Write};
use std::time::SystemTime;

use bridle_store::{FileStore, GcPolicy, GcReport, SessionStore as _};
use clap::Args;
use serde_json::{Value, json};

use super::{Exit, failure, print, progress, say, words};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// Only say what would be removed.
    #[arg(long)]
    dry_run: bool,
    /// Print one JSON object: dryRun, sessions, blobs, drafts, bytes, unreadable (id, error).
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let spinner = progress::spinner("looking through the sessions");
    let policy = GcPolicy { dry_run: arguments.dry_run, ..GcPolicy::at(SystemTime::now()) };
    let report = store.collect(&policy);
    spinner.finish_and_clear();
    let report = report.map_err(failure)?;
    let mut out = io::stdout().lock();
    match arguments.json {
        true => print::json(&mut out, &as_json(&report, arguments.dry_run))?,
        false => tell(&mut out, &report, arguments.dry_run)?,
    }
    Ok(if report.unreadable.is_empty() { Exit::Done } else { Exit::Failed })
}

fn tell(out: &mut impl Write, report: &GcReport, dry_run: bool) -> io::Result<()> {
    let drafts = usize::try_from(report.drafts).unwrap_or(usize::MAX);
    writeln!(
        out,
        "{} {}, {} that nothing names, {}: {}",
        if dry_run { "would remove" } else { "removed" },
        words::count(report.sessions.len(), "empty session"),
        words::count(report.blobs.len(), "blob"),
        words::count(drafts, "unfinished file"),
        words::bytes(report.bytes),
    )?;
    for id in &report.sessions {
        writeln!(out, "  {id}")?;
    }
    if !report.unreadable.is_empty() {
        let count = words::count(report.unreadable.len(), "session");
        say(format_args!("bridle: blobs stay, because {count} that may name them cannot be read:"));
    }
    for (_, error) in &report.unreadable {
        say(format_args!("  {error}"));
    }
    Ok(())
}

fn as_json(report: &GcReport, dry_run: bool) -> Value {
    let unreadable = report.unreadable.iter();
    let unreadable = unreadable.map(|(id, error)| json!({"id": id, "error": error.to_string()}));
    json!({
        "dryRun": dry_run,
        "sessions": report.sessions,
        "blobs": report.blobs,
        "drafts": report.drafts,
        "bytes": report.bytes,
        "unreadable": unreadable.collect::<Vec<_>>(),
    })
}
