//! What edits that a server offers would change: files that would be made, renamed or deleted, and in files
//! line by line. They are shown and never made.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use bridle_agent::Location;

use crate::answer::changes::{Change, Edits, FileChange};
use crate::ask::read;
use crate::desk::Desk;
use crate::position::{Encoding, Position, byte_at, lines};
use crate::symbol::quoted;
use crate::tool::Told;
use crate::view::MAX_CHARS;

/// What a rename would change: files, and lines before and after.
pub(crate) async fn preview(
    changes: &[Change],
    who: &str,
    encoding: Encoding,
    desk: &Desk,
) -> Told {
    let mut told = Told { text: head(changes, who), ..Told::default() };
    for change in changes {
        let rows = match change {
            Change::File(change) => vec![(None, file_row(change, desk))],
            Change::Edits(edits) => {
                let name = format!("{} ({})\n", desk.shown(&edits.path), count(edits));
                let head = std::iter::once((None, name));
                match text_of(&edits.path, changes, desk).await {
                    Some(text) => head.chain(line_rows(&text, edits, encoding)).collect(),
                    None => {
                        let why = "(it cannot be read: its lines are not shown)\n".to_owned();
                        head.chain([(None, why)]).collect()
                    }
                }
            }
        };
        for (location, row) in rows {
            if told.text.len() + row.len() > MAX_CHARS {
                told.text.push_str("More is not shown.\n");
                return told;
            }
            told.text.push_str(&row);
            told.locations.extend(location);
        }
    }
    told
}

/// How much would change, in one line.
fn head(changes: &[Change], who: &str) -> String {
    let edits = changes.iter().filter_map(|change| match change {
        Change::Edits(edits) => Some(edits.edits.len()),
        Change::File(_) => None,
    });
    let (in_files, number) = (edits.clone().count(), edits.sum::<usize>());
    let of_files = match changes.len() - in_files {
        0 => String::new(),
        1 => " and create, rename or delete 1 file".to_owned(),
        several => format!(" and create, rename or delete {several} files"),
    };
    format!(
        "Renaming would make {number} edits in {in_files} files{of_files}; nothing was changed ({who})\n"
    )
}

fn count(edits: &Edits) -> String {
    match edits.edits.len() {
        1 => "1 edit".to_owned(),
        several => format!("{several} edits"),
    }
}

fn file_row(change: &FileChange, desk: &Desk) -> String {
    match change {
        FileChange::Created(path) => format!("create {}\n", desk.shown(path)),
        FileChange::Renamed { from, to } => {
            format!("rename {} to {}\n", desk.shown(from), desk.shown(to))
        }
        FileChange::Deleted(path) => format!("delete {}\n", desk.shown(path)),
    }
}

/// The text that edits of a file are for: of one that is made, none; of one that gets this name, that of the
/// old one. `None` where it cannot be read.
async fn text_of(path: &PathBuf, changes: &[Change], desk: &Desk) -> Option<Arc<str>> {
    let files = &desk.project.files;
    if let Ok(source) = read(files, path).await {
        return Some(source.text);
    }
    for change in changes {
        match change {
            Change::File(FileChange::Created(new)) if new == path => return Some("".into()),
            Change::File(FileChange::Renamed { from, to }) if to == path => {
                return read(files, from).await.ok().map(|source| source.text);
            }
            _ => {}
        }
    }
    None
}

/// The lines that change, each with its place.
fn line_rows(
    text: &str,
    edits: &Edits,
    encoding: Encoding,
) -> impl Iterator<Item = (Option<Location>, String)> {
    changed_lines(text, edits, encoding).into_iter().map(|(line, (before, after))| {
        let number = line + 1;
        let mut row = format!("- {number}: {}\n", quoted(&before));
        for after in lines(&after) {
            row.push_str(&format!("+ {number}: {}\n", quoted(after)));
        }
        let path = edits.path.clone();
        (Some(Location { path, line: u32::try_from(number).ok() }), row)
    })
}

/// Each line that edits begin on, before and after them.
fn changed_lines(
    text: &str,
    change: &Edits,
    encoding: Encoding,
) -> BTreeMap<usize, (String, String)> {
    let mut changed = BTreeMap::new();
    for (range, _) in &change.edits {
        let line = range.start.line;
        let begin = byte_at(text, Position { line, column: 0 }, encoding);
        let Some(before) = lines(text.get(begin..).unwrap_or_default()).next() else {
            continue;
        };
        let mut after = before.to_owned();
        let on_line = change.edits.iter().rev().filter(|(other, _)| other.start.line == line);
        for (other, new) in on_line {
            let place = |position| byte_at(text, position, encoding).saturating_sub(begin);
            let (start, end) = (place(other.start), place(other.end).min(after.len()));
            if start <= end && after.is_char_boundary(start) && after.is_char_boundary(end) {
                after.replace_range(start..end, new);
            }
        }
        changed.insert(line, (before.to_owned(), after));
    }
    changed
}
