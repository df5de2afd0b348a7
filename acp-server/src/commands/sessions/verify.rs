//! `bridle sessions verify`: whether logs are whole and fold.

use std::io::{self, Write};

use bridle_session::SessionId;
use bridle_store::{Damage, FileStore, SessionStore as _, StoreError, VerifyReport};
use clap::Args;
use serde_json::{Value, json};

use super::reference::Reference;
use super::{Exit, failure, print, progress};

#[derive(Debug, Args)]
pub(in crate::commands) struct Arguments {
    /// The sessions: ids, beginnings of ids, or `last`.
    #[arg(value_name = "ID", required_unless_present = "all")]
    sessions: Vec<Reference>,
    /// Check every stored session.
    #[arg(long, conflicts_with = "sessions")]
    all: bool,
    /// Print one JSON object a line: id, ok, events, frames, bytes, damage (offset, bytes, lost),
    /// tornAt, tornBytes, missingEnds, error.
    #[arg(long)]
    json: bool,
}

pub(super) fn run(store: &FileStore, arguments: &Arguments) -> anyhow::Result<Exit> {
    let ids = match arguments.all {
        true => store.ids()?,
        false => arguments
            .sessions
            .iter()
            .map(|session| session.resolve(store))
            .collect::<anyhow::Result<_>>()?,
    };
    let bar = progress::bar("checking", ids.len());
    let mut out = io::stdout().lock();
    let mut all_whole = true;
    for id in &ids {
        let verdict = store.verify(id);
        bar.inc(1);
        if matches!(verdict, Err(StoreError::NotFound(_))) && arguments.all {
            // Its creation was never acknowledged to anyone.
            continue;
        }
        all_whole &= verdict.as_ref().is_ok_and(is_whole);
        bar.suspend(|| match arguments.json {
            true => print::json(&mut out, &as_json(id, &verdict)),
            false => tell(&mut out, id, verdict),
        })?;
    }
    bar.finish_and_clear();
    Ok(if all_whole { Exit::Done } else { Exit::Failed })
}

fn is_whole(report: &VerifyReport) -> bool {
    report.damage.is_empty() && report.torn_bytes == 0 && report.fold.is_ok()
}

fn tell(
    out: &mut impl Write,
    id: &SessionId,
    verdict: Result<VerifyReport, StoreError>,
) -> io::Result<()> {
    let report = match verdict {
        Ok(report) => report,
        Err(error) => return writeln!(out, "{id}: {:#}", failure(error)),
    };
    let VerifyReport { events, bytes, damage, torn_bytes, fold, .. } = report;
    for damage in &damage {
        writeln!(out, "{id}: {damage}")?;
    }
    if torn_bytes > 0 {
        writeln!(
            out,
            "{id}: torn from byte {bytes} to the end ({torn_bytes} bytes); the next load sets them \
             aside"
        )?;
    }
    let is_damaged = !damage.is_empty() || torn_bytes > 0;
    match fold {
        Err(error) => writeln!(out, "{id}: does not fold: {error}"),
        Ok(_) if is_damaged => writeln!(out, "{id}: the {events} events that are left are whole"),
        Ok(0) => writeln!(out, "{id}: {events} events, whole and at rest"),
        // A turn may be running now; a load repairs what a crash left.
        Ok(open) => {
            writeln!(out, "{id}: {events} events, whole; {open} missing ends, as in mid-turn")
        }
    }
}

fn as_json(id: &SessionId, verdict: &Result<VerifyReport, StoreError>) -> Value {
    let report = match verdict {
        Ok(report) => report,
        Err(error) => return json!({"id": id, "ok": false, "error": error.to_string()}),
    };
    let lost = |damage: &Damage| {
        let lost = damage.lost.as_ref();
        lost.map(|lost| json!({"first": lost.first, "last": lost.last}))
    };
    let damage = report.damage.iter().map(
        |damage| json!({"offset": damage.offset, "bytes": damage.bytes, "lost": lost(damage)}),
    );
    json!({
        "id": id,
        "ok": is_whole(report),
        "events": report.events,
        "frames": report.frames,
        "bytes": report.bytes,
        "damage": damage.collect::<Vec<_>>(),
        "tornAt": (report.torn_bytes > 0).then_some(report.bytes),
        "tornBytes": report.torn_bytes,
        "missingEnds": report.fold.as_ref().ok(),
        "error": report.fold.as_ref().err(),
    })
}
