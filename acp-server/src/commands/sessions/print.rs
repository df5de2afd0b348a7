//! What lines on standard output have in common: times, titles, and JSON that a terminal
//! survives.

use std::borrow::Cow;
use std::io::{self, Write};

use bridle_session::{Header, Parent, SessionId, TurnNumber, UnixMillis};
use bridle_store::SessionRow;
use serde::Serialize;

use crate::text;

/// The longest title on a line, in characters.
const TITLE_LIMIT: usize = 80;

/// A session as the commands name it in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row<'a> {
    id: &'a SessionId,
    title: Option<&'a str>,
    folder: Cow<'a, str>,
    created_at: String,
    updated_at: String,
    turns: TurnNumber,
    origin: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<&'a Parent>,
}

impl<'a> Row<'a> {
    pub(super) fn new(row: &'a SessionRow) -> Self {
        let header: &Header = &row.header;
        Self {
            id: &header.id,
            title: row.title(),
            folder: header.cwd.to_string_lossy(),
            created_at: time(header.created_at),
            updated_at: time(row.updated_at()),
            turns: row.summary.turns,
            origin: &header.origin,
            parent: header.parent.as_ref(),
        }
    }
}

/// One JSON value on one line. Characters that a terminal acts on or hides are escaped in it.
pub(super) fn json(out: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let line = serde_json::to_string(value).map_err(io::Error::from)?;
    writeln!(out, "{}", text::visible_json(&line))
}

/// UTC to the second, in ISO 8601.
pub(super) fn time(millis: UnixMillis) -> String {
    timestamp(millis).map_or_else(|| "?".to_owned(), |time| format!("{time:.0}"))
}

/// UTC to the minute, for reading.
pub(super) fn minute(millis: UnixMillis) -> String {
    let shown = timestamp(millis).map(|time| time.strftime("%Y-%m-%d %H:%M").to_string());
    shown.unwrap_or_else(|| "?".to_owned())
}

fn timestamp(millis: UnixMillis) -> Option<jiff::Timestamp> {
    jiff::Timestamp::from_millisecond(i64::try_from(millis.0).ok()?).ok()
}

/// A title on one line.
pub(super) fn shown_title(title: Option<&str>) -> String {
    title.map_or_else(
        || "(no title)".to_owned(),
        |title| text::shorten(&text::visible(title), TITLE_LIMIT),
    )
}
