//! What edits that a server offers would change, line by line. They are shown and never made.

use std::collections::BTreeMap;

use bridle_agent::Location;

use crate::answer::Edits;
use crate::ask::read;
use crate::desk::Desk;
use crate::position::{Encoding, Position, byte_at, lines};
use crate::symbol::quoted;
use crate::tool::Told;
use crate::view::MAX_CHARS;

/// The lines that a rename would change, before and after.
pub(crate) async fn preview(changes: &[Edits], who: &str, encoding: Encoding, desk: &Desk) -> Told {
    let count: usize = changes.iter().map(|change| change.edits.len()).sum();
    let mut text = format!(
        "Renaming would make {count} edits in {} files; nothing was changed ({who})\n",
        changes.len()
    );
    let mut locations = Vec::new();
    for change in changes {
        let part = match read(&desk.project.files, &change.path).await {
            Ok(source) => changed_lines(&source.text, change, encoding),
            Err(_) => BTreeMap::new(),
        };
        text.push_str(&format!("{} ({} edits)\n", desk.shown(&change.path), change.edits.len()));
        for (line, (before, after)) in part {
            let number = line + 1;
            let path = change.path.clone();
            locations.push(Location { path, line: u32::try_from(number).ok() });
            let rows = format!("- {number}: {}\n+ {number}: {}\n", quoted(&before), quoted(&after));
            if text.len() + rows.len() > MAX_CHARS {
                text.push_str("More lines are not shown.\n");
                return Told { text, locations };
            }
            text.push_str(&rows);
        }
    }
    Told { text, locations }
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
